"""The result of a validation."""

from collections.abc import Mapping
from dataclasses import dataclass

from regard.metrics import Measure

__all__ = ["Measure", "Validation"]


@dataclass(frozen=True)
class Validation:
    """The measures of a model on the validation data, and some of its outputs to show.

    A sample has texts by name: first the input, last the output of the model, and between them what it should be.
    """

    metrics: Mapping[str, float]
    samples: tuple[Mapping[str, str], ...] = ()
