"""What every translation model can do, so that training, decoding and looking inside serve them all.

B batch, S source, T target, D width of the last layer, V target vocabulary
"""

from __future__ import annotations

from typing import Any, Protocol, Self

from torch import Tensor

from regard.nn import Trace


class Memory(Protocol):
    """What the encoder made of the source."""

    def select(self, rows: Tensor) -> Self: ...


class State(Protocol):
    """What decoding remembers between two steps."""

    def select(self, rows: Tensor) -> Self:
        """Batch rows in another order, repeated or left out."""
        ...


class TranslationModel(Protocol):
    """`forward` for training, `encode / start / step` for decoding: two roads to the same numbers."""

    pad_id: int

    def forward(self, src: Tensor, tgt_in: Tensor, trace: Trace | None = None) -> Tensor:
        """(B, S), (B, T) → logits (B, T, V)."""
        ...

    def features(self, src: Tensor, tgt_in: Tensor, trace: Trace | None = None) -> Tensor:
        """(B, S), (B, T) → (B, T, D): `forward` without its last, largest product."""
        ...

    @property
    def output_weight(self) -> Tensor:
        """(V, D): logits are `features @ output_weight.T`."""
        ...

    def encode(self, src: Tensor, trace: Trace | None = None) -> Any: ...

    def start(self, memory: Any) -> Any:
        """The state before the first symbol."""
        ...

    def step(self, last: Tensor, state: Any) -> tuple[Tensor, Any]:
        """(B,) last symbols → log-probabilities (B, V) of the next ones, and the new state."""
        ...
