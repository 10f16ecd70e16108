"""A copy of a model with interventions applied. It shares the weights of the original, which never changes.

What can be changed is asked of the modules: attention that can be `ablated`, and modules of positions.

T positions, D size of a vector
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import lru_cache
from random import Random
from typing import Any, Protocol, TypeVar, get_args, runtime_checkable

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.lens.anatomy import all_attentions, all_heads, head_ranges
from regard.lens.interventions import Attention, Interventions, Positions
from regard.models import TranslationModel, model_sites
from regard.nn import Positions as PositionsModule

AnyModule = TypeVar("AnyModule", bound=nn.Module)

_SHUFFLE_SEED = 1


@runtime_checkable
class AblatableAttention(Protocol):
    """What an attention module offers, so that its heads, its scale and its causal mask can be removed."""

    has_scale: bool

    def ablated(self, heads_off: Collection[int], scale: bool, sees_future: bool) -> Any: ...


def ablate(model: TranslationModel, interventions: Interventions, n_src: int) -> TranslationModel:
    """Apply interventions to a copy; without any, return the model. Positions are shuffled in blocks of `n_src`."""
    if not interventions:
        return model
    ablated = shared_copy(model)
    if interventions.positions != "normal":
        for path, positions in position_modules(model):
            is_shuffled = interventions.positions == "shuffled"
            ablated.set_submodule(path, ShuffledPositions(positions, n_src) if is_shuffled else NoPositions(positions))
    for attention, layer, path, module in _ablatable(model):
        heads = {head.head for head in interventions.heads_off if head[:2] == (attention, layer)}
        sees_future = attention == "decoder" and not interventions.mask
        ablated.set_submodule(path, module.ablated(heads, interventions.scale, sees_future))
    return ablated


def possible_interventions(model: TranslationModel) -> dict[str, bool]:
    """Which interventions a model offers, by the names of their fields."""
    ablatable = list(_ablatable(model))
    return {
        "heads_off": bool(ablatable),
        "scale": any(module.has_scale for _, _, _, module in ablatable),
        "mask": any(attention == "decoder" for attention, _, _, _ in ablatable),
        "positions": any(True for _ in position_modules(model)),
    }


def check_interventions(interventions: Interventions, model: TranslationModel) -> None:
    """Raise UserError for what the model does not have and for unknown settings."""
    possible, heads = possible_interventions(model), all_heads(model_sites(model))
    if missing := interventions.heads_off.difference(heads if possible["heads_off"] else ()):
        hint = f"it has {head_ranges(heads)}, counted from 0" if heads else "it has no attention"
        raise UserError(f"this model has no head {min(missing, key=str)}", hint=hint)
    if not (interventions.scale or possible["scale"]):
        raise UserError("this model's attention has no scale to remove", hint="only scaled_dot_product divides by √d_k")
    if not (interventions.mask or possible["mask"]):
        raise UserError("this model has no mask to remove", hint="only attention over the translation needs one")
    if interventions.positions not in get_args(Positions):
        raise UserError(
            f"positions cannot be {interventions.positions!r}", hint=f"use one of {', '.join(get_args(Positions))}"
        )
    if interventions.positions != "normal" and not possible["positions"]:
        raise UserError("this model has no vectors of positions", hint="it knows the order of words in another way")


def _ablatable(model: TranslationModel) -> Iterator[tuple[Attention, int, str, AblatableAttention]]:
    """The attention that can be ablated, with its layer, path and module."""
    for attention, layer, site in all_attentions(model_sites(model)):
        module = model.get_submodule(site.module)
        if isinstance(module, AblatableAttention):
            yield attention, layer, site.module, module


def position_modules(model: nn.Module) -> Iterator[tuple[str, PositionsModule]]:
    """The modules of positions, by path."""
    for path, module in model.named_modules(remove_duplicate=False):
        if isinstance(module, PositionsModule):
            yield path, module


def shared_copy(module: AnyModule) -> AnyModule:
    """New modules around the same tensors; a hundred times faster than a deep copy."""
    copied = module.__new__(type(module))
    copied.__dict__.update(module.__dict__)
    children = {name: None if child is None else shared_copy(child) for name, child in module._modules.items()}
    own = {"_parameters": dict(module._parameters), "_buffers": dict(module._buffers), "_modules": children}
    copied.__dict__.update(own)
    return copied


class NoPositions(PositionsModule):
    """Zeros: the model gets no information about word order."""

    def __init__(self, positions: PositionsModule) -> None:
        super().__init__()
        self.positions, self.limit = positions, positions.limit

    def forward(self, n_positions: int, first: int = 0) -> Tensor:
        """(T, D)."""
        return torch.zeros_like(self.positions(n_positions, first))


class ShuffledPositions(PositionsModule):
    """The model's positional encoding in a fixed random order.

    Positions are shuffled within blocks of `n_src`. So the source is shuffled as a whole, the target can still grow
    token by token, and no position appears that a sentence of this length would not have.
    """

    def __init__(self, positions: PositionsModule, n_src: int) -> None:
        super().__init__()
        self.positions, self.limit, self.n_src = positions, positions.limit, n_src

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
