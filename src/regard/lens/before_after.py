"""A translation before and after the model was altered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from typing import Any

from regard.lens.words import Side


@dataclass(frozen=True)
class Version:
    """A translation with the probability of each of its words: the product of its pieces'."""

    text: str
    log_probability: float  # of all symbols, the end among them
    words: tuple[tuple[str, float], ...]

    def to_dict(self) -> dict[str, Any]:
        words = [{"text": text, "probability": probability} for text, probability in self.words]
        return {"text": self.text, "log_probability": self.log_probability, "words": words}


@dataclass(frozen=True)
class Change:
    """What an intervention does to one sentence.

    `before` and `after` have the probabilities with which their symbols were chosen; `of_before` is the old translation
    under the altered model, read in one pass as in training. Only with the mask lifted are these two different things:
    in one pass every symbol also sees those behind it, and while translating there is nothing behind.
    """

    before: Version
    after: Version
    of_before: Version

    def to_dict(self) -> dict[str, Any]:
        of_before = self.of_before.to_dict()
        del of_before["text"]  # before's
        return {"before": self.before.to_dict(), "after": self.after.to_dict(), "of_before": of_before}


def version_of(outputs: Side, log_probs: Sequence[float]) -> Version:
    """A translation's words with their probabilities; special symbols count only in the sum."""
    words = tuple(
        (word.text, exp(sum(log_probs[i] for i in word.pieces))) for word in outputs.words if not word.special
    )
    return Version(outputs.text, sum(log_probs), words)
