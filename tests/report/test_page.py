"""The report is one HTML file: complete, escaped, without external resources."""

import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from regard.report import RunReader, RunSummary, report_page, summary_line
from regard.report.chart import HEIGHT, Curve, chart, scale, smooth, spread
from regard.report.wording import few_digits

from .conftest import finished, step, validation

Make = Callable[..., Path]
VOID = {"meta", "br", "line", "circle", "polyline"}


class Outline(HTMLParser):
    """Parses a page: its elements, its text, and elements that are not closed."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data


def whole_run() -> list[dict[str, object]]:
    side = {"name": "/home/me/<a>.en", "n_lines": 3, "n_blank": 0, "words": {"mean": 4.5}, "characters": {"mean": 20}}
    finding = {
        "kind": "tabs",
        "severity": "warning",
        "count": 2,
        "lines": [3, 9],
        "message": "2 & <tabs>",
        "advice": "Fix them",
    }
    heads = {"agreement": [[0.1, 0.2, 0.3], [0.4, 0.5, 0.86]], "sharpness": [[0.5] * 3] * 2}
    return [
        {"event": "examined", "report": {"n_pairs": 3, "source": side, "target": side, "findings": [finding]}},
        {"event": "plan", "n_pairs": 4000, "n_parameters": 1_400_000, "steps": 40, "seconds_a_step": 1.0},
        *(step(i, steps=40, nll=5 / i) for i in range(1, 21)),
        validation(20, "<script>alert(1)</script>"),
        {"event": "resume", "step": 20, "steps": 40},
        *(step(i, steps=40, nll=5 / i) for i in range(21, 41)),
        validation(40, "ein Hund"),
        finished(cross_heads=heads),
    ]


@pytest.fixture
def run(make_run: Make) -> RunSummary:
    return RunReader(make_run(whole_run())).read()


def test_page_has_all_sections(run: RunSummary) -> None:
    page = Outline(report_page(run))
    assert page.open == []
    headings = re.findall(r"<h2>(.*?)</h2>", report_page(run))
    assert headings == [
        "Samples during training", "Training text", "Alignment heads", "Validation", "Events", "Recipe",
    ]  # fmt: skip
    line = (
        "4,000 pairs · n_encoder_layers 2, n_decoder_layers 3, d_model 128, n_heads 4 · 1.4M parameters · "
        "1.5 minutes · BLEU 96.4, chrF++ 98.8, accuracy 80.0%, perplexity 1.10 · "
        "BLEU and chrF++: greedy translations of the first validation sentences"
    )
    assert summary_line(run) == line
    for part in (
        line, "finished · 40 steps", "2 & <tabs>", "line 3, 9", "<a>.en", "resumed after step 20", "step 40 ✓",
        "Head 3 of decoder layer 2 aligns source and target words best: 86% of its weight", "d_model = 128",
    ):  # fmt: skip
        assert part in page.text, part
    charts = [
        attributes["aria-label"] or "" for tag, attributes in page.elements if tag == "svg" and "role" in attributes
    ]
    assert [label.split(" by step")[0] for label in charts] == [
        "Loss", "Perplexity", "Accuracy", "BLEU and chrF++", "Learning rate", "Speed",
    ]  # fmt: skip


def test_page_has_no_external_resources_and_no_scripts(run: RunSummary) -> None:
    page = report_page(run)
    outline = Outline(page)
    assert not re.search(r"https?://|//[a-z]|url\(|@import|\bsrc=|\bhref=", page)
    assert not {tag for tag, _ in outline.elements} & {"script", "link", "img", "iframe", "object", "a", "form"}
    assert not [name for _, attributes in outline.elements for name in attributes if name.startswith("on")]
    policy = [
        attributes["content"]
        for tag, attributes in outline.elements
        if "Content-Security-Policy" in attributes.values()
    ]
    assert policy and str(policy[0]).startswith("default-src 'none'")
    assert "<script>alert(1)</script>" in outline.text  # as text


@pytest.mark.parametrize(
    ("training", "n_validation", "which"),
    [
        ({"translated": 200}, 1000, "first 200"),
        ({"translated": 1200}, 1000, "first 1,000"),
        ({"translated": 200}, None, "first 200"),
        ({}, 1000, "first"),
    ],
)
def test_page_states_what_was_scored(
    run: RunSummary, training: dict[str, object], n_validation: int | None, which: str
) -> None:
    changed = replace(run, recipe={"training": training}, plan={"n_validation": n_validation})
    assert f"greedy translations of the {which} validation sentences" in Outline(report_page(changed)).text


def test_page_without_scores_has_no_note_on_scoring(make_run: Make) -> None:
    assert "greedy translations" not in report_page(RunReader(make_run([step(1)])).read())


@pytest.mark.parametrize(("dropout", "mentioned"), [(0.1, True), (0.0, False)])
def test_note_on_dropout_needs_dropout(run: RunSummary, dropout: float, mentioned: bool) -> None:
    page = report_page(replace(run, recipe={"model": {"dropout": dropout}}))
    assert "Negative log-likelihood per token" in page
    assert ("measured with dropout" in page) == mentioned


@pytest.mark.parametrize(("last", "label"), [(60_000, "20k"), (12_500, "12.5k"), (12_500, "2,500")])
def test_tick_labels_keep_half_thousands(last: float, label: str) -> None:
    drawn = chart("Speed", [Curve(name="now", points=[(1, last)], colour="ink")], x_end=1)
    assert f">{label}</text>" in drawn


def test_sentences_have_automatic_direction(make_run: Make) -> None:
    samples = [{"source": "a", "reference": "لم يعبر", "translation": "الحيوان"}]
    page = Outline(report_page(RunReader(make_run([step(1), validation(1, samples=samples)])).read()))
    assert [attributes.get("dir") for tag, attributes in page.elements if tag == "dd" and "class" in attributes] == [
        "auto"
    ] * 3
    assert "الحيوان" in page.text


def test_only_the_page_of_a_running_training_reloads(make_run: Make) -> None:
    stopped = RunReader(make_run([step(1)])).read()
    running = replace(stopped, state="running", eta_seconds=90.0)
    live = report_page(running, reload=True)
    assert '<meta http-equiv="refresh" content="5">' in live
    assert "this page reloads every 5 seconds" in live
    assert "about 90 s left" in live
    for summary, reload in ((running, False), (stopped, True), (replace(stopped, state="finished"), True)):
        assert "refresh" not in report_page(summary, reload=reload)
    assert "run the same command again to resume from the last checkpoint" in report_page(stopped)


def test_empty_run_has_a_page(make_run: Make) -> None:
    run = make_run([])
    (run / "recipe.toml").write_text("")
    page = Outline(report_page(RunReader(run).read()))
    assert page.open == []
    assert "no steps yet" in page.text


def test_consecutive_equal_outputs_are_shown_once(make_run: Make) -> None:
    texts = ["a", "a", "b", *(str(i) for i in range(40)), "ein Hund", "ein Hund"]
    page = report_page(RunReader(make_run(validation(i + 1, text) for i, text in enumerate(texts))).read())
    times = re.findall(r"<dt>step (.*?)</dt>", page)
    assert (times[0], times[-1]) == ("1–2", "44–45 ✓")
    assert len(times) == 8


def test_invalid_numbers_are_left_out(make_run: Make) -> None:
    events = [
        step(1, nll=1.0),
        step(2) | {"nll": "nan", "loss": "nan", "rate": "inf"},
        step(3),
        validation(3, loss="nan"),
    ]
    page = report_page(RunReader(make_run(events)).read())
    assert "nan" not in page.lower().replace("finance", "")
    assert Outline(page).open == []


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 0.0007), (0, 99.2), (0, 123_456), (0, 8), (-3, 7), (0, 1e-9)])
def test_ticks_are_round_and_contain_the_values(low: float, high: float) -> None:
    axis = scale(low, high)
    assert axis.low <= low and axis.high >= high * 0.9999
    assert 3 <= len(axis.ticks) <= 8
    step_size = axis.ticks[1] - axis.ticks[0]
    assert float(f"{step_size:.2g}") == pytest.approx(step_size)
    assert axis.share(axis.low) == 0 and axis.share(axis.high) == pytest.approx(1)


def test_flat_line_can_be_drawn() -> None:
    for value in (0.0, 3.0):
        drawn = chart("Flat", [Curve(name="line", points=[(1, value)], colour="ink", dots=True)], x_end=1)
        assert "nan" not in drawn and "inf" not in drawn
    assert chart("Nothing", [Curve(name="line", points=[], colour="ink")], x_end=1) == ""


def test_smoothing_keeps_level_and_ends() -> None:
    points = [(float(i), float(i % 2)) for i in range(1000)]
    smoothed = smooth(points)
    assert [x for x, _ in smoothed] == [x for x, _ in points]
    assert all(abs(y - 0.5) < 0.1 for _, y in smoothed[20:-20])
    rising = [(float(i), 2.0 * i) for i in range(500)]
    assert [y for _, y in smooth(rising)] == pytest.approx([y for _, y in rising])  # no lag


@pytest.mark.parametrize("positions", [[10, 12], [190, 199, 200], [0, 0, 0], [50, 150], [200]])
def test_labels_do_not_overlap(positions: list[float]) -> None:
    moved = spread(positions)
    assert all(below - above >= 15.99 for above, below in pairwise(moved))
    assert moved[-1] <= HEIGHT or moved == positions


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1234.5, "1,234"),
        (45.63, "45.6"),
        (1.234, "1.23"),
        (0.01234, "0.012"),
        (2e-5, "2·10⁻⁵"),
        (1e-6, "10⁻⁶"),
    ],
)
def test_numbers_are_rounded_to_a_few_digits(value: float, text: str) -> None:
    assert few_digits(value) == text
