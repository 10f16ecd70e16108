"""The report shows what a run measures, whatever that is: nothing is known about the task but its journal."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.metrics import Measure, chart_groups, headline, read_measures
from regard.report import LiveReport, RunReader, RunSummary, report_page, summary_line

from ..foreign.journal import MEASURES, events

Make = Callable[..., Path]


@pytest.fixture
def run(make_run: Make) -> RunSummary:
    directory = make_run(events())
    (directory / "recipe.toml").write_text('[model]\narchitecture = "chain"\n')
    return RunReader(directory).read()


def test_summary_has_the_measures_of_the_task(run: RunSummary) -> None:
    assert summary_line(run) == ("500 sentences · 2 layers of 8 · 1.2M parameters · 0.3 minutes · F1 0.91, error 4.0%")
    summary = run.to_dict()
    assert summary["unit"] == "words"
    assert [measure["name"] for measure in summary["measures"]] == ["loss", "error", "f1"]
    assert summary["validations"][0] == {"step": 10, "loss": 0.4, "error": 0.25, "f1": 0.65}
    assert summary["samples"][0]["given"] == {"words": "dogs <bark>", "gold": "NOUN VERB"}


def test_page_draws_and_lists_the_measures_of_the_task(run: RunSummary) -> None:
    page = report_page(run)
    titles = re.findall(r"<figcaption>(.*?)</figcaption>", page)
    assert titles == [
        "Loss", "Error <small>percent</small>", "F1", "Learning rate", "Speed <small>words per second</small>",
    ]  # fmt: skip
    error = page[page.index("<figcaption>Error") : page.index("<figcaption>F1")]
    assert ">100</text>" in error and 'aria-label="Error by step: error 15.0"' in error  # the axis has all of 100%
    assert "Negative log-likelihood per word, without" in page
    table = page[page.index("<h2>Validation") :]
    assert re.findall(r"<th>(.*?)</th>", table) == ["step", "loss", "error", "F1"]
    assert re.findall(r'<td class="best">(.*?)</td>', table) == ["5.0%", "0.85", "0.100"]  # of rows 30, 30 and 40
    for word in ("BLEU", "chrF", "perplexity", "translat", "token"):
        assert word not in page, word


def test_samples_have_any_names_and_the_text_before_the_output_is_the_expected_one(run: RunSummary) -> None:
    page = report_page(run)
    samples = page[page.index("<h2>Samples") : page.index("<h2>Validation")]
    assert re.findall(r"<dt>(.*?)</dt>", samples) == ["words", "gold", "step 10–20", "step 30–40 ✓"]
    assert "dogs &lt;bark&gt;" in samples


def test_live_report_shows_the_measures_of_the_task(make_run: Make) -> None:
    directory = make_run([])
    warnings: list[str] = []
    page = LiveReport(directory, live=True, warn=warnings.append)
    for event in events()[:-1]:
        page.event(**event)
    page.close()
    text = (directory / "report.html").read_text()
    assert "<b>stopped</b>" in text and "F1 0.75, error 15.0%" in text
    assert warnings == []


def test_invalid_measures_are_left_out() -> None:
    broken = [MEASURES[1], "f1", {"name": "f1"}, MEASURES[2] | {"digits": "2"}, MEASURES[2] | {"digits": 10**9}]
    measures = read_measures({"measures": broken})
    assert [(measure.name, measure.digits) for measure in measures] == [("error", 1), ("f1", 9)]
    assert read_measures(None, {"measures": "?"}, {}) == read_measures()  # as in version 0.1


def test_similar_neighbours_share_a_chart() -> None:
    names = ["loss", "high1", "high2", "high3", "high4", "low", "share"]
    measures = [
        Measure(name, name, 1, higher_is_better=name.startswith("high"), is_share=name == "share") for name in names
    ]
    groups = [[measure.name for measure in group] for group in chart_groups(measures)]
    assert groups == [["high1", "high2", "high3"], ["high4"], ["low"], ["share"]]
    assert [measure.name for measure in headline(measures)] == ["high1", "high2", "high3", "high4", "low", "share"]
