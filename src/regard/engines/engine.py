"""The interface of an engine, and the choice of one. Imports no torch until a model needs it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from regard.decoding.options import DecodingOptions, Hypothesis, NBestLists
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.artifact import Description

EngineName = Literal["auto", "ctranslate2", "torch"]
Precision = Literal["int8", "float32"]
Ids = Sequence[int]
PendingHypotheses = Callable[[], NBestLists]  # waits for the hypotheses that an engine is computing


class Engine(ABC):
    """Translates ids to ids. Thread-safe. Batches sentences in any order, and returns results in the given order."""

    name: ClassVar[str]

    def translate(
        self,
        sources: Sequence[Ids],
        options: DecodingOptions,
        prefixes: Sequence[Ids] | None = None,
        with_attention: bool = False,
        *,
        rescore: bool = True,
    ) -> NBestLists:
        """For each source (ids without the end token), its `n_best` hypotheses, best first.

        `prefixes` are ids that the translations must begin with; they are part of the result.
        `with_attention` fills in `Hypothesis.attention` with the weights of the model's alignment head over the
        source without its end token. It stays None if the model names no such head. Without `rescore`, an engine may
        leave the probability of the prefixes out of the scores, which is faster.
        """
        return self.submit(sources, options, prefixes, with_attention)()

    @abstractmethod
    def submit(
        self,
        sources: Sequence[Ids],
        options: DecodingOptions,
        prefixes: Sequence[Ids] | None = None,
        with_attention: bool = False,
    ) -> PendingHypotheses:
        """Like `translate`, but returns at once: an engine with its own threads computes in the background."""

    @abstractmethod
    def score(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Hypothesis]:
        """The given targets as hypotheses, by forced decoding with the default length penalty."""

    @abstractmethod
    def close(self) -> None:
        """Release threads and memory."""


def load_engine(described: Description, engine: EngineName, precision: Precision, threads: int | None) -> Engine:
    """`auto` is CTranslate2 if the model directory has a converted model, else torch."""
    if engine not in get_args(EngineName):
        raise UserError(f"there is no engine {engine!r}", hint=f"use one of {', '.join(get_args(EngineName))}")
    is_converted = any(name.startswith("ctranslate2/") for name in described.files)
    if engine == "ctranslate2" and not is_converted:
        raise UserError(f"{described.directory} cannot run on CTranslate2", hint="use --engine torch")
    if engine == "torch" or not is_converted:
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


def shipped_precision(facts: Mapping[str, Any]) -> Precision:
    """The precision of CTranslate2 by default: int8, unless a model turned out to lose quality with it."""
    return "float32" if facts.get("precision") == "float32" else "int8"
