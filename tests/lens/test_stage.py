"""The stage in a real browser, under the page's policy: every stop opens, and shows the numbers of the look."""

from __future__ import annotations

import sys
from base64 import b64decode
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

sys.path.insert(0, str(Path(__file__).parent))
from stage_fixture import Shape, make_look, softmax
from stage_site import SHAPES, WALK, Site

N_STOPS = 15


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.server.shutdown()
    site.server.server_close()


Opener = Callable[..., Page]


@pytest.fixture
def open_stage(browser: Browser, site: Site) -> Iterator[Opener]:
    """Opens the stage on a look; at the end of a test nothing may have been complained about."""
    complaints: list[str] = []
    pages: list[Page] = []

    def open_it(look: dict[str, Any], width: int = 1400, **options: Any) -> Page:
        site.look = look
        page = browser.new_page(viewport={"width": width, "height": 900}, **options)
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        pages.append(page)
        page.goto(site.address)
        page.locator("body[data-ready]").wait_for()
        return page

    yield open_it
    for page in pages:
        page.close()
    assert complaints == []


@pytest.fixture(scope="module")
def look() -> dict[str, Any]:
    return make_look()


def numbers(array: dict[str, Any]) -> Any:
    return np.frombuffer(b64decode(array["float32"]), "<f4").reshape(array["shape"]).astype(float)


def attention_of(look: dict[str, Any], use: str, layer: int) -> dict[str, Any]:
    return next(one for one in look["attentions"] if (one["attention"], one["layer"]) == (use, layer))


def go(page: Page, **place: Any) -> None:
    page.evaluate("place => stage.go(place)", place)


def number(page: Page, name: str) -> float:
    text = page.locator(f'[data-number="{name}"]').inner_text()
    return float(text.replace("−", "-").replace(",", "").replace("<", ""))


@pytest.mark.parametrize("name", SHAPES)
def test_every_stop_opens_for_every_model(open_stage: Opener, name: str) -> None:
    page = open_stage(make_look(SHAPES[name]))
    titles = set()
    for language, width in (("en", 1400), ("ko", 360)):
        page.set_viewport_size({"width": width, "height": 900})
        page.locator("#stage[data-wide]" if width > 1000 else "#stage[data-strip]").wait_for()
        for number, found in enumerate(page.evaluate(WALK, language), start=1):
            titles.add(found["title"])
            assert found["questions"] >= 1, number
            assert (found["here"], found["strange"], found["tooWide"]) == (1, [], 0), number
    assert len(titles) == 2 * N_STOPS
    assert page.locator("img").count() == 0


@pytest.mark.parametrize(("use", "layer", "head"), [("encoder", 0, 0), ("encoder", 1, 3), ("cross", 1, 2)])
def test_a_cell_is_worked_out_with_the_numbers_of_the_look(
    open_stage: Opener, look: dict[str, Any], use: str, layer: int, head: int
) -> None:
    page = open_stage(look)
    found = attention_of(look, use, layer)
    for row, column in ((0, 0), (3, 5), (8, 2)):
        go(page, stop="softmax", attention=use, layer=layer, head=head, level="pieces", row=row, column=column)
        for name, shown in (("scores", "score"), ("scaled", "scaled"), ("weights", "weight")):
            assert number(page, shown) == pytest.approx(numbers(found[name])[head, row, column], abs=0.006)
        assert number(page, "score") == pytest.approx(
            numbers(found["q"])[head, row] @ numbers(found["k"])[head, column], abs=0.01
        )
        assert number(page, "row-sum") == 1


def test_a_word_of_several_pieces_is_their_mean_of_sums(open_stage: Opener) -> None:
    look = make_look(Shape(longest=5))
    page = open_stage(look)
    words = look["source"]["words"]
    row = next(i for i, word in enumerate(words) if word["text"] == "animal")
    column = next(i for i, word in enumerate(words) if word["text"] == "because")
    assert len(words[row]["pieces"]) == len(words[column]["pieces"]) == 2
    go(page, stop="softmax", attention="encoder", layer=0, head=1, level="words", row=row, column=column)
    weights = numbers(attention_of(look, "encoder", 0)["weights"])[1]
    expected = weights[np.ix_(words[row]["pieces"], words[column]["pieces"])].sum(1).mean()
    shown = page.locator(".panel-map .readout").inner_text().split()[-1]
    assert float(shown.replace("<", "")) == pytest.approx(expected, abs=0.006)


def test_the_switch_shows_the_softmax_without_the_division(open_stage: Opener, look: dict[str, Any]) -> None:
    page = open_stage(look)
    go(page, stop="softmax", attention="encoder", layer=1, head=0, level="pieces", row=4, column=7)
    page.get_by_role("switch").check()
    expected = softmax(numbers(attention_of(look, "encoder", 1)["scores"])[0, 4])[7]
    shown = page.locator(".panel-map .readout").inner_text().split()[-1]
    assert float(shown.replace("<", "")) == pytest.approx(expected, abs=0.006)
    go(page, stop="scores")  # it stays switched while the reader walks
    expect(page.get_by_role("switch")).to_be_checked()


def test_the_switch_divides_what_this_model_does_not_divide(open_stage: Opener) -> None:
    plain = make_look(SHAPES["one word"])  # attention without the division
    page = open_stage(plain)
    place = {"stop": "scores", "attention": "encoder", "layer": 0, "head": 0, "level": "pieces", "row": 0, "column": 1}
    go(page, **place)
    readout = page.locator(".panel-map .readout")
    raw = float(readout.inner_text().split()[-1].replace("−", "-"))
    page.get_by_role("switch").check()
    divided = float(readout.inner_text().split()[-1].replace("−", "-"))
    assert divided == pytest.approx(raw / plain["model"]["d_k"] ** 0.5, abs=0.02) and abs(raw) > 0.1


def test_what_the_mask_hides_is_not_read_out_as_the_strongest(open_stage: Opener, look: dict[str, Any]) -> None:
    page = open_stage(look)
    go(page, stop="scores", attention="decoder", layer=0, head=0, level="pieces")
    first = page.locator(".panel-map .heat-grid").get_attribute("aria-label").split(". ", 1)[1].split("; ")[0]  # type: ignore[union-attr]
    row, column = first.rsplit(" ", 1)[0].split(" → ")
    assert row == column  # the first symbol sees itself alone


def test_lifting_the_mask_shows_the_future(open_stage: Opener, look: dict[str, Any]) -> None:
    page = open_stage(look)
    go(page, stop="masked", layer=0, head=2, level="pieces", row=2, column=9)
    readout = page.locator(".panel-map .readout")
    expect(readout).to_contain_text("hidden by the mask")
    assert page.locator('[data-number="mask"]').inner_text() == "−∞"
    page.get_by_role("switch").check()
    expected = softmax(numbers(attention_of(look, "decoder", 0)["scaled"])[2, 2])[9]
    assert float(readout.inner_text().split()[-1].replace("<", "")) == pytest.approx(expected, abs=0.006)


def test_a_word_can_be_slid_to_another_place(open_stage: Opener, look: dict[str, Any]) -> None:
    page = open_stage(look)
    go(page, stop="position", attention="encoder", level="pieces", row=1)
    page.locator('[data-slider="position"]').fill("20")
    strips = page.locator(".panel-sum .strips")
    strips.focus()
    page.keyboard.press("ArrowRight")  # the first number: sin(20)
    page.keyboard.press("ArrowRight")  # the second: cos(20)
    embedded = numbers(look["embedding"]["source"]["embedded"])[1, 1]
    shown = strips.locator(".readout").inner_text()
    assert float(shown.rsplit("=", 1)[1].replace("−", "-")) == pytest.approx(embedded + np.cos(20), abs=0.006)


def test_arrow_keys_walk_from_the_first_stop_to_the_last_and_back(open_stage: Opener, look: dict[str, Any]) -> None:
    page = open_stage(look)
    seen = []
    for _ in range(N_STOPS):
        seen.append(page.evaluate("[stage.place.stop, stage.place.attention]"))
        page.keyboard.press("ArrowRight")
    assert [stop for stop, _ in seen] == list(range(1, N_STOPS + 1))
    assert [use for _, use in seen[10:13]] == ["encoder", "decoder", "cross"]
    for _ in range(N_STOPS):
        page.keyboard.press("ArrowLeft")
    assert page.evaluate("[stage.place.stop, stage.place.attention]") == [1, "encoder"]
    assert page.evaluate("places.length") == 2 * (N_STOPS - 1)


def test_arrow_keys_walk_from_anywhere_that_has_no_use_for_them(open_stage: Opener, look: dict[str, Any]) -> None:
    page = open_stage(look)
    page.evaluate(
        """() => { for (const [tag, role] of [["button", ""], ["textarea", ""], ["select", ""], ["button", "slider"]]) {
        const one = document.createElement(tag);
        if (role) one.setAttribute("role", role);
        one.className = "around";
        document.body.prepend(one); } }"""
    )
    slider, select, field, button = page.locator(".around").all()
    for own in (slider, select, field):
        own.focus()
        page.keyboard.press("ArrowRight")
        assert page.evaluate("stage.place.stop") == 1
    button.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("stage.place.stop") == 2


def test_the_softmax_table_is_named_after_the_word_that_looks(open_stage: Opener, look: dict[str, Any]) -> None:
    page = open_stage(look)
    go(page, stop="softmax", attention="cross", layer=0, head=0, level="pieces", row=3, column=1)
    asked = look["target"]["outputs"]["pieces"][3]["text"]
    assert page.locator(".steps-table caption").text_content() == f"The row of \u2068{asked}\u2069, step by step"


def test_a_word_that_runs_backwards_turns_no_caption_around(open_stage: Opener) -> None:
    page = open_stage(make_look(Shape(source="\u2069\u202eevil word")))
    go(page, stop="values", attention="encoder", layer=0, head=0, level="words", row=0)
    expect(page.locator(".say")).to_contain_text("“\u2068\u202eevil\u2069”")


@pytest.mark.parametrize(("name", "waves"), [("street", True), ("base", False)])
def test_waves_are_spoken_of_only_where_there_are_waves(open_stage: Opener, name: str, waves: bool) -> None:
    page = open_stage(make_look(SHAPES[name]))
    for language, word in (("en", "waves"), ("ko", "파동")):
        page.evaluate("language => stage.setLanguage(language)", language)
        go(page, stop="embedding")
        assert (word in page.locator(".asked-here").inner_text()) == waves


def test_inside_a_map_arrow_keys_move_the_cell(open_stage: Opener, look: dict[str, Any]) -> None:
    page = open_stage(look)
    go(page, stop="softmax", row=2, column=2)
    page.locator(".heat-grid").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    place = page.evaluate("stage.place")
    assert (place["stop"], place["row"], place["column"]) == (6, 3, 3)
    box = page.locator(".heat-cells").bounding_box()
    assert box
    page.mouse.click(box["x"] + 3, box["y"] + 3)
    assert page.evaluate("[stage.place.row, stage.place.column]") == [0, 0]


@pytest.mark.parametrize("width", [1400, 400])
def test_every_block_of_the_map_opens_its_stop(open_stage: Opener, look: dict[str, Any], width: int) -> None:
    page = open_stage(look, width)
    blocks = page.locator(".block:not(.block-layer, .block-norm)")  # what stands before a sub-layer opens its end
    passed_before = 0
    for i in range(blocks.count()):
        block = blocks.nth(i)
        block.focus()
        page.keyboard.press("Enter")
        assert page.locator(".block[data-here]").count() == 1
        passed = page.locator(".block:not(.block-layer, .block-norm)[data-passed]").count()
        assert passed >= passed_before  # the blocks lie in the order that the data takes
        passed_before = passed
    assert page.evaluate("stage.place.stop") == N_STOPS
    page.locator('[data-block="decoder.1.cross"]').click()
    assert page.evaluate("[stage.place.stop, stage.place.attention, stage.place.layer]") == [13, "cross", 1]


def test_the_wall_takes_clicks_and_keys_and_marks_what_is_off(open_stage: Opener, look: dict[str, Any]) -> None:
    page = open_stage(look)
    page.evaluate(
        """() => { window.picked = []; window.wall = new Wall(document.getElementById("wall"),
        { look, language: "en", off: new Set(["encoder.0.3"]), colours: new Map([["cross.1.0", 0.5]]),
          selected: null, onPick: (head) => picked.push(head) }); }"""
    )
    wall = page.locator("#wall")
    assert wall.locator(".wall-head").count() == 3 * 2 * 4
    expect(wall.locator('[data-head="encoder.0.3"]')).to_have_attribute(
        "aria-label", "Encoder self-attention, layer 1, head 4, off"
    )
    wall.locator('[data-head="encoder.0.0"]').focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    wall.locator('[data-head="cross.1.0"]').click()
    assert page.evaluate("picked") == [
        {"attention": "encoder", "layer": 1, "head": 1},
        {"attention": "cross", "layer": 1, "head": 0},
    ]
    page.evaluate("() => wall.update({ off: new Set() })")
    assert wall.locator("[data-off]").count() == 0


def test_both_languages_have_every_text(open_stage: Opener, look: dict[str, Any]) -> None:
    page = open_stage(look)
    keys = page.evaluate(
        """async () => { const { textsOf } = await import("/stage/texts.js");
        const keys = (x) => Object.entries(x).flatMap(([k, v]) => typeof v === "object" && !Array.isArray(v)
          ? keys(v).map((inner) => k + "." + inner) : [k + (Array.isArray(v) ? v.length : "")]);
        return ["en", "ko"].map((language) => keys(textsOf(language)).sort()); }"""
    )
    assert keys[0] == keys[1]
    page.evaluate("stage.setLanguage('ko')")
    expect(page.locator(".stop-title")).to_have_text("문장을 조각으로 나눕니다")
    expect(page.locator("#stage")).to_have_attribute("lang", "ko")


def test_the_softmax_and_the_beam_show_the_search(open_stage: Opener, look: dict[str, Any]) -> None:
    page = open_stage(look)
    go(page, stop="vocabulary", step=2)
    step = look["steps"][2]
    lines = page.locator(".vocabulary .bar-line")
    assert lines.count() == 10
    assert lines.first.locator(".word").inner_text() == step["top"][0]["text"]
    assert float(lines.first.locator(".number").inner_text()) == pytest.approx(step["top"][0]["probability"], abs=0.006)
    go(page, stop="beam")
    nodes = page.locator(".beam-node")
    assert nodes.count() == len(look["beam"]["nodes"])
    page.locator('[data-slider="step"]').fill("1")
    assert page.locator(".beam-node:not([data-hidden])").count() == 1 + sum(
        n["step"] == 1 for n in look["beam"]["nodes"]
    )


def test_a_finished_sentence_is_text_even_where_characters_are_pieces_of_bytes(
    open_stage: Opener, look: dict[str, Any]
) -> None:
    look = deepcopy(look)
    by_id = {node["id"]: node for node in look["beam"]["nodes"]}
    one = next(node for node in look["beam"]["nodes"] if node["finished"])
    path = []
    while one["parent"] is not None:
        path.append(one)
        one = by_id[one["parent"]]
    for node, text in zip(reversed(path[1:]), ["▁", "<0xEA>", "<0xB0>", "<0x80>", "▁Tier"], strict=False):
        node["text"] = text
    page = open_stage(look)
    go(page, stop="beam")
    assert any(text.startswith("가 Tier") for text in page.locator(".finished-table bdi").all_inner_texts())


def test_a_new_sentence_keeps_the_stop(open_stage: Opener, look: dict[str, Any]) -> None:
    page = open_stage(look)
    go(page, stop="heads", layer=1, head=2, row=12)
    page.evaluate("look => stage.setLook(look)", make_look(Shape(source="It slept .", target="Es schlief .")))
    place = page.evaluate("stage.place")
    assert (place["stop"], place["layer"], place["head"], place["row"]) == (8, 1, 2, 0)


def test_pictures_repaint_for_dark(open_stage: Opener, look: dict[str, Any]) -> None:
    page = open_stage(look)
    go(page, stop="softmax")
    pixels = "() => document.querySelector('.heat-cells').toDataURL()"
    light = page.evaluate(pixels)
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    expect(page.locator(".stage")).to_have_css("background-color", "rgb(19, 20, 24)")
    assert page.evaluate(pixels) != light
