"""The Vision Transformer (Dosovitskiy et al., 2021): an image is a sequence of patches, read by a Transformer encoder.

Shapes: B batch, C channels, H rows, W columns, P patch, N patches, D d_model
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.errors import RecipeError
from regard.models.base import ClassificationModel
from regard.models.config import StackConfig
from regard.models.pretraining import set_norm_epsilon
from regard.nn import (
    Activation,
    Cost,
    Dropout,
    EncoderLayer,
    LearnedPositions,
    Linear,
    Trace,
    at,
    attention_flops,
    product_flops,
)

_MAX_PATCH = 4096
_STD = 0.02  # of the initial positions and of the output


class VitConfig(StackConfig, frozen=True, extra="forbid"):
    """Sizes and variants; the names of the paper's table 1 are Layers, Hidden size D, MLP size and Heads."""

    # pixels of a side of a patch; unset: as few as give at most `max_patches`
    patch: int | None = Field(default=None, ge=1, le=_MAX_PATCH)
    max_patches: int = Field(default=64, ge=1, le=1_048_576)
    n_layers: int = Field(default=6, ge=1, le=1000)
    d_model: int = Field(default=96, ge=2, le=65_536, multiple_of=2)
    d_ff: int = Field(default=192, ge=1, le=1_048_576)
    activation: Activation = "gelu"
    norm_epsilon: float = Field(default=1e-5, gt=0, le=0.1)

    @property
    def layers(self) -> tuple[str, ...]:
        return ("patches", *(f"encoder.{i}" for i in range(self.n_layers)))

    def describe(self) -> str:
        patches = f"at most {self.max_patches} patches" if self.patch is None else f"patches of {self.patch} pixels"
        return f"{super().describe()}, {patches}"


PRESETS: dict[str, VitConfig] = {
    "tiny": VitConfig(max_patches=16, n_layers=4, d_model=64, d_ff=128, n_heads=4),
    "small": VitConfig(max_patches=64, n_layers=6, d_model=96, d_ff=192, n_heads=4),
    "base": VitConfig(max_patches=196, n_layers=12, d_model=768, d_ff=3072, n_heads=12),
}


def patch_side(config: VitConfig, height: int, width: int) -> int:
    """The side of the patches of images of this size; raises RecipeError if none of them are whole."""
    sides = [p for p in range(1, min(height, width, _MAX_PATCH) + 1) if height % p == width % p == 0]
    wanted = [p for p in sides if config.patch in (None, p)]
    if config.patch is None:
        wanted = [p for p in wanted if height * width <= config.max_patches * p * p]
    if not wanted:
        raise RecipeError(
            f"images of {height} × {width} pixels cannot be cut into {config.describe().partition(', ')[2]}",
            hint=f"sides of {', '.join(map(str, sides))} are possible; or set data.height and data.width",
        )
    return wanted[0]


class Patches(nn.Module):
    """Equation 1: the patches, flattened and projected, with the class token before them and positions added."""

    matrices: ClassVar[dict[str, int]] = {"project.weight": 1}

    def __init__(self, config: VitConfig, height: int, width: int, n_channels: int) -> None:
        super().__init__()
        self.patch, d = patch_side(config, height, width), config.d_model
        self.project = Linear(n_channels * self.patch**2, d)  # a convolution whose stride is its kernel
        self.class_token = nn.Parameter(torch.zeros(d))
        self.positions = LearnedPositions(d, height * width // self.patch**2 + 1)
        self.dropout = Dropout(config.dropout)
        nn.init.normal_(self.positions.table, std=_STD)
        nn.init.xavier_uniform_(self.project.weight)
        nn.init.zeros_(self.project.bias)

    def forward(self, pixels: Tensor, trace: Trace | None = None) -> Tensor:
        """(B, C, H, W) → (B, 1 + N, D)."""
        b, c, h, w = pixels.shape
        p = self.patch
        cut = pixels.view(b, c, h // p, p, w // p, p).permute(0, 2, 4, 1, 3, 5)  # (B, H/P, W/P, C, P, P)
        projected = self.project(cut.reshape(b, -1, c * p * p))  # (B, N, D)
        embedded = torch.cat([self.class_token.to(projected.dtype).expand(b, 1, -1), projected], 1)  # (B, 1 + N, D)
        position = self.positions(embedded.shape[1])  # (1 + N, D)
        if trace is not None:
            axes = ("source", "unit")
            embedded = trace.record("embedding", embedded, kind="embedding", axes=axes)
            trace.record("position", position[None], kind="vector", axes=axes)  # the same for every image
            trace.record("filters", self.project.weight[None], kind="vector", axes=("unit", "pixel"))
            trace.record("sum", embedded + position, kind="vector", axes=axes)
        out: Tensor = self.dropout(embedded + position)
        return out


class Vit(ClassificationModel):
    """Section 3.1. The class is read from the class token, after a last LayerNorm.

    Of the last layer, only the class token is computed: nothing reads the patches after it.
    """

    config: VitConfig

    def __init__(self, config: VitConfig, *, n_classes: int, height: int, width: int, n_channels: int) -> None:
        super().__init__()
        self.config = config
        d = config.d_model
        self.patches = Patches(config, height, width, n_channels)
        self.encoder = nn.ModuleList(
            EncoderLayer(d, config.d_ff, config.n_heads, config.dropout, "pre", config.activation)
            for _ in range(config.n_layers)
        )
        self.encoder_norm = nn.LayerNorm(d)
        self.output = nn.Linear(d, n_classes)
        nn.init.normal_(self.output.weight, std=_STD)  # the paper's is 0, with which nothing else learns in step 1
        nn.init.zeros_(self.output.bias)
        set_norm_epsilon(self, config.norm_epsilon)

    def features(self, pixels: Tensor, trace: Trace | None = None) -> Tensor:
        """(B, C, H, W) → (B, D): the class token after the last layer."""
        x = self.patches(pixels, at(trace, "patches"))  # (B, 1 + N, D)
        for i, layer in enumerate(self.encoder):
            if trace is None and i == len(self.encoder) - 1:
                x = _first_of(layer, x)  # (B, 1, D)
            else:
                x = layer(x, None, at(trace, f"encoder.{i}", ("source", "source")))
        out: Tensor = self.encoder_norm(x[:, 0])
        return out

    @property
    def cost_lengths(self) -> tuple[int, ...]:
        return (len(self.patches.positions.table) - 1,)

    def cost(self, *lengths: int) -> Cost:
        """`lengths`: patches, which are always the same number; the last layer has one query."""
        [n], config = lengths, self.config
        *others, last = self.encoder
        flops = product_flops(n, self.patches) + product_flops(1, self.output)
        flops += product_flops(n + 1, *others) + len(others) * attention_flops(n + 1, n + 1, config.d_model)
        keys_values = 2 * 2 * (n + 1) * config.d_model**2
        flops += product_flops(1, last) - 2 * 2 * config.d_model**2 + keys_values
        flops += attention_flops(1, n + 1, config.d_model)
        return Cost(flops, config.n_layers, 1, extra=-product_flops(n, self.patches))  # pixels have no gradient


def _first_of(layer: Any, x: Tensor) -> Tensor:
    """(B, T, D) → (B, 1, D): a pre-norm layer, whose queries are of the first position only."""
    attention, feed_forward = layer.residuals
    normed = attention.norm(x)  # (B, T, D)
    first = attention.dropout.add(x[:, :1], layer.self_attention(normed[:, :1], normed))
    out: Tensor = feed_forward(first, layer.feed_forward)
    return out
