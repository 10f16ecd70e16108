"""A Transformer encoder that classifies texts: the left half of Figure 1, and one vector per text after it.

Shapes: B batch, T length, D d_model, C classes
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from regard.models.base import TextClassificationModel
from regard.models.config import StackConfig
from regard.nn import (
    Activation,
    Cost,
    Dropout,
    Embedding,
    EncoderLayer,
    InputEmbedding,
    LearnedPositions,
    NoPositions,
    Norm,
    SinusoidalPositions,
    Trace,
    at,
    attention_flops,
    padding_visible,
    product_flops,
)


class EncoderConfig(StackConfig, frozen=True, extra="forbid"):
    """Sizes and variants, with the Transformer's names."""

    n_layers: int = Field(default=1, ge=1, le=1000)
    norm: Norm = "pre"
    positions: Literal["sinusoidal", "learned", "none"] = "sinusoidal"
    max_positions: int = Field(default=512, ge=1, le=1_048_576)  # for learned positions
    activation: Activation = "relu"
    # the vector of a text: the mean or the maximum of its positions, or its first symbol, as in BERT
    pooling: Literal["mean", "max", "first"] = "mean"

    @property
    def layers(self) -> tuple[str, ...]:
        return ("words", *(f"encoder.{i}" for i in range(self.n_layers)))

    @property
    def max_length(self) -> int | None:
        return self.max_positions if self.positions == "learned" else None


PRESETS: dict[str, EncoderConfig] = {
    "tiny": EncoderConfig(n_layers=1, d_model=128, d_ff=256, n_heads=4),
    "small": EncoderConfig(n_layers=4, d_model=256, d_ff=1024, n_heads=4),
}


class EncoderClassifier(TextClassificationModel):
    """Embedding, encoder layers, a vector per text, and a softmax over its classes."""

    def __init__(
        self, config: EncoderConfig, n_symbols: int, n_classes: int, n_segments: int = 1, pad_id: int = 0
    ) -> None:
        super().__init__()
        self.config: EncoderConfig = config
        self.pad_id = pad_id
        d = config.d_model
        self.words = InputEmbedding(Embedding(n_symbols, d), self._positions(), config.dropout)
        self.segments = nn.Embedding(n_segments, d) if n_segments > 1 else None  # the first text of a pair, the second
        layer = (d, config.d_ff, config.n_heads, config.dropout, config.norm, config.activation)
        self.encoder = nn.ModuleList(EncoderLayer(*layer) for _ in range(config.n_layers))
        # pre-norm does not normalise the output of the last layer
        self.encoder_norm = nn.LayerNorm(d) if config.norm == "pre" else nn.Identity()
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(d, n_classes)

    def _positions(self) -> nn.Module:
        if self.config.positions == "learned":
            return LearnedPositions(self.config.d_model, self.config.max_positions)
        return (SinusoidalPositions if self.config.positions == "sinusoidal" else NoPositions)(self.config.d_model)

    def features(self, ids: Tensor, segments: Tensor, trace: Trace | None = None) -> Tensor:
        visible = padding_visible(ids, self.pad_id)  # (B, 1, 1, T)
        x = self.words(ids, trace=at(trace, "words", ("source",)))  # (B, T, D)
        if self.segments is not None:
            x = x + self.segments(segments)
        for i, layer in enumerate(self.encoder):
            x = layer(x, visible, at(trace, f"encoder.{i}", ("source", "source")))
        out: Tensor = self.dropout(self._pool(self.encoder_norm(x), visible))
        return out

    def cost(self, *lengths: int) -> Cost:
        """As of the Transformer's encoder, and of the softmax over the classes."""
        [t] = lengths
        n = len(self.encoder)
        flops = product_flops(t, self.encoder) + n * attention_flops(t, t, self.config.d_model)
        return Cost(flops + product_flops(1, self.output), n, 1)

    def _pool(self, x: Tensor, visible: Tensor | None) -> Tensor:
        """(B, T, D) → (B, D)."""
        if self.config.pooling == "first":
            return x[:, 0]
        is_text = None if visible is None else visible[:, 0, 0, :, None]  # (B, T, 1)
        if self.config.pooling == "max":
            return (x if is_text is None else x.masked_fill(~is_text, float("-inf"))).amax(1)
        return x.mean(1) if is_text is None else (x * is_text).sum(1) / is_text.sum(1)
