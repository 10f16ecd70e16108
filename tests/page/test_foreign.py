"""The page with models that nothing in src/ knows: a translator without attention, and one of another task."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from ..digits import write_digits
from .conftest import PageOpener
from .page_checks import VIEWS, expect_width

NARROW, WIDE = 390, 1400  # pixels
VECTORS = "[2, 0, 0, 0, 0, 0]\n[0, 2, null, 0, 0, 0]"


@pytest.fixture(scope="module")
def url(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Starts a process that trains and serves "bag", "gru" and "vectors", beside "golden", a Transformer."""
    script, folder = Path(__file__).parent / "foreign_server.py", tmp_path_factory.mktemp("foreign")
    write_digits(folder, 300, seed=1)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with (
        (folder / "errors").open("w") as errors,
        subprocess.Popen(
            [sys.executable, script, folder], env=environment, text=True, stdout=subprocess.PIPE, stderr=errors
        ) as process,
    ):
        assert process.stdout is not None
        line = process.stdout.readline()  # empty if the process has ended
        try:
            assert "http" in line, (folder / "errors").read_text()
            yield line.split()[-1] + "/"
        finally:
            process.terminate()


def words_shown(page: Page) -> int:
    """Words of the translation on the screen, which may have been searched again for a lost number."""
    expect(page.locator("#words .word").first).to_be_visible()
    return page.locator("#words .word").count()


def expect_no_attention(page: Page) -> None:
    text = page.locator("body").inner_text()
    assert not re.search("attention|어텐션", text, re.IGNORECASE), text


def expect_to_fit(page: Page) -> None:
    for width in (NARROW, WIDE):
        page.set_viewport_size({"width": width, "height": 800})
        expect_width(page, width)


@pytest.mark.parametrize(
    ("locale", "names"),
    [
        (
            "en-US",
            ["Translate", "What it computed", "no part that can be switched off", "Finished", "perplexity", "accuracy"],
        ),
        (
            "ko-KR",
            ["번역", "모델이 계산한 값", "바꿔 볼 수 있는 부분이 없습니다", "학습 완료", "퍼플렉서티", "정확도"],
        ),
    ],
)
def test_translator_without_attention_shows_what_there_is(
    open_page: PageOpener, url: str, locale: str, names: list[str]
) -> None:
    page = open_page(url, model="bag", locale=locale)
    expect(page.locator(".tour li:visible")).to_have_count(2)  # there are no heads to switch off
    expect_no_attention(page)
    page.locator("#sentence").fill("1 2 3")
    expect(page.locator("#words .word").first).to_be_visible()
    expect(page.locator("#tab-translate")).to_have_text(names[0])
    expect(page.locator("#alternatives button")).to_have_count(4)
    page.locator("#words .word").first.hover()
    expect(page.locator(".word-info")).to_contain_text("%")
    page.mouse.move(0, 700)
    expect(page.locator(".word-info.is-hint")).to_have_text(re.compile("confident|확신"))  # no words are aligned
    for view, shown in zip(VIEWS[1:], names[1:4], strict=True):
        expect_no_attention(page)
        expect_to_fit(page)
        page.locator(f"#tab-{view}").click()
        expect(page.locator(f"#view-{view}")).to_contain_text(shown)
    for label in (*names[4:], "BLEU, chrF++"):
        expect(page.locator(".curve h3", has_text=label)).to_be_visible()
    expect(page.locator(".sample").first).to_be_visible()
    expect_no_attention(page)
    expect_to_fit(page)


def test_look_without_attention_draws_predictions_and_recorded_vectors(open_page: PageOpener, url: str) -> None:
    page = open_page(url, "look", model="bag", text="1 2 3")
    n_words = words_shown(page)
    rows = page.locator(".recorded tbody tr")
    expect(rows).to_have_count(n_words + 1)  # and the end of the sentence
    expect(rows.first).to_contain_text("%")
    captions = page.locator(".recorded figcaption")
    expect(captions).to_have_text(
        [re.compile(r"words_in\.embedding.*source 4 × unit 32"), re.compile(r"gru\.states.*× unit 32")]
    )
    expect(page.locator(".recorded canvas")).to_have_count(4 + n_words + 1)
    page.get_by_role("button", name="한국어").click()
    expect(captions.first).to_contain_text("원문 4 × 유닛 32")


@pytest.mark.parametrize(
    ("model", "measures"),
    [("bag", ["Gradient", "Left out"]), ("golden", ["Attention", "Gradient", "Left out"])],
)
def test_what_each_word_depends_on_is_measured_when_the_section_is_opened(
    open_page: PageOpener, url: str, model: str, measures: list[str]
) -> None:
    page = open_page(url, "look", model=model, text="1 2 3")
    section = page.locator(".depends-section")
    expect(section.locator("summary").first).to_have_text("What each word depends on")
    expect(section.locator("canvas")).to_have_count(0)
    section.locator("summary").first.click()
    expect(section.locator("figcaption")).to_have_text([re.compile(f"^{name}") for name in measures])
    expect(section.locator(".heat-columns").last.locator(".heat-label")).to_have_text(["1", "2", "3", "</s>"])
    rows = section.locator(".table-scroll tbody tr")
    expect(rows).to_have_count(words_shown(page) + 1)
    expect(rows.last).to_contain_text("mean")
    page.locator("textarea").first.fill("4 5")
    expect(section.locator(".heat-columns").last.locator(".heat-label")).to_have_text(["4", "5", "</s>"])
    page.get_by_role("button", name="한국어").click()
    expect(rows.last).to_contain_text("평균")
    expect_to_fit(page)


def test_attention_of_a_recurrent_network_is_drawn_beside_its_states(open_page: PageOpener, url: str) -> None:
    page = open_page(url, "look", model="gru", text="1 2 3")
    scores, weights = (page.locator(".recorded .panel-map").nth(number) for number in (0, 1))
    expect(scores.locator("figcaption")).to_contain_text("Scores before the softmax")
    expect(weights.locator(".heat-columns .heat-label")).to_have_text(["▁1", "▁2", "▁3", "</s>"])
    expect(weights.locator(".heat-rows .heat-label").last).to_have_text("</s>")
    for path in ("source.embedding", "encoder.layers.0.states", "decoder.layers.0.update_gate"):
        expect(page.locator(".recorded figcaption", has_text=path)).to_be_visible()
    weights.locator(".heat-grid").press("ArrowRight")
    expect(weights.locator(".heat-columns [data-lit]")).to_have_text("▁2")
    expect_to_fit(page)
    page.locator("#tab-try").click()
    expect(page.locator("#view-try > .note")).to_contain_text("no part that can be switched off")


@pytest.mark.parametrize(
    ("locale", "names"),
    [
        (
            "en-US",
            ["Predict", "does not translate", "What it computed", "no part that can be switched off", "Finished"],
        ),
        ("ko-KR", ["예측", "다른 작업", "모델이 계산한 값", "바꿔 볼 수 있는 부분이 없습니다", "학습 완료"]),
    ],
)
def test_model_of_another_task_predicts(open_page: PageOpener, url: str, locale: str, names: list[str]) -> None:
    page = open_page(url, model="vectors", text=VECTORS, locale=locale)
    predictions = [re.compile(rf"label: class {n} · probability: 0\.\d+") for n in range(2)]
    expect(page.locator("#words p")).to_have_text(predictions)
    expect(page.locator("#tab-translate")).to_have_text(names[0])
    expect(page).to_have_title(f"{names[0]} · regard")
    expect(page.locator(".legend")).to_be_hidden()
    for view, shown in zip(VIEWS, names[1:], strict=True):
        page.locator(f"#tab-{view}").click()
        expect(page.locator(f"#view-{view}")).to_contain_text(shown)
        if view == "look":
            expect(page.locator(".recorded tbody tr").first).to_contain_text("class 0")
            expect(page.locator(".recorded figcaption")).to_contain_text("hidden.states")
            expect(page.locator(".recorded canvas")).to_have_count(1)
        expect_no_attention(page)
        expect_to_fit(page)
    for label in ("side accuracy",):  # the names of the run's own measures
        expect(page.locator(".curve h3", has_text=re.compile(f"^{label}", re.IGNORECASE))).to_be_visible()
    expect(page.locator(".run-summary")).to_contain_text("vectors")


def test_classifier_shows_its_label_and_what_it_depends_on(open_page: PageOpener, url: str) -> None:
    page = open_page(url, model="mood", text="the film was dull")
    expect(page.locator("#words p")).to_have_text(re.compile(r"bad: >?\d+% · good: <?\d+%"))
    page.locator("#tab-look").click()
    rows = page.locator(".recorded table").nth(1).locator("tbody tr")
    expect(rows).to_have_count(4)
    expect(rows.locator("th")).to_have_text(["the", "film", "was", "dull"])
    expect(rows.last.locator("td").first).to_have_text(re.compile(r"^<?\d+(\.\d+)?%$"))
    captions = page.locator(".recorded figcaption", has_text="self_attention.weights")
    expect(captions).to_have_count(4)  # two layers with two heads
    expect(captions.last).to_contain_text("encoder.1.self_attention.weights · head 2")
    expect(page.locator(".recorded .heat-columns").first.locator(".heat-label").first).to_have_text("<s>")
    folded = page.locator(".folded-site").first  # of many vectors, most are drawn when they are opened
    expect(folded.locator("canvas")).to_have_count(0)
    folded.locator("summary").first.click()
    expect(folded.locator("canvas").first).to_be_visible()
    expect_to_fit(page)
    page.get_by_role("button", name="한국어").click()
    expect(page.locator(".recorded")).to_contain_text("이 단어를 뺐을 때의 확률")
    page.locator("#tab-training").click()
    expect(page.locator(".curve h3", has_text="Matthews")).to_be_visible()


def test_lines_are_the_sentences_of_a_story(open_page: PageOpener, url: str) -> None:
    story = "Ann went to the hall.\nBen went to the office.\nAnn dashed to the garden.\nWhere is Ann?"
    page = open_page(url, model="stories", text=story)
    expect(page.locator("#words p")).to_have_count(1)
    expect(page.locator("#words")).to_contain_text(re.compile(r"^garden: .*unknown: dashed$"))
    expect(page.locator("#view-translate")).to_contain_text("the last one is a question")
    page.locator("#tab-look").click()
    rows = page.locator(".heat-sentences .heat-rows .heat-label")
    expect(rows).to_have_text(story.split("\n")[:3])
    page.locator("#sentence").fill(story.replace("Ann dashed", "Ben went"))
    expect(page.locator("#words")).to_contain_text(re.compile("^hall: "))
    expect(rows.last).to_have_text("Ben went to the garden.")
    expect_to_fit(page)


def test_input_that_the_model_cannot_read_is_explained(open_page: PageOpener, url: str) -> None:
    page = open_page(url, model="vectors", text="[2, 0, 0, 0, 0, 0]", allow_error="status of 400")
    expect(page.locator("#words")).to_contain_text("class 0")
    page.locator("#sentence").fill("[2, 0]")
    expect(page.locator("#messages")).to_contain_text("must be a list of 6 numbers")
    expect(page.locator("#words")).to_have_text("")  # not the prediction for another input
    page.locator("#tab-look").click()
    expect(page.locator("#view-look > .note")).to_contain_text("This input cannot be shown.")
    page.locator("#sentence").fill("[0, 0, 2, 0, 0, 0]")
    expect(page.locator(".recorded tbody tr").first).to_contain_text("class 2")
    expect(page.locator("#words")).to_contain_text("class 2")


def test_changing_between_kinds_of_models(open_page: PageOpener, url: str) -> None:
    page = open_page(url, "look", model="golden", text="7 4 7")
    title, picker = page.locator(".step-title"), page.locator("#pair-model")
    expect(title).to_be_visible()
    picker.select_option("bag")
    expect(page.locator(".recorded")).to_be_visible()
    expect(page.locator("#sentence")).to_have_value("7 4 7")  # still a sentence to translate
    expect(title).to_have_count(0)
    picker.select_option("vectors")
    expect(page.locator("#tab-translate")).to_have_text("Predict")
    expect(page.locator("#sentence")).to_have_value("")
    expect(page.locator("#view-look > .note")).to_have_text(
        "Type an input above to see what the model computes for it."
    )
    picker.select_option("golden")
    expect(page.locator("#tab-translate")).to_have_text("Translate")
    page.locator("#sentence").fill("7 4 7")
    step = page.locator(".walk-step[aria-current] .walk-number")
    expect(step).to_have_text("1")
    title.click()
    page.keyboard.press("ArrowRight")
    expect(step).to_have_text("2")
    page.locator("#tab-try").click()
    expect(page.locator(".head-cell").first).to_be_visible()
    picker.select_option("bag")
    expect(page.locator("#view-try > .note")).to_contain_text("no part that can be switched off")
    expect(page.locator(".head-cell").first).to_be_hidden()
