"""How a finished model is run, whatever runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from regard.decoding import DecodingOptions, Hypothesis

Ids = Sequence[int]
Found = list[list[Hypothesis]]  # for each source its hypotheses, best first


class Engine(Protocol):
    """Ids in, ids out. Thread-safe. Order, batches and finished sentences leaving are the engine's own business."""

    name: str

    def translate(
        self,
        sources: Sequence[Ids],
        options: DecodingOptions,
        prefixes: Sequence[Ids] | None = None,
        with_attention: bool = False,
    ) -> Found:
        """For each source (ids without end symbol), its `n_best` hypotheses, best first.

        `prefixes` are ids that the translations must begin with (they are part of the result).
        `with_attention` fills in `Hypothesis.attention` from the model's alignment head.
        """
        ...

    def begin(
        self,
        sources: Sequence[Ids],
        options: DecodingOptions,
        prefixes: Sequence[Ids] | None = None,
        with_attention: bool = False,
    ) -> Callable[[], Found]:
        """As `translate`, but an engine with threads of its own goes to work and returns at once.

        What is returned waits for the end of it and gives what was found.
        """
        ...

    def score(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Hypothesis]:
        """The given targets as hypotheses: forced decoding."""
        ...

    def close(self) -> None:
        """Give back threads and memory."""
        ...
