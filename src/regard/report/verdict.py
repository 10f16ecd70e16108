"""What a finished translator is good for, in plain words, and what would make it better."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from statistics import fmean
from typing import Any

from regard.report.summary import RunSummary

_LEVELS = (  # BLEU below which the words apply
    (10.0, "it does not translate yet: what comes out has little to do with the text"),
    (20.0, "not usable yet: the subject comes through, but hardly a whole sentence"),
    (30.0, "for a first idea: the meaning mostly comes through, with many mistakes"),
    (40.0, "good: fit for use on text like this if somebody reads it over"),
    (inf, "very good on text like this"),
)
_OVERFITTED = 0.95  # training loss below this share of the validation loss: the model knows its training text by heart
_SIGNIFICANT = 0.05
_LAST_STEPS = 50  # over which the training loss is averaged
_STILL_FALLING = 0.01  # of the validation loss, in the last third of the validations


def fine_tuning_sentences(facts: Mapping[str, Any]) -> list[str]:
    """BLEU before and after fine-tuning, on the same held-out lines."""
    sentences = []
    for name, change in facts.get("fine_tuning", {}).items():
        text = "new text" if name == "own" else "general text"
        is_sure = change["p"] < _SIGNIFICANT
        p = f"p = {change['p']:.3f}" if change["p"] >= 0.001 else "p < 0.001"
        difference = "no significant difference" if not is_sure else "better" if _gain(change) > 0 else "worse"
        sentences.append(
            f"Fine-tuning, on {change['n']} lines of {text}: BLEU {change['before']:.1f} before, "
            f"{change['after']:.1f} after ({difference}, {p})."
        )
        if name == "general" and is_sure and _gain(change) < 0:
            sentences.append("General quality fell: give --keep more text, or train for a shorter time.")
    return sentences


def int8_sentence(facts: Mapping[str, Any]) -> str | None:
    """What translating with int8 changes, and whether it is the default; None for a model without int8."""
    int8 = facts.get("int8")
    if int8 is None:
        return None
    default = "." if facts["precision"] == "int8" else ": too large a loss, so float32 is the default."
    return (
        f"Of {int8['n']} validation lines, int8 translates {int8['equal']:.1%} as float32 does, "
        f"{int8['bleu']:+.2f} BLEU{default}"
    )


def _gain(change: Mapping[str, float]) -> float:
    return change["after"] - change["before"]


def verdict(summary: RunSummary, facts: Mapping[str, Any]) -> str | None:
    """One sentence about BLEU on the validation text, and one about what would help. None without a BLEU."""
    bleu, loss = facts.get("bleu"), facts.get("loss")
    if not isinstance(bleu, int | float) or not isinstance(loss, int | float):
        return None
    words = next(words for limit, words in _LEVELS if bleu < limit)
    sentences = [f"BLEU {bleu:.1f}: {words}.", *fine_tuning_sentences(facts), _what_would_help(summary, loss)]
    if facts.get("precision") == "float32" and (sentence := int8_sentence(facts)):
        sentences.append(sentence)
    return " ".join(sentences)


def _what_would_help(summary: RunSummary, loss: float) -> str:
    losses = [point.metrics["loss"] for point in summary.validations if "loss" in point.metrics]
    training = [point.nll for point in summary.steps[-_LAST_STEPS:] if point.nll is not None]
    if training and fmean(training) < _OVERFITTED * loss:
        return (
            f"More text would help: the loss is {fmean(training):.2f} on the training text, but {loss:.2f} on new text."
        )
    third = losses[-max(1, len(losses) // 3) - 1 :]
    if len(third) == 1:
        return "More text or more time would help."
    if third[-1] < (1 - _STILL_FALLING) * third[0]:
        return "More time would help: the loss was still falling (give the same command a longer --budget)."
    return "More text or a larger model would help: the loss has stopped falling."
