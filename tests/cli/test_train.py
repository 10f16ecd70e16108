"""Options and display of `regard train`."""

import io

import pytest

from regard.cli.display import TrainingDisplay
from regard.cli.training_options import parse_time
from regard.errors import RecipeError
from regard.report.wording import duration

from ..foreign.journal import events


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("20m", 1200), ("2h", 7200), ("1d", 86_400), ("1h30m", 5400), ("1.5h", 5400)]
)
def test_duration_is_numbers_with_units(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "m", "5 m", "-5m", "5x", "20min", "1h 30m", "nan", "5mm"])
def test_invalid_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(RecipeError, match="is not a duration; hint: write for example 90s, 20m, 2h or 1h30m"):
        parse_time(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (42, "42 s"), (99.6, "100 s"), (720, "12 min"), (12_000, "3 h 20 min"), (187_200, "2 d 4 h")],
)
def test_duration_is_formatted_in_common_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_display_without_a_terminal_is_plain_text() -> None:
    stream = io.StringIO()
    with TrainingDisplay(stream) as display:
        for n_done in (1, 2, 3):
            display.on_progress("encoding [the] pairs", n_done, 3)
        for step in (1, 2, 3):
            display.on_event(
                "step", step=step, steps=3, nll=1.0, loss=2.0, tokens_per_second=1000.0, elapsed_seconds=1.0
            )
        display.on_event("something-new", whatever=1)
        display.on_event("warning", message="[bold]slow[/bold]")
    lines = stream.getvalue().splitlines()
    assert lines[0] == "encoding [the] pairs …"  # once per stage, and brackets are not markup
    assert lines[1].startswith("step 1/3  loss 1.000  1,000 tokens/s")
    assert lines[2:] == ["warning: [bold]slow[/bold]"]  # steps are printed every ten seconds


@pytest.mark.parametrize("resumed", [False, True])
def test_remaining_time_never_exceeds_the_budget(monkeypatch: pytest.MonkeyPatch, resumed: bool) -> None:
    clock = iter(range(0, 1000, 20))
    monkeypatch.setattr("regard.cli.display.perf_counter", lambda: float(next(clock)))
    stream = io.StringIO()
    plan = {"n_blank": 0, "n_too_long": 0, "n_pairs": 9, "n_validation": 1, "n_parameters": 5, "preset": "tiny",
            "vocabulary": 9, "steps": 1000, "steps_an_epoch": 3, "seconds_a_step": 1.0, "device": "cpu"}  # fmt: skip
    with TrainingDisplay(stream) as display:
        if resumed:
            display.on_event("resume", step=0, steps=1000, budget_seconds=120.0)
        else:
            display.on_event("plan", **plan, precision="bfloat16", budget_seconds=120.0)
        for step in (1, 2, 3):
            display.on_event("step", step=step, steps=1000, nll=1.0, loss=2.0, tokens_per_second=1.0,
                          elapsed_seconds=20.0 * step)  # fmt: skip
    output = stream.getvalue()
    assert resumed or "on the cpu in bfloat16: about 17 min" in output
    assert output.splitlines()[-2].endswith("80 s left")
    assert output.splitlines()[-1].endswith("60 s left")


def test_display_shows_whatever_a_task_measures() -> None:
    stream = io.StringIO()
    with TrainingDisplay(stream) as display:
        for event in events(n_steps=10):
            display.on_event(**event)
    assert stream.getvalue().splitlines() == [
        "data      500 training sentences, 50 validation sentences",
        "model     2 layers of 8, 1.2M parameters",
        "training  10 steps (1.0 epochs) of 0.50 s each, on the cpu: about 5 s",
        "step 1/10  loss 4.000  tags 3.000  edges 1.000  900 words/s  … left",
        "step      10  validation: loss 0.400  error 25.0%  F1 0.65  (best)",
        "              dogs <bark>  →  NOUN NOUN",
        "finished in 20 s: F1 0.91, error 4.0%",
        "the model is in x/model",
    ]


def test_display_shows_the_measures_of_a_model_of_the_version_before() -> None:
    stream = io.StringIO()
    with TrainingDisplay(stream) as display:
        display.on_event(
            "already-finished", path="run", steps=9, loss=1.58, perplexity=4.872, accuracy=0.697, bleu=39.9
        )
    assert stream.getvalue() == "run is finished: BLEU 39.9, accuracy 69.7%, perplexity 4.87; nothing to do\n"


def test_display_of_a_resumed_run_uses_the_measures_that_any_event_lists() -> None:
    plan, *_ = events()
    stream = io.StringIO()
    with TrainingDisplay(stream) as display:
        display.on_event("stored", measures=plan["measures"], unit="words")
        display.on_event("validation", step=3, best=False, loss=1.0, error=0.5)
    assert stream.getvalue() == "step       3  validation: loss 1.000  error 50.0%\n"
