"""A look at any model, whatever its task: what it recorded for one example."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from regard.data import Batch
from regard.errors import UserError
from regard.lens.look_json import FORMAT, ArrayFormat, encoder, sites_dict
from regard.models import Model
from regard.nn import Trace


@dataclass(frozen=True, eq=False)
class SiteLook:
    """What a model computed for the first example of a batch, and what it predicted."""

    trace: Trace
    prediction: Mapping[str, Any]

    @property
    def n_numbers(self) -> int:
        """In the arrays of `to_dict`."""
        return sum(prod(site.shape) for site in self.trace.sites())

    def table(self) -> list[tuple[str, ...]]:
        """What the prediction depends on, for the terminal, with a heading; empty if the task has nothing to show."""
        return []

    def picture(self) -> Any:
        """A Picture; raises UserError if the task has none."""
        raise UserError("there is no picture for a model of this task", hint="--json FILE has everything")

    def to_dict(self, arrays: ArrayFormat = "list") -> dict[str, Any]:
        """The part of "regard-look/1" that every task has."""
        encode, sites = encoder(arrays), self.trace.sites()
        values = {site.path: encode(self.trace[site.path][0].float()) for site in sites}
        return {"format": FORMAT, "prediction": dict(self.prediction), **sites_dict(self.trace), "arrays": values}


def inspect(model: Model, batch: Batch, prediction: Mapping[str, Any]) -> SiteLook:
    """Run the first example of a batch with a trace. `prediction` is what the task made of it, for JSON."""
    trace = Trace()
    with torch.inference_mode():
        model.eval().terms(batch.rows(slice(0, 1)), trace)
    return SiteLook(trace, prediction)
