"""A translation before and after an intervention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from typing import Any

from regard.lens.words import TokenizedText


@dataclass(frozen=True)
class ScoredTranslation:
    """A translation with the probability of each word, the product of the probabilities of its sub-words."""

    text: str
    log_probability: float  # of all tokens, including the end token
    words: tuple[tuple[str, float], ...]

    @classmethod
    def of(cls, outputs: TokenizedText, log_probs: Sequence[float]) -> ScoredTranslation:
        """Special tokens count in the sum, but are not listed as words."""
        words = tuple(
            (word.text, exp(sum(log_probs[i] for i in word.pieces))) for word in outputs.words if not word.special
        )
        return cls(outputs.text, sum(log_probs), words)

    def to_dict(self) -> dict[str, Any]:
        words = [{"text": text, "probability": probability} for text, probability in self.words]
        return {"text": self.text, "log_probability": self.log_probability, "words": words}


@dataclass(frozen=True)
class Change:
    """The effect of an intervention on one sentence.

    `before` and `after` have the probabilities from their own searches. The changed model also scores the old
    translation: `of_before` in one pass, as in training, and `of_before_in_use` token by token, as in a search. These
    are the same, except without the mask: in one pass each token also sees later ones, which do not exist yet in use.
    """

    before: ScoredTranslation
    after: ScoredTranslation
    of_before: ScoredTranslation
    of_before_in_use: ScoredTranslation

    def to_dict(self) -> dict[str, Any]:
        record = {name: translation.to_dict() for name, translation in vars(self).items()}
        del record["of_before"]["text"], record["of_before_in_use"]["text"]  # the same as before's
        return record
