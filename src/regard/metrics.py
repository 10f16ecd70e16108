"""What a task measures on validation data, by name. No torch: reports are read without it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Measure(NamedTuple):
    """How a measure is shown, and which way is better."""

    name: str  # in the journal and in training.best_by
    label: str
    digits: int
    higher_is_better: bool
    is_share: bool = False  # shown as a percentage
    note: str = ""  # measured on what, if not on the whole validation set; {n} is the value training.n of the recipe

    def format(self, value: float) -> str:
        """31.4, or 62.0% of a share."""
        return f"{value:,.{self.digits}{'%' if self.is_share else 'f'}}"


_GREEDY = "greedy translations of the first {translated} validation sentences"

# Runs and models of version 0.1 do not list their measures: they have these.
TRANSLATION_MEASURES = (
    Measure("loss", "loss", 4, higher_is_better=False),
    Measure("perplexity", "perplexity", 2, higher_is_better=False),
    Measure("accuracy", "accuracy", 1, higher_is_better=True, is_share=True),
    Measure("bleu", "BLEU", 1, higher_is_better=True, note=_GREEDY),
    Measure("chrf", "chrF++", 1, higher_is_better=True, note=_GREEDY),
)


def read_measures(*records: Mapping[str, Any] | None) -> tuple[Measure, ...]:
    """The measures listed by the first plan or facts that list any; invalid entries are left out."""
    for record in records:
        if record is not None and isinstance(entries := record.get("measures"), list | tuple):
            return tuple(measure for entry in entries if (measure := _read_measure(entry)) is not None)
    return TRANSLATION_MEASURES


def _read_measure(entry: Any) -> Measure | None:
    match entry:
        case {"name": str(name), "label": str(label), "digits": int(digits), "higher_is_better": bool(higher)}:
            note = entry.get("note", "")
            return Measure(name, label, max(0, min(digits, 9)), higher, entry.get("is_share") is True, str(note))
    return None


def shown(measures: Sequence[Measure], values: Mapping[str, Any]) -> list[str]:
    """The values that there are, with their labels: "BLEU 31.4", "accuracy 62.0%"."""
    return [f"{measure.label} {measure.format(values[measure.name])}" for measure in measures if measure.name in values]


def headline(measures: Sequence[Measure]) -> list[Measure]:
    """In the order of a summary: those where higher is better first, and numbers before shares; without the loss."""
    chosen = [measure for measure in measures if measure.name != "loss"]
    return sorted(chosen, key=lambda measure: (not measure.higher_is_better, measure.is_share))


def chart_groups(measures: Sequence[Measure]) -> list[list[Measure]]:
    """The measures of each chart: neighbours with the same direction and digits share one. Not the loss."""
    groups: list[list[Measure]] = []
    for measure in measures:
        if groups and groups[-1][0][2:5] == measure[2:5] and len(groups[-1]) < 3:
            groups[-1].append(measure)
        elif measure.name != "loss":
            groups.append([measure])
    return groups
