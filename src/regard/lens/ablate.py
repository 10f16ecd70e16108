"""A copy of a model with interventions applied. It shares the weights of the original, which never changes.

B batch, H heads, T queries, S keys, K d_k, D d_model
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from random import Random
from typing import Self, TypeVar

import torch
from torch import Tensor, nn

from regard.lens.interventions import Interventions
from regard.models.transformer import Transformer
from regard.nn import KeyValues, LearnedPositions, MultiHeadAttention, Trace

AnyModule = TypeVar("AnyModule", bound=nn.Module)

_SHUFFLE_SEED = 1

# kind of attention, stack of layers, module in a layer
_MODULES = (
    ("encoder", "encoder", "self_attention"),
    ("decoder", "decoder", "self_attention"),
    ("cross", "decoder", "cross_attention"),
)


def ablate(model: Transformer, interventions: Interventions, n_src: int) -> Transformer:
    """Apply interventions to a copy; without any, return the model. Positions are shuffled in blocks of `n_src`."""
    if not interventions:
        return model
    ablated = shared_copy(model)
    if interventions.positions != "normal":
        for side in (ablated.source, ablated.target):
            side.positions = (
                ShuffledPositions(side.positions, n_src)
                if interventions.positions == "shuffled"
                else NoPositions(model)
            )
    for attention, stack, name in _MODULES:
        for number, layer in enumerate(getattr(ablated, stack)):
            heads = {head.head for head in interventions.heads_off if head[:2] == (attention, number)}
            sees_future = attention == "decoder" and not interventions.mask
            setattr(layer, name, AblatedAttention.of(getattr(layer, name), heads, interventions.scale, sees_future))
    return ablated


def without_head(layer: AnyModule, attention: str, head: int) -> AnyModule:
    """A copy of a layer without one head of its "encoder", "decoder" or "cross" attention."""
    ablated = shared_copy(layer)
    name = {kind: module for kind, _, module in _MODULES}[attention]
    setattr(ablated, name, AblatedAttention.of(getattr(ablated, name), {head}))
    return ablated


def shared_copy(module: AnyModule) -> AnyModule:
    """New modules around the same tensors; a hundred times faster than a deep copy."""
    copied = module.__new__(type(module))
    copied.__dict__.update(module.__dict__)
    children = {name: None if child is None else shared_copy(child) for name, child in module._modules.items()}
    own = {"_parameters": dict(module._parameters), "_buffers": dict(module._buffers), "_modules": children}
    copied.__dict__.update(own)
    return copied


class AblatedAttention(MultiHeadAttention):
    """Attention with some heads set to zero, without scaling, or without the causal mask."""

    heads_off: list[int]
    sees_future: bool

    @classmethod
    def of(
        cls, attention: MultiHeadAttention, heads_off: Collection[int], scale: bool = True, sees_future: bool = False
    ) -> Self:
        """Replaces a module of a copied model and shares its weights."""
        ablated = cls.__new__(cls)
        ablated.__dict__.update(attention.__dict__)
        ablated.heads_off, ablated.sees_future = sorted(heads_off), sees_future
        if not scale and ablated.kind == "scaled_dot_product":
            ablated.kind = "dot_product"
        return ablated

    def attend_per_head(
        self, q: Tensor, kv: KeyValues, visible: Tensor | None, causal: bool, trace: Trace | None = None
    ) -> Tensor:
        """(B, H, T, K), exactly zero where a head is off."""
        heads = super().attend_per_head(q, kv, visible, causal and not self.sees_future, trace)
        return heads.index_fill(1, torch.tensor(self.heads_off, device=heads.device), 0.0) if self.heads_off else heads


class NoPositions(nn.Module):
    """Zeros: the model gets no information about word order."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self._like = model.output_weight.detach()

    def forward(self, n_positions: int, first: int = 0) -> Tensor:
        """(T, D)."""
        return self._like.new_zeros(n_positions, self._like.shape[-1])


class ShuffledPositions(nn.Module):
    """The model's positional encoding in a fixed random order.

    Positions are shuffled within blocks of `n_src`. So the source is shuffled as a whole, the target can still grow
    token by token, and no position appears that a sentence of this length would not have.
    """

    def __init__(self, positions: nn.Module, n_src: int) -> None:
        super().__init__()
        self.positions = positions
        self.n_src = n_src
        self.limit = len(positions.table) if isinstance(positions, LearnedPositions) else None

    def forward(self, n_positions: int, first: int = 0) -> Tensor:
        """(T, D) for positions first … first + n_positions - 1."""
        shuffled = [self.shuffled(i) for i in range(first, first + n_positions)]
        table: Tensor = self.positions(max(shuffled) + 1)
        return table[shuffled]

    def shuffled(self, position: int) -> int:
        """The position used in place of this one."""
        block, offset = divmod(position, self.n_src)
        start = block * self.n_src
        size = self.n_src if self.limit is None else min(self.n_src, self.limit - start)
        return start + _permutation(size, _SHUFFLE_SEED + block)[offset]


@lru_cache
def _permutation(size: int, seed: int) -> tuple[int, ...]:
    """0 … size - 1 in random order; never the identity, unless there is only one element."""
    order, rng = list(range(size)), Random(seed)
    while size > 1 and order == sorted(order):
        rng.shuffle(order)
    return tuple(order)
