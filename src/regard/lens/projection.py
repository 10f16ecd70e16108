"""How one head gets its queries, keys and values: q = xW + bias, with the numbers of one sentence.

T positions, D d_model, K d_k
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from regard.errors import UserError
from regard.lens.ablate import shared_copy
from regard.lens.anatomy import attention_layers
from regard.lens.interventions import Head
from regard.lens.look_json import ArrayFormat, encoder
from regard.models import TranslationModel, model_sites


@runtime_checkable
class ProjectingAttention(Protocol):
    """What an attention module offers if its queries, keys and values are products with matrices."""

    forward: Any

    def projections(self, head: int) -> dict[str, tuple[Tensor, Tensor]]: ...


def projection(
    model: TranslationModel, head: Head, source: list[int], target: list[int], arrays: ArrayFormat
) -> dict[str, Any]:
    """For "q", "k" and "v": x (T, D), weight (D, K) and bias (K,), as JSON."""
    sites = attention_layers(model_sites(model), head.attention)
    if not (head.layer < len(sites) and head.head < sites[head.layer].shape[0]):
        raise UserError(f"this model has no head {head}")
    copied = shared_copy(model)
    attention = copied.get_submodule(sites[head.layer].module)
    if not isinstance(attention, ProjectingAttention):
        raise UserError("this model's attention has no matrices to show")
    inputs: dict[str, Tensor] = {}
    forward = attention.forward

    def recorded(x: Tensor, memory: Tensor | None = None, *arguments: Any, **options: Any) -> Tensor:
        inputs["q"], inputs["k"], inputs["v"] = x, *[x if memory is None else memory] * 2
        output: Tensor = forward(x, memory, *arguments, **options)
        return output

    attention.__dict__["forward"] = recorded  # of the copy only
    copied(torch.tensor([source]), torch.tensor([target]))
    encode, weights = encoder(arrays), attention.projections(head.head)
    return {
        name: {"x": encode(inputs[name][0]), "weight": encode(weight), "bias": encode(bias)}
        for name, (weight, bias) in weights.items()
    }
