"""How far a model sees: after how many layers each position depends on each token.

It is measured by perturbation: one token at a time is replaced by another one, and what changes is noted. So it works
for every model that records a vector per position, whether it has attention, convolutions or recurrence.

T rows, S columns, N perturbed sentences
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import UserError
from regard.models import TranslationModel
from regard.nn import Site, Trace

Side = Literal["source", "target"]

_NAMES: dict[Side, str] = {"source": "source", "target": "translation"}
_AT_ONCE = 16  # sentences in a batch: a trace is large
_TOLERANCE = 1e-9  # relative to the largest value; rounding in float64 is far below


@dataclass(frozen=True, eq=False)
class Reach:
    """The positions of one side, and the tokens of one side that they depend on."""

    rows: Side
    columns: Side
    layers: tuple[str, ...]  # the paths of the layers, in the order of computation
    first_layer: NDArray[np.int64]  # (T, S): the number of layers, from 1, after which it is reached; 0 if never

    @property
    def title(self) -> str:
        return f"{_NAMES[self.rows]} ← {_NAMES[self.columns]}"

    def distances(self, n_layers: int) -> tuple[int, int] | None:
        """The farthest tokens before and after a position that it depends on after `n_layers`."""
        row, column = np.nonzero((self.first_layer > 0) & (self.first_layer <= n_layers))
        return (int((column - row).min()), int((column - row).max())) if len(row) else None

    def share(self, n_layers: int) -> float:
        """The share of all cells."""
        return float(((self.first_layer > 0) & (self.first_layer <= n_layers)).mean())

    def to_dict(self) -> dict[str, Any]:
        layers = {"layers": list(self.layers), "first_layer": self.first_layer.tolist()}
        return {"rows": self.rows, "columns": self.columns} | layers


@torch.inference_mode()
def measure_reach(
    model: TranslationModel, source: Sequence[int], inputs: Sequence[int], outputs: Sequence[int]
) -> tuple[Reach, ...]:
    """Of the source on itself, of the target's inputs on themselves, and of the source on the target."""
    exact = deepcopy(model).double().eval()
    changed_by: dict[Side, dict[Side, dict[str, Tensor]]] = {
        "source": _changes(exact, source, inputs, "source", [*source]),
        "target": _changes(exact, source, inputs, "target", [*inputs, *outputs]),
    }
    pairs: tuple[tuple[Side, Side], ...] = (("source", "source"), ("target", "target"), ("target", "source"))
    found = [_reach(rows, columns, changed_by[columns][rows]) for rows, columns in pairs if changed_by[columns][rows]]
    if not found:
        raise UserError("this model records no vector per position, so its reach cannot be measured")
    return tuple(found)


def _changes(
    model: TranslationModel, source: Sequence[int], inputs: Sequence[int], side: Side, tokens: list[int]
) -> dict[Side, dict[str, Tensor]]:
    """By the side of the rows and by layer, (T, S): which positions change with which token of `side`."""
    text = list(source if side == "source" else inputs)
    perturbed = [[*text[:i], next(t for t in tokens if t != text[i]), *text[i + 1 :]] for i in range(len(text))]
    parts: dict[Side, dict[str, list[Tensor]]] = {"source": {}, "target": {}}
    for first in range(0, len(text), _AT_ONCE):
        varied = torch.tensor([text, *perturbed[first : first + _AT_ONCE]])  # (N + 1, …), the first one unchanged
        other = torch.tensor([list(inputs if side == "source" else source)]).expand(len(varied), -1)
        trace = Trace()
        model.features(*((varied, other) if side == "source" else (other, varied)), trace)
        for rows, layers in parts.items():
            for layer, path in _layers(trace.sites(), rows).items():
                values = trace[path]  # (N + 1, T, D)
                is_changed = (values[1:] - values[:1]).abs().amax(-1) > _TOLERANCE * values[0].abs().max()  # (N, T)
                layers.setdefault(layer, []).append(is_changed)
    return {rows: {layer: torch.cat(c).T for layer, c in layers.items()} for rows, layers in parts.items()}


def _layers(sites: Sequence[Site], rows: Side) -> dict[str, str]:
    """The last vectors that each layer records for the positions of a side. The numbered modules are layers."""
    inputs = {site.module for site in sites if site.kind == "embedding"}
    found = {}
    for site in sites:
        if site.kind in ("vector", "state") and site.axes == (rows, "unit") and site.module not in inputs:
            numbered = re.match(r".*?\d+(?=\.)", site.path)
            found[numbered[0] if numbered else site.module] = site.path
    return found


def _reach(rows: Side, columns: Side, changed: dict[str, Tensor]) -> Reach:
    by_layer = np.stack([layer.numpy() for layer in changed.values()])  # (layers, T, S)
    first_layer = np.where(by_layer.any(0), by_layer.argmax(0) + 1, 0)
    return Reach(rows, columns, tuple(changed), first_layer)
