"""How a finished model is run, whatever runs it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from regard.decoding import DecodingOptions, Hypothesis
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.artifact import Description

EngineName = Literal["auto", "ctranslate2", "torch"]
Precision = Literal["int8", "float32"]
Ids = Sequence[int]
NBestLists = list[list[Hypothesis]]  # for each source its hypotheses, best first


class PendingHypotheses:
    """The hypotheses that an engine is computing. Like a future: `result()` waits for them."""

    def __init__(self, wait: Callable[[], NBestLists]) -> None:
        self._wait = wait

    def result(self) -> NBestLists:
        return self._wait()


class Engine(Protocol):
    """Ids in, ids out. Thread-safe. Order, batches and finished sentences leaving are the engine's own business."""

    name: str

    def translate(
        self,
        sources: Sequence[Ids],
        options: DecodingOptions,
        prefixes: Sequence[Ids] | None = None,
        with_attention: bool = False,
    ) -> NBestLists:
        """For each source (ids without end symbol), its `n_best` hypotheses, best first.

        `prefixes` are ids that the translations must begin with (they are part of the result).
        `with_attention` fills in `Hypothesis.attention` from the model's alignment head.
        """
        ...

    def submit(
        self,
        sources: Sequence[Ids],
        options: DecodingOptions,
        prefixes: Sequence[Ids] | None = None,
        with_attention: bool = False,
    ) -> PendingHypotheses:
        """Like `translate`, but returns at once: an engine with its own threads computes in the background."""
        ...

    def score(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Hypothesis]:
        """The given targets as hypotheses: forced decoding."""
        ...

    def close(self) -> None:
        """Give back threads and memory."""
        ...


def load_engine(described: Description, engine: EngineName, precision: Precision, threads: int | None) -> Engine:
    """`auto` is CTranslate2 where the model directory has it, torch elsewhere."""
    if engine not in get_args(EngineName):
        raise UserError(f"no engine is called {engine!r}", hint=f"one of {', '.join(get_args(EngineName))}")
    converted = any(name.startswith("ctranslate2/") for name in described.files)
    if engine == "ctranslate2" and not converted:
        raise UserError(f"{described.directory} can not run on CTranslate2", hint="use --engine torch")
    if engine == "torch" or not converted:
        from regard.artifact import load_model
        from regard.engines.torch_engine import TorchEngine

        return TorchEngine(load_model(described.directory), n_threads=threads)
    from regard.engines.ctranslate2.engine import CTranslate2Engine

    return CTranslate2Engine(
        described.directory / "ctranslate2",
        compute_type=precision,
        n_threads=threads,
        n_symbols=(described.tokenizers.source.size, described.tokenizers.target.size),
    )


def n_cores() -> int:
    """Those that this process may use; where the system does not say (macOS), all of them."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
