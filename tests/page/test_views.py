"""Each view with the real service and a small real model; situations that need a fake server come last."""

import re
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from regard.serve.app import WEB

from .conftest import PageOpener
from .fake_server import FakeServer

N_STEPS = 16


@pytest.fixture
def name(run: Path) -> str:
    """The name of the model that is served with its run."""
    return run.name


def test_translation_shows_confidence_and_time(
    open_page: PageOpener, service_url: str, sentence: str, expected: str
) -> None:
    page = open_page(service_url)
    page.locator("#sentence").fill(sentence)
    expect(page.locator("#words")).to_have_text(expected)
    expect(page.locator(".time")).to_contain_text(" ms")
    doubts = [
        word.evaluate("element => element.style.getPropertyValue('--doubt')")
        for word in page.locator(".words .word").all()
    ]
    assert len(doubts) == len(expected.split())
    assert all(0 <= float(doubt) <= 1 for doubt in doubts)
    assert any(float(doubt) > 0 for doubt in doubts)


def test_alternative_can_be_selected_and_deselected(
    open_page: PageOpener, service_url: str, sentence: str, expected: str
) -> None:
    page = open_page(service_url, text=sentence)
    rows = page.locator("#alternatives button")
    expect(rows).to_have_count(4)
    alternative = rows.nth(2).locator(".text").inner_text()
    rows.nth(2).click()
    expect(page.locator("#words")).to_have_text(alternative)
    expect(rows.nth(2)).to_have_attribute("aria-pressed", "true")
    rows.nth(0).click()
    expect(page.locator("#words")).to_have_text(expected)


def test_link_keeps_the_selected_alternative_and_the_look_shows_it(
    open_page: PageOpener, service_url: str, sentence: str
) -> None:
    page = open_page(service_url, text=sentence)
    row = page.locator("#alternatives button").nth(2)
    alternative = row.locator(".text").inner_text()
    row.click()
    page.wait_for_url(lambda url: "alternative=2" in url)
    page.locator("#tab-look").click()
    page.locator(".walk-step").nth(13).click()
    page.reload()
    expect(page.locator("#words")).to_have_text(alternative)
    tokens = page.locator(".step-body .choice.sentence .choice-option")
    expect(tokens).to_have_text([*(f"▁{word}" for word in alternative.split()), "</s>"])
    page.locator(".walk-step").nth(14).click()  # the search did find it, so its beam is that of the model
    expect(page.locator(".finished-table tbody tr", has_text=alternative)).to_have_count(1)
    expect(page.locator(".step-body")).to_contain_text("This is the model’s own search")
    page.locator("#sentence").fill(f"{sentence} 1")
    page.wait_for_url(lambda url: "alternative" not in url)


def test_aligned_words_are_marked_by_pointer_cursor_and_touch(
    open_page: PageOpener, service_url: str, sentence: str, expected: str
) -> None:
    page = open_page(service_url, text=sentence, touch=True)
    words = page.locator(".words .word")
    marked = page.locator(".mirror .aligned")
    expect(words).to_have_count(len(expected.split()))
    words.nth(1).hover()
    expect(marked).to_have_count(1)
    expect(page.locator(".word-info")).to_contain_text("↔")
    source = marked.inner_text()
    index = marked.evaluate("word => [...word.parentNode.children].indexOf(word)") * 2  # digits and spaces alternate
    page.mouse.move(600, 700)
    expect(marked).to_have_count(0)
    words.nth(1).tap()
    expect(marked).to_have_text([source])
    page.locator("#sentence").evaluate("(box, index) => { box.focus(); box.setSelectionRange(index, index) }", index)
    expect(page.locator(".words .aligned").first).to_be_visible()


def test_pointing_at_the_sentence_marks_aligned_words(
    open_page: PageOpener, service_url: str, sentence: str, expected: str
) -> None:
    page = open_page(service_url, text=sentence)
    expect(page.locator("#words")).to_have_text(expected)
    words = page.locator(".mirror span")
    n_marked = 0
    for n in range(words.count()):
        box = words.nth(n).bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        expect(words.nth(n)).to_have_class("aligned")
        n_marked += page.locator(".words .aligned").count()
    assert n_marked == len(expected.split())  # every word of the translation is aligned with one word


def test_walking_through_all_steps_needs_no_requests_but_for_matrices(
    open_page: PageOpener, service_url: str, sentence: str
) -> None:
    page = open_page(service_url, "look", text=sentence)
    title = page.locator(".step-title")
    expect(title).to_be_visible()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    titles = []
    for step in range(1, N_STEPS + 1):
        expect(page.locator(".walk-step[aria-current] .walk-number")).to_have_text(str(step))
        assert page.locator(".step-body").inner_text().strip()
        titles.append(title.inner_text())
        page.keyboard.press("ArrowRight")
    assert len(set(titles)) == N_STEPS
    assert [url for url in requests if "/v1/" in url and not url.endswith("/v1/projection")] == []
    page.wait_for_url(lambda url: f"stop={N_STEPS}" in url)
    page.go_back()
    expect(title).to_have_text(titles[-2])
    page.reload()
    expect(title).to_have_text(titles[-2])


def test_matrices_give_the_numbers_of_q_k_and_v(open_page: PageOpener, service_url: str, sentence: str) -> None:
    page = open_page(
        service_url, "look", text=sentence, stop=4, attention="cross", head=2, row=2, column=3, level="pieces"
    )
    sum_line = page.locator(".matrix-product .readout data")
    expect(sum_line).to_have_count(2)
    look = page.request.post(f"{service_url}v1/look", data={"text": sentence, "arrays": "base64"}).json()
    head = {"attention": "cross", "layer": 0, "head": 1}
    body = {"text": sentence, "translation": look["target"]["text"], "head": head, "arrays": "base64"}
    projection = page.request.post(f"{service_url}v1/projection", data=body).json()
    record = next(record for record in look["attentions"] if record["attention"] == "cross")
    for name, row in (("q", 1), ("k", 2), ("v", 2)):
        x, weight, bias = (numbers(projection[name][part]) for part in ("x", "weight", "bias"))
        assert x @ weight + bias == pytest.approx(numbers(record[name])[1], abs=1e-5)
        page.locator('[data-choice="vector"] label', has_text=name).click()
        page.locator('[data-slider="unit"]').fill("5")
        expect(page.locator(".matrix figcaption")).to_have_text(
            [
                f"{part}: {' × '.join(map(str, shape))}"
                for part, shape in (("x", x.shape), (f"W_{name.upper()}", weight.shape), (name, (len(x), len(bias))))
            ]
        )
        product, value = (float(element.get_attribute("value") or "") for element in sum_line.all())
        assert product == pytest.approx(x[row] @ weight[:, 5], abs=1e-5)
        expect(page.locator(".matrix-product .readout")).to_contain_text("(bias)")
        assert value == pytest.approx(numbers(record[name])[1, row, 5], abs=1e-6)


def numbers(array: dict[str, Any]) -> Any:
    return np.frombuffer(b64decode(array["float32"]), "<f4").reshape(array["shape"]).astype(float)


def test_new_sentence_keeps_the_open_step(
    open_page: PageOpener, service_url: str, sentence: str, expected: str
) -> None:
    page = open_page(service_url, "look", text=sentence, stop=8)
    title = page.locator(".step-title")
    before = title.inner_text()
    with page.expect_request("**/v1/look") as request:
        page.locator("#sentence").fill("1 2 3")
    assert (request.value.post_data_json or {})["text"] == "1 2 3"
    expect(page.locator("#words")).not_to_have_text(expected)
    expect(title).to_have_text(before)
    page.locator("#sentence").fill("")
    expect(page.locator("#view-look")).to_contain_text("Type a sentence above")


def test_sentence_that_is_too_long_to_show_is_explained(open_page: PageOpener, service_url: str) -> None:
    page = open_page(service_url, "look", text="1 2 3 4 5 6 7 8 9 0 " * 60, allow_error="status of 4")
    expect(page.locator("#view-look")).to_contain_text("cannot be shown")


def test_look_shows_one_line_of_several(open_page: PageOpener, service_url: str, sentence: str) -> None:
    page = open_page(service_url, "look", text=f"1 2 3\n\n{sentence}")
    expect(page.locator("#view-look .line-picker")).to_contain_text("Line 1 of 2")
    expect(page.locator(".step-title")).to_be_visible()
    with page.expect_request("**/v1/look") as request:
        page.get_by_role("button", name="Next line").click()
    assert request.value.post_data_json["text"] == sentence


def test_each_intervention_shows_before_and_after(
    open_page: PageOpener, service_url: str, sentence: str, expected: str
) -> None:
    page = open_page(service_url, "try", text=sentence)
    expect(page.locator(".comparison-side").first).to_contain_text(expected)
    effect = page.locator(".effect p")
    expect(effect).to_have_count(0)
    for switch in ("Divide by √d_k", "Mask the future"):
        page.get_by_role("switch", name=switch).click()
        expect(effect.first).to_contain_text("changes by")
        page.get_by_role("switch", name=switch).click()
        expect(effect).to_have_count(0)
    for positions in ("shuffled", "none"):
        page.get_by_role("radio", name=positions).check()
        expect(effect.first).to_contain_text("changes by")
    expect(page.locator(".word-probabilities li")).to_have_count(len(expected.split()))
    page.get_by_role("button", name="Reset everything").click()
    expect(page.get_by_role("radio", name="normal")).to_be_checked()
    expect(effect).to_have_count(0)


def test_without_the_mask_use_and_training_are_scored_apart(
    open_page: PageOpener, service_url: str, sentence: str
) -> None:
    page = open_page(service_url, "try", text=sentence)
    page.get_by_role("switch", name="Mask the future").click()
    effects = page.locator(".effect p")
    expect(effects).to_have_count(2)
    look = page.request.post(
        f"{service_url}v1/look", data={"text": sentence, "interventions": {"mask": False}, "arrays": "base64"}
    ).json()
    before, use, training = (look["change"][name] for name in ("before", "of_before_in_use", "of_before"))
    for effect, name, after in zip(effects.all(), ("In use", "In training"), (use, training), strict=True):
        expect(effect).to_contain_text(name)
        delta = float(effect.locator("data").get_attribute("value") or "")
        assert delta == pytest.approx(after["log_probability"] - before["log_probability"], abs=1e-6)
    assert "^" not in effects.last.inner_text()  # a power of ten is written as such
    expect(page.locator(".word-probabilities .probability-bar.use")).to_have_count(len(before["words"]))
    expect(page.locator(".word-probabilities .probability-bar.training")).to_have_count(len(before["words"]))
    knob = page.get_by_role("switch").evaluate_all(KNOBS_OUTSIDE)
    assert knob == []
    expect(page.locator(".head-group-name").nth(1)).to_have_text("Decoder self-attention (without the mask)")
    sample = page.locator(".trained-without > p").last  # of both models, not one alone
    expect(sample).to_have_text(re.compile("as in the paper: .*without the mask: "))
    page.locator("#tab-look").click()
    page.locator(".walk-step").nth(11).click()
    expect(page.locator(".breadcrumb")).to_contain_text("(masked)")
    page.get_by_role("switch").check()
    expect(page.locator(".breadcrumb")).to_contain_text("(without the mask)")
    assert page.locator(".look input[role=switch]").evaluate_all(KNOBS_OUTSIDE) == []


KNOBS_OUTSIDE = """switches => switches.map((element) => {
    const [pill, knob] = [getComputedStyle(element), getComputedStyle(element, "::before")];
    const moved = knob.transform === "none" ? 0 : new DOMMatrix(knob.transform).m41;
    const left = parseFloat(knob.marginLeft) + (parseFloat(knob.insetInlineStart) || 0) + moved;
    return left >= 0 && left + parseFloat(knob.width) <= parseFloat(pill.width) ? "" : element.outerHTML;
}).filter(Boolean)"""


def test_every_head_can_be_switched_off_and_on_again(open_page: PageOpener, service_url: str, sentence: str) -> None:
    page = open_page(service_url, "try", text=sentence)
    heads = page.locator(".head-cell")
    expect(heads).to_have_count(6)  # one layer of two heads, three kinds of attention
    for n in range(6):
        heads.nth(n).click()
    expect(page.locator(".heads-off li")).to_have_count(6)
    expect(page.locator(".effect")).to_contain_text("times less likely")
    page.locator(".heads-off button").first.click()
    expect(page.locator(".heads-off li")).to_have_count(5)
    page.reload()
    expect(page.locator(".heads-off li")).to_have_count(5)


def test_head_importance_without_a_run_is_explained(open_page: PageOpener, service_url: str, sentence: str) -> None:
    page = open_page(service_url, "try", text=sentence, allow_error="404")
    page.get_by_role("button", name="Which heads matter?").click()
    expect(page.locator(".head-importance")).to_contain_text("needs the validation text")


def test_training_view_shows_curves_and_samples_of_a_run(open_page: PageOpener, service_url: str, name: str) -> None:
    page = open_page(service_url, "training", model=name)
    expect(page.locator(".run-summary")).to_contain_text("Finished")
    run = page.request.get(f"{service_url}v1/training", params={"model": name}).json()
    speed = f"{run['speed']['tokens_per_second']:,.0f} tokens per second"  # as in report.html: of the whole run
    expect(page.locator(".run-summary")).to_contain_text(speed)
    curves = page.locator(".curve:visible")
    expect(curves).to_have_count(5)  # loss, three charts of measures, learning rate
    plot = curves.first.get_by_role("slider")
    plot.focus()
    page.keyboard.press("Home")
    expect(curves.first.locator(".values")).to_contain_text("step 1training 3.900")
    assert "step 1, training 3.900" in (plot.get_attribute("aria-valuetext") or "")
    expect(page.locator(".sample mark")).to_have_text(["four"])


def test_training_view_without_a_run_is_explained(open_page: PageOpener, service_url: str) -> None:
    page = open_page(service_url, "training")
    expect(page.locator("#view-training")).to_contain_text("without the run")


def test_page_loads_nothing_from_other_hosts(
    open_page: PageOpener, service_url: str, sentence: str, expected: str
) -> None:
    page = open_page(service_url, text=sentence)
    expect(page.locator("#words")).to_have_text(expected)
    urls = page.evaluate("performance.getEntriesByType('resource').map(({ name }) => name)")
    assert all(url.startswith(service_url) for url in urls)


def test_style_sheets_load_in_the_same_order_as_in_a_saved_look() -> None:
    (line,) = re.findall(r"^const STYLE_SHEETS = (.*);", (WEB / "look" / "load.js").read_text(), re.MULTILINE)
    listed = re.findall(r'"(\w+\.css)"', line)
    assert listed == sorted(path.name for path in (WEB / "look").glob("*.css"))
    assert (WEB / "colours.css").is_file()


def test_training_view_follows_a_run_until_it_ends(open_page: PageOpener, fake_server: FakeServer) -> None:
    fake_server.run_progress = (50, "running")
    page = open_page(fake_server.url, "training")
    expect(page.locator(".run-summary")).to_contain_text("step 50 of 200")
    fake_server.run_progress = (100, "finished")
    expect(page.locator(".run-summary")).to_contain_text("Finished")
    n_requests = fake_server.n_requests("/v1/training")
    page.wait_for_timeout(2_200)
    assert fake_server.n_requests("/v1/training") == n_requests


def test_head_importance_is_shown_in_the_grid(open_page: PageOpener, fake_server: FakeServer) -> None:
    page = open_page(fake_server.url, "try", text="good day")
    page.get_by_role("button", name="Which heads matter?").click()
    expect(page.locator(".head-importance")).to_contain_text("Measured on 100 sentences")
    expect(page.locator(".head-importance")).to_contain_text("head 4, it rises most: from 0.500 to 0.800")
    expect(page.locator(".head-bar:visible")).to_have_count(18)  # a head without effect has no bar
    page.wait_for_url(lambda url: "importance=on" in url)
    page.reload()
    expect(page.locator(".head-bar:visible")).to_have_count(18)
    page.get_by_role("button", name="Hide").click()
    expect(page.locator(".head-bar:visible")).to_have_count(0)
    page.wait_for_url(lambda url: "importance" not in url)


def test_fresh_page_opens_with_the_example_and_its_head(open_page: PageOpener, fake_server: FakeServer) -> None:
    page = open_page(fake_server.url)  # with an address that states a view
    expect(page.locator(".tour li")).to_have_count(3)
    expect(page.locator("#sentence")).to_have_value("")
    page.goto("about:blank")
    page.goto(fake_server.url)
    expect(page.locator("#sentence")).to_have_value("good it day")
    expect(page.locator("#alternatives button")).to_have_count(3)  # what is below moves down when they appear
    page.get_by_role("button", name="Look inside").click()
    expect(page.locator(".walk-step[aria-current] .walk-name")).to_have_text("heads")
    expect(page.locator(".breadcrumb")).to_have_text("Encoder self-attention · layer 2 · head 3")
    page.wait_for_url(lambda url: "stop=8&attention=encoder&layer=2&head=3&" in url)


def test_prediction_is_compared_with_what_the_pronouns_attend_to(
    open_page: PageOpener, fake_server: FakeServer
) -> None:
    page = open_page(fake_server.url, "look", text="other words here", stop=8)
    pair = page.locator(".example-pair")
    expect(pair.locator(".guess")).to_have_count(6)
    expect(pair.locator(".bar-line")).to_have_count(0)  # predict first
    weights = [look_weights(page, fake_server.url, text) for text in ("good it day", "good it night")]
    pair.locator(".guess").nth(int(weights[0][:3].argmax())).click()
    expect(pair.locator(".bar-line")).to_have_count(6)  # three words in each sentence
    shown = pair.locator("data").evaluate_all("data => data.map(({ value }) => Number(value))")
    assert shown == pytest.approx([*sorted(weights[0])[:-4:-1], *sorted(weights[1])[:-4:-1]], abs=1e-6)
    is_right = weights[0][:3].max() == weights[0].max()
    expect(pair.locator(".verdict").first).to_have_text("As you predicted." if is_right else re.compile("Not as you"))
    pair.get_by_role("button", name="Show it").click()
    expect(page.locator(".breadcrumb")).to_have_text("Encoder self-attention · layer 2 · head 3")


def look_weights(page: Page, url: str, text: str) -> Any:
    """What "it" attends to in the example's head."""
    look = page.request.post(f"{url}v1/look", data={"text": text, "translation": None, "interventions": {}}).json()
    [record] = [record for record in look["attentions"] if (record["attention"], record["layer"]) == ("encoder", 1)]
    return np.array(record["weights"])[2, 1]
