"""What a task measures on validation data, by name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


class Measure(NamedTuple):
    """How a measure is shown, and which way is better."""

    name: str  # in the journal and in training.best_by
    label: str
    digits: int
    higher_is_better: bool
    is_share: bool = False  # shown as a percentage

    def format(self, value: float) -> str:
        """As "31.4", or "62.0%" for a share."""
        return f"{value:.{self.digits}{'%' if self.is_share else 'f'}}"

    def show(self, value: float) -> str:
        """With its label: "BLEU 31.4", "accuracy 62.0%"."""
        return f"{self.label} {self.format(value)}"


# of translation: journals and models of 0.1.0 do not name theirs
FORMER_MEASURES = (
    Measure("loss", "loss", 3, higher_is_better=False),
    Measure("perplexity", "perplexity", 2, higher_is_better=False),
    Measure("accuracy", "accuracy", 1, higher_is_better=True, is_share=True),
    Measure("bleu", "BLEU", 1, higher_is_better=True),
    Measure("chrf", "chrF++", 1, higher_is_better=True),
)


def read_measures(stored: Any) -> tuple[Measure, ...]:
    """Measures as a journal or the facts of a model have them."""
    return FORMER_MEASURES if stored is None else tuple(Measure(**measure) for measure in stored)


@dataclass(frozen=True)
class Validation:
    """The measures of a model on the validation data, and some of its outputs to show."""

    metrics: Mapping[str, float]
    samples: tuple[Mapping[str, str], ...] = ()
