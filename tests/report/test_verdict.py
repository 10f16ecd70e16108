"""The last line of a training: what the model is good for, and what would help."""

import pytest

from regard.report import RunSummary, fine_tuning_sentences, verdict
from regard.report.summary import StepPoint, ValidationPoint


def summary(training_loss: float, validation_losses: list[float]) -> RunSummary:
    steps = [
        StepPoint(step=step, loss=9.0, nll=training_loss, rate=0.1, tokens_per_second=1.0, elapsed_seconds=1.0)
        for step in range(60)
    ]
    validations = [ValidationPoint(step=step, metrics={"loss": loss}) for step, loss in enumerate(validation_losses)]
    return RunSummary(name="a", state="finished", steps=tuple(steps), validations=tuple(validations))


@pytest.mark.parametrize(
    ("bleu", "words"),
    [(0.3, "does not translate"), (15, "not usable"), (25, "first idea"), (39.7, "good"), (55, "very good")],
)
def test_bleu_is_put_into_words(bleu: float, words: str) -> None:
    text = verdict(summary(2.0, [3.0, 2.0]), {"bleu": bleu, "loss": 2.0})
    assert text is not None and text.startswith(f"BLEU {bleu:.1f}: ") and words in text


@pytest.mark.parametrize(
    ("training_loss", "validation_losses", "help_text"),
    [
        (1.0, [3.0, 2.5, 2.2, 2.1], "More text would help: the loss is 1.00 on the training text, but 2.10"),
        (2.2, [3.0, 2.5, 2.2, 2.1], "More time would help"),
        (2.2, [3.0, 2.1], "More time would help"),
        (2.2, [2.1], "More text or more time would help"),
        (2.2, [3.0, 2.2, 2.105, 2.1], "More text or a larger model would help"),
    ],
)
def test_curve_so_far_tells_what_would_help(
    training_loss: float, validation_losses: list[float], help_text: str
) -> None:
    text = verdict(summary(training_loss, validation_losses), {"bleu": 30.0, "loss": validation_losses[-1]})
    assert text is not None and help_text in text


def test_other_tasks_have_no_verdict() -> None:
    assert verdict(summary(1.0, [1.0]), {"accuracy": 0.9, "loss": 1.0}) is None


def test_fine_tuning_is_told_with_significance_and_lost_general_quality_with_advice() -> None:
    own = {"n": 100, "before": 20.04, "after": 31.0, "p": 0.0004}
    fell = {"n": 50, "before": 33.0, "after": 25.0, "p": 0.01}
    text = verdict(summary(2.0, [3.0, 2.0]), {"bleu": 31.0, "loss": 2.0, "fine_tuning": {"own": own, "general": fell}})
    assert "on 100 lines of new text: BLEU 20.0 before, 31.0 after (better, p < 0.001)." in str(text)
    assert "general text: BLEU 33.0 before, 25.0 after (worse, p = 0.010). General quality fell: " in str(text)
    kept = {"general": fell | {"p": 0.2}}
    assert "no significant difference" in (kept_text := " ".join(fine_tuning_sentences({"fine_tuning": kept})))
    assert "fell" not in kept_text
