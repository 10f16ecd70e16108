"""One file that anybody can open: complete, escaped, and with nothing from elsewhere."""

import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from regard.report import RunStory, read_run, report_page, summary
from regard.report.chart import HEIGHT, Line, chart, scale, smooth, spread
from regard.report.wording import few_digits

from .conftest import finished, step, validation

Make = Callable[..., Path]
VOID = {"meta", "br", "line", "circle", "polyline"}


class Outline(HTMLParser):
    """Whether every element is closed, and what there is of them."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
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
        "advice": "Mend",
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
def story(make_run: Make) -> RunStory:
    return read_run(make_run(whole_run()))


def test_the_page_has_all_parts_of_the_story(story: RunStory) -> None:
    page = Outline(report_page(story))
    assert page.open == []
    headings = re.findall(r"<h2>(.*?)</h2>", report_page(story))
    assert headings == [
        "The same sentences, as it learned", "The text it learned from", "The best heads", "Validation", "On the way",
        "The recipe",
    ]  # fmt: skip
    said = (
        "4,000 pairs · 2+3 layers, d_model 128, 4 heads · 1.4M parameters · 1.5 minutes · "
        "BLEU 96.4, chrF++ 98.8, perplexity 1.10 · "
        "BLEU and chrF++: greedy translations of the first validation sentences"
    )
    assert summary(story) == said
    for part in (
        said, "finished · 40 steps", "2 & <tabs>", "line 3, 9", "<a>.en", "went on after step 20", "step 40 ✓",
        "Head 3 of decoder layer 2 knows best", "86% of its weight", "d_model = 128",
    ):  # fmt: skip
        assert part in page.text, part
    charts = [attributes["aria-label"] or "" for tag, attributes in page.seen if tag == "svg" and "role" in attributes]
    assert [label.split(" by step")[0] for label in charts] == ["Loss", "BLEU and chrF++", "Learning rate", "Speed"]


def test_nothing_comes_from_outside_and_nothing_is_executed(story: RunStory) -> None:
    page = report_page(story)
    outline = Outline(page)
    assert not re.search(r"https?://|//[a-z]|url\(|@import|\bsrc=|\bhref=", page)
    assert not {tag for tag, _ in outline.seen} & {"script", "link", "img", "iframe", "object", "a", "form"}
    assert not [name for _, attributes in outline.seen for name in attributes if name.startswith("on")]
    policy = [
        attributes["content"] for tag, attributes in outline.seen if "Content-Security-Policy" in attributes.values()
    ]
    assert policy and str(policy[0]).startswith("default-src 'none'")
    assert "<script>alert(1)</script>" in outline.text  # as text


@pytest.mark.parametrize(
    ("training", "n_validation", "which"),
    [
        ({"translated": 200}, 1000, "first 200"),
        ({"translated": 1200}, 1000, "1,000"),
        ({"translated": 200}, None, "first 200 (or fewer)"),
        ({}, 1000, "first"),
    ],
)
def test_scores_say_what_they_are_of(
    story: RunStory, training: dict[str, object], n_validation: int | None, which: str
) -> None:
    told = replace(story, recipe={"training": training}, plan={"n_validation": n_validation})
    assert f"greedy translations of the {which} validation sentences" in Outline(report_page(told)).text


def test_without_scores_nothing_is_said_of_them(make_run: Make) -> None:
    assert "greedy translations" not in report_page(read_run(make_run([step(1)])))


@pytest.mark.parametrize(("dropout", "harder"), [(0.1, True), (0.0, False)])
def test_dropout_is_blamed_only_where_there_is_some(story: RunStory, dropout: float, harder: bool) -> None:
    page = report_page(replace(story, recipe={"model": {"dropout": dropout}}))
    assert "−log p of the right sub-word." in page
    assert ("dropout makes it harder" in page) == harder


@pytest.mark.parametrize(("last", "said"), [(60_000, "20k"), (12_500, "12.5k"), (12_500, "2,500")])
def test_thousands_are_not_rounded_away(last: float, said: str) -> None:
    drawn = chart("Speed", [Line(name="now", points=[(1, last)], colour="ink")], x_end=1)
    assert f">{said}</text>" in drawn


def test_sentences_choose_their_own_direction(make_run: Make) -> None:
    samples = [{"source": "a", "reference": "لم يعبر", "translation": "الحيوان"}]
    page = Outline(report_page(read_run(make_run([step(1), validation(1, samples=samples)]))))
    assert [attributes.get("dir") for tag, attributes in page.seen if tag == "dd" and "class" in attributes] == [
        "auto"
    ] * 3
    assert "الحيوان" in page.text


def test_only_a_page_of_a_running_training_reloads_itself_and_says_so(make_run: Make) -> None:
    stopped = read_run(make_run([step(1)]))
    running = replace(stopped, state="running", eta_seconds=90.0)
    live = report_page(running, reloads=True)
    assert '<meta http-equiv="refresh" content="5">' in live
    assert "this page reloads itself every 5 seconds" in live
    assert "about 90 s left" in live
    for story, reloads in ((running, False), (stopped, True), (replace(stopped, state="finished"), True)):
        assert "refresh" not in report_page(story, reloads=reloads)
    assert "the same command goes on from the last save" in report_page(stopped)


def test_a_run_with_nothing_to_tell_still_has_a_page(make_run: Make) -> None:
    run = make_run([])
    (run / "recipe.toml").write_text("")
    page = Outline(report_page(read_run(run)))
    assert page.open == []
    assert "no step yet" in page.text


def test_translations_that_stay_the_same_are_shown_once(make_run: Make) -> None:
    texts = ["a", "a", "b", *(str(i) for i in range(40)), "ein Hund", "ein Hund"]
    page = report_page(read_run(make_run(validation(i + 1, text) for i, text in enumerate(texts))))
    times = re.findall(r"<dt>step (.*?)</dt>", page)
    assert (times[0], times[-1]) == ("1–2", "44–45 ✓")
    assert len(times) == 8


def test_values_that_are_no_numbers_leave_a_gap_and_no_error(make_run: Make) -> None:
    events = [
        step(1, nll=1.0),
        step(2) | {"nll": "nan", "loss": "nan", "rate": "inf"},
        step(3),
        validation(3, loss="nan"),
    ]
    page = report_page(read_run(make_run(events)))
    assert "nan" not in page.lower().replace("finance", "")
    assert Outline(page).open == []


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 0.0007), (0, 99.2), (0, 123_456), (0, 8), (-3, 7), (0, 1e-9)])
def test_ticks_are_round_and_contain_the_values(low: float, high: float) -> None:
    found = scale(low, high)
    assert found.low <= low and found.high >= high * 0.9999
    assert 3 <= len(found.ticks) <= 8
    step_size = found.ticks[1] - found.ticks[0]
    assert float(f"{step_size:.2g}") == pytest.approx(step_size)
    assert found.share(found.low) == 0 and found.share(found.high) == pytest.approx(1)


def test_a_flat_line_can_be_drawn() -> None:
    for value in (0.0, 3.0):
        drawn = chart("Flat", [Line(name="one", points=[(1, value)], colour="ink", dots=True)], x_end=1)
        assert "nan" not in drawn and "inf" not in drawn
    assert chart("Nothing", [Line(name="one", points=[], colour="ink")], x_end=1) == ""


def test_a_smooth_line_keeps_level_and_ends() -> None:
    points = [(float(i), float(i % 2)) for i in range(1000)]
    smoothed = smooth(points)
    assert [x for x, _ in smoothed] == [x for x, _ in points]
    assert all(abs(y - 0.5) < 0.1 for _, y in smoothed[20:-20])
    rising = [(float(i), 2.0 * i) for i in range(500)]
    assert [y for _, y in smooth(rising)] == pytest.approx([y for _, y in rising])  # it does not lag behind


@pytest.mark.parametrize("places", [[10, 12], [190, 199, 200], [0, 0, 0], [50, 150], [200]])
def test_names_do_not_cover_each_other(places: list[float]) -> None:
    found = spread(places)
    assert all(two - one >= 15.99 for one, two in pairwise(found))
    assert found[-1] <= HEIGHT or found == places


@pytest.mark.parametrize(
    ("value", "said"),
    [(0, "0"), (1234.5, "1,234"), (45.63, "45.6"), (1.234, "1.23"), (0.01234, "0.012"), (2e-5, "2e-05")],
)
def test_numbers_have_as_many_digits_as_count(value: float, said: str) -> None:
    assert few_digits(value) == said
