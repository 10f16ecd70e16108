"""A model with something changed, beside the model as it was: its weights are shared, nothing is written to them.

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


def altered(model: Transformer, interventions: Interventions, n_src: int) -> Transformer:
    """The model with the interventions; itself when there are none. `n_src` positions are shuffled at a time."""
    if not interventions:
        return model
    changed = shared_copy(model)
    if interventions.positions != "normal":
        for side in (changed.source, changed.target):
            side.positions = (
                ShuffledPositions(side.positions, n_src)
                if interventions.positions == "shuffled"
                else NoPositions(model)
            )
    for attention, stack, name in _PLACES:
        for number, layer in enumerate(getattr(changed, stack)):
            heads = {head.head for head in interventions.heads_off if head[:2] == (attention, number)}
            sees_future = attention == "decoder" and not interventions.mask
            setattr(layer, name, AlteredAttention.of(getattr(layer, name), heads, interventions.scale, sees_future))
    return changed


# an attention's name, the stack that it stands in, and its module there
_PLACES = (
    ("encoder", "encoder", "self_attention"),
    ("decoder", "decoder", "self_attention"),
    ("cross", "decoder", "cross_attention"),
)


def silenced(layer: AnyModule, attention: str, head: int) -> AnyModule:
    """A layer without one head of its "encoder", "decoder" or "cross" attention."""
    changed = shared_copy(layer)
    name = {place[0]: place[2] for place in _PLACES}[attention]
    setattr(changed, name, AlteredAttention.of(getattr(changed, name), {head}))
    return changed


def shared_copy(module: AnyModule) -> AnyModule:
    """Modules of one's own around the same tensors; a hundred times quicker than a deep copy."""
    copied = module.__new__(type(module))
    copied.__dict__.update(module.__dict__)
    children = {name: None if child is None else shared_copy(child) for name, child in module._modules.items()}
    own = {"_parameters": dict(module._parameters), "_buffers": dict(module._buffers), "_modules": children}
    copied.__dict__.update(own)
    return copied


class AlteredAttention(MultiHeadAttention):
    """Attention where some heads bring back zeros, the scale is left out, or the future is seen."""

    silent: list[int]
    sees_future: bool

    @classmethod
    def of(
        cls, attention: MultiHeadAttention, silent: Collection[int], scale: bool = True, sees_future: bool = False
    ) -> Self:
        """Takes the place of a module of a copy, and its weights."""
        changed = cls.__new__(cls)
        changed.__dict__.update(attention.__dict__)
        changed.silent, changed.sees_future = sorted(silent), sees_future
        if not scale and changed.kind == "scaled_dot_product":
            changed.kind = "dot_product"
        return changed

    def attend_per_head(
        self, q: Tensor, kv: KeyValues, visible: Tensor | None, causal: bool, trace: Trace | None = None
    ) -> Tensor:
        """(B, H, T, K), exactly zero where a head is silent."""
        heads = super().attend_per_head(q, kv, visible, causal and not self.sees_future, trace)
        return heads.index_fill(1, torch.tensor(self.silent, device=heads.device), 0.0) if self.silent else heads


class NoPositions(nn.Module):
    """Zeros: the model can not tell where a word stands."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self._like = model.output_weight.detach()

    def forward(self, n_positions: int, first: int = 0) -> Tensor:
        """(T, D)."""
        return self._like.new_zeros(n_positions, self._like.shape[-1])


class ShuffledPositions(nn.Module):
    """The model's own positions in another order, always the same one.

    The first `n_src` are shuffled among themselves, then the next, and so on. So the source is shuffled as a whole,
    the target has a length of its own and can still grow word by word, and no position comes that a sentence of this
    length would not have.
    """

    def __init__(self, positions: nn.Module, n_src: int) -> None:
        super().__init__()
        self.positions = positions
        self.n_src = n_src
        self.limit = len(positions.table) if isinstance(positions, LearnedPositions) else None

    def forward(self, n_positions: int, first: int = 0) -> Tensor:
        """(T, D) for positions first … first + n_positions - 1."""
        places = [self.place(i) for i in range(first, first + n_positions)]
        table: Tensor = self.positions(max(places) + 1)
        return table[places]

    def place(self, position: int) -> int:
        """Which position stands in for this one."""
        block, inside = divmod(position, self.n_src)
        start = block * self.n_src
        size = self.n_src if self.limit is None else min(self.n_src, self.limit - start)
        return start + _shuffled(size, _SHUFFLE_SEED + block)[inside]


@lru_cache
def _shuffled(size: int, seed: int) -> tuple[int, ...]:
    """0 … size - 1 in another order, as far as there is one."""
    order, rng = list(range(size)), Random(seed)
    while size > 1 and order == sorted(order):
        rng.shuffle(order)
    return tuple(order)
