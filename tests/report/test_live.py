"""The page follows the run, seldom enough not to be felt, and never stops it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from regard.report import LiveReport, is_out_of_date, live, write_report

from .conftest import finished, step, validation

Make = Callable[..., Path]


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(live, "perf_counter", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def never(message: str) -> None:
    raise AssertionError(message)


def tell(page: LiveReport, event: dict[str, object]) -> None:
    page.event(**event)  # type: ignore[arg-type]


def say(event: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in event.items() if name != "at"}


def test_a_live_page_is_there_from_the_start_and_is_rewritten_every_few_seconds(make_run: Make, clock: Clock) -> None:
    run = make_run([])
    page = LiveReport(run, live=True, warn=never)
    page.begin()
    written = [(run / "report.html").read_text()]
    assert 'http-equiv="refresh"' in written[0]
    for number in range(1, 81):
        clock.now += 0.125
        tell(page, say(step(number)))
        if (text := (run / "report.html").read_text()) != written[-1]:
            written.append(text)
    assert len(written) == 3  # ten seconds: one at the start, two more
    assert "step 40 of 100" in written[1]
    assert not list(run.glob(".*"))


def test_a_validation_is_shown_soon_but_not_more_than_once_a_second(make_run: Make, clock: Clock) -> None:
    run = make_run([])
    page = LiveReport(run, live=True, warn=never)
    page.begin()
    clock.now = 1.5
    tell(page, say(step(1)))
    assert "ein Hund" not in (run / "report.html").read_text()
    tell(page, say(validation(1)))
    assert "ein Hund" in (run / "report.html").read_text()
    clock.now = 1.9
    tell(page, say(validation(2, "ein Tier")))
    assert "ein Tier" not in (run / "report.html").read_text()


@pytest.mark.parametrize("is_live", [True, False])
def test_the_last_page_does_not_reload_and_says_how_it_ended(make_run: Make, is_live: bool) -> None:
    run = make_run([])
    page = LiveReport(run, live=is_live, warn=never)
    tell(page, say(step(1)))
    assert (run / "report.html").exists() == is_live
    page.close()
    text = (run / "report.html").read_text()
    assert "<b>stopped</b>" in text and "refresh" not in text
    tell(page, say(finished()))
    page.close()
    assert "<b>finished</b>" in (run / "report.html").read_text()


def test_a_run_that_goes_on_shows_what_came_before(make_run: Make) -> None:
    run = make_run([step(1), step(2), validation(2)])
    page = LiveReport(run, live=False, warn=never)
    tell(page, {"event": "resume", "step": 2, "steps": 100})
    tell(page, say(step(3)))
    page.close()
    text = (run / "report.html").read_text()
    assert "ein Hund" in text and "step 3 of 100" in text and "went on after step 2" in text


def test_a_page_that_can_not_be_written_is_one_warning(make_run: Make, clock: Clock) -> None:
    run = make_run([])
    (run / "report.html").mkdir()
    said: list[str] = []
    page = LiveReport(run, live=True, warn=said.append)
    page.begin()
    for number in range(1, 50):
        clock.now += 1
        tell(page, say(step(number)))
    page.close()
    (warning,) = said
    assert warning.startswith("no report: ") and warning.endswith("the training is not touched by this")
    assert not list(run.glob(".*"))


def test_a_mistake_of_ours_in_drawing_stops_no_training(make_run: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> str:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(live, "report_page", broken)
    said: list[str] = []
    LiveReport(make_run([step(1)]), live=False, warn=said.append).close()
    assert said == ["no report: division by zero; the training is not touched by this"]


def test_a_slow_disk_is_written_to_less_often(make_run: Make, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[float] = []

    def slow(path: Path, data: bytes) -> None:
        written.append(clock.now)
        clock.now += 0.5

    monkeypatch.setattr(live, "_replace", slow)
    page = LiveReport(make_run([]), live=True, warn=never)
    page.begin()
    for number in range(1, 1001):
        clock.now += 0.1
        tell(page, say(step(number)))
    assert len(written) <= 3  # half a second each, in a hundred seconds


def test_a_finished_run_whose_page_is_older_than_its_model_gets_a_new_one(make_run: Make) -> None:
    run = make_run([step(1), finished()])
    assert is_out_of_date(run)
    (run / "model").mkdir()
    (run / "model" / "config.json").write_text("{}")
    write_report(run)
    assert not is_out_of_date(run)
    assert "<b>finished</b>" in (run / "report.html").read_text()
