"""A look at any model, whatever its task: what it recorded for one example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

import torch

from regard.data import Batch
from regard.errors import UserError
from regard.lens.look_json import FORMAT, ArrayFormat, encoder, sites_dict
from regard.models import Model, ModelConfig
from regard.nn import Trace

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class SiteLook:
    """What a model computed for the first example of a batch, and what it predicted."""

    trace: Trace
    prediction: Mapping[str, Any]

    @property
    def n_numbers(self) -> int:
        """In the arrays of `to_dict`."""
        return sum(prod(site.shape) for site in self.trace.sites())

    def shown_prediction(self) -> list[tuple[str, str]]:
        """The fields of the prediction that can be shown on a line each; JSON has all, and exact numbers."""
        return [(name, _shown(value)) for name, value in self.prediction.items() if not isinstance(value, list)]

    def table(self) -> list[tuple[str, ...]]:
        """What the prediction depends on, for the terminal, with a heading; empty if the task has nothing to show."""
        return []

    def picture(self) -> Any:
        """A Picture; raises UserError if the task has none."""
        raise UserError("there is no picture for a model of this task", hint="--json FILE has everything")

    def draw(self, pieces: Sequence[str], title: str, subject: str, masks: Sequence[tuple[str, Any]] = ()) -> Any:
        """A picture of the attention of a text to itself, one row of heads per layer; without attention, of states.

        `masks` are maps (T, T) above them, with their titles.
        """
        from regard.lens.plots.heatmaps import AttentionMap, draw_grid, draw_units

        sites = [site for site in self.trace.sites("attention") if site.axes[1:] == ("source", "source")]
        if sites:
            maps = [
                [
                    AttentionMap(f"layer {layer + 1} · head {head + 1}", weights.float().numpy())
                    for head, weights in enumerate(self.trace[site.path][0])
                ]
                for layer, site in enumerate(sites)
            ]
            if masks:
                maps.insert(0, [AttentionMap(name, mask) for name, mask in masks])
            return draw_grid(maps, pieces, pieces, f"Attention · {title}", (subject,))
        states = [site for site in self.trace.sites("state") if site.axes == ("source", "unit")]
        if not states:
            raise UserError("this model recorded nothing that can be drawn", hint="--json FILE has everything")
        vectors = [AttentionMap(site.path, self.trace[site.path][0].float().numpy(), is_signed=True) for site in states]
        return draw_units([(units, pieces) for units in vectors], f"States · {title}", (subject,))

    def to_dict(self, arrays: ArrayFormat = "list") -> dict[str, Any]:
        """The part of "regard-look/1" that every task has."""
        encode, sites = encoder(arrays), self.trace.sites()
        values = {site.path: encode(self.trace[site.path][0].float()) for site in sites}
        return {"format": FORMAT, "prediction": dict(self.prediction), **sites_dict(self.trace), "arrays": values}


def as_read(config: ModelConfig, row: Sequence[T]) -> list[T]:
    """A row of a batch of texts, in the order in which the layers read it, and a trace has it."""
    return [*row[1:], row[0]] if config.bos_is_last else [*row]


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(inner)}" for key, inner in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def inspect(model: Model, batch: Batch, prediction: Mapping[str, Any]) -> SiteLook:
    """Run the first example of a batch with a trace. `prediction` is what the task made of it, for JSON."""
    trace = Trace()
    with torch.inference_mode():
        model.eval().terms(batch.rows(slice(0, 1)), trace)
    return SiteLook(trace, prediction)
