"""The report follows the run, rarely enough to cost little, and never stops it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from regard.report import LiveReport, is_out_of_date, live

from .conftest import finished, step, validation

Make = Callable[..., Path]


class Clock:
    """A clock that tests move by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(live, "perf_counter", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def never(message: str) -> None:
    raise AssertionError(message)


def send(page: LiveReport, event: dict[str, object]) -> None:
    page.event(**event)  # type: ignore[arg-type]


def without_time(event: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in event.items() if name != "at"}


def test_live_page_is_written_at_the_start_and_every_few_seconds(make_run: Make, clock: Clock) -> None:
    run = make_run([])
    page = LiveReport(run, live=True, warn=never)
    page.start()
    written = [(run / "report.html").read_text()]
    assert 'http-equiv="refresh"' in written[0]
    for number in range(1, 81):
        clock.now += 0.125
        send(page, without_time(step(number)))
        if (text := (run / "report.html").read_text()) != written[-1]:
            written.append(text)
    assert len(written) == 3  # in ten seconds: one at the start, two more
    assert "step 40 of 100" in written[1]
    assert not list(run.glob(".*"))


def test_validation_is_shown_soon_but_not_more_than_once_per_second(make_run: Make, clock: Clock) -> None:
    run = make_run([])
    page = LiveReport(run, live=True, warn=never)
    page.start()
    clock.now = 1.5
    send(page, without_time(step(1)))
    assert "ein Hund" not in (run / "report.html").read_text()
    send(page, without_time(validation(1)))
    assert "ein Hund" in (run / "report.html").read_text()
    clock.now = 1.9
    send(page, without_time(validation(2, "ein Tier")))
    assert "ein Tier" not in (run / "report.html").read_text()


@pytest.mark.parametrize("is_live", [True, False])
def test_last_page_shows_the_final_state_and_does_not_reload(make_run: Make, is_live: bool) -> None:
    run = make_run([])
    page = LiveReport(run, live=is_live, warn=never)
    send(page, without_time(step(1)))
    assert (run / "report.html").exists() == is_live
    page.close()
    text = (run / "report.html").read_text()
    assert "<b>stopped</b>" in text and "refresh" not in text
    send(page, without_time(finished()))
    page.close()
    assert "<b>finished</b>" in (run / "report.html").read_text()


def test_resumed_run_shows_earlier_steps(make_run: Make) -> None:
    run = make_run([step(1), step(2), validation(2)])
    page = LiveReport(run, live=False, warn=never)
    send(page, {"event": "resume", "step": 2, "steps": 100})
    send(page, without_time(step(3)))
    page.close()
    text = (run / "report.html").read_text()
    assert "ein Hund" in text and "step 3 of 100" in text and "resumed after step 2" in text


def test_unwritable_page_gives_one_warning(make_run: Make, clock: Clock) -> None:
    run = make_run([])
    (run / "report.html").mkdir()
    warnings: list[str] = []
    page = LiveReport(run, live=True, warn=warnings.append)
    page.start()
    for number in range(1, 50):
        clock.now += 1
        send(page, without_time(step(number)))
    page.close()
    (warning,) = warnings
    assert warning.startswith("cannot write the report: ") and warning.endswith("; training continues")
    assert not list(run.glob(".*"))


def test_bug_in_the_report_does_not_stop_training(make_run: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> str:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(live, "report_page", broken)
    warnings: list[str] = []
    LiveReport(make_run([step(1)]), live=False, warn=warnings.append).close()
    assert warnings == ["cannot write the report: division by zero; training continues"]


def test_slow_disk_is_written_less_often(make_run: Make, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[float] = []

    def slow(path: Path, data: bytes) -> None:
        written.append(clock.now)
        clock.now += 0.5

    monkeypatch.setattr(live, "_replace", slow)
    page = LiveReport(make_run([]), live=True, warn=never)
    page.start()
    for number in range(1, 1001):
        clock.now += 0.1
        send(page, without_time(step(number)))
    assert len(written) <= 3  # half a second each, in a hundred seconds


def test_report_older_than_the_model_is_out_of_date(make_run: Make) -> None:
    run = make_run([step(1), finished()])
    assert is_out_of_date(run)
    (run / "model").mkdir()
    (run / "model" / "config.json").write_text("{}")
    LiveReport(run, live=False, warn=pytest.fail).close()
    assert not is_out_of_date(run)
    assert "<b>finished</b>" in (run / "report.html").read_text()
