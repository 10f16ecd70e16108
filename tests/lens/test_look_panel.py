"""The panel of "Look inside" in a real browser: every step opens and shows the numbers of the look."""

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
from look_server import SHAPES, WALK, LookServer
from random_look import Shape, make_look, softmax

N_STEPS = 16


@pytest.fixture(scope="module")
def look_server() -> Iterator[LookServer]:
    look_server = LookServer()
    yield look_server
    look_server.server.shutdown()
    look_server.server.server_close()


Opener = Callable[..., Page]


@pytest.fixture
def open_panel(browser: Browser, look_server: LookServer) -> Iterator[Opener]:
    """Opens the panel on a look; the test fails if the page reports an error."""
    problems: list[str] = []
    pages: list[Page] = []

    def open_it(look: dict[str, Any], width: int = 1400, **options: Any) -> Page:
        look_server.look = look
        page = browser.new_page(viewport={"width": width, "height": 900}, **options)
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(dialog.message))
        pages.append(page)
        page.goto(look_server.address)
        page.locator("body[data-ready]").wait_for()
        return page

    yield open_it
    for page in pages:
        page.close()
    assert problems == []


@pytest.fixture(scope="module")
def look() -> dict[str, Any]:
    return make_look()


def numbers(array: dict[str, Any]) -> Any:
    return np.frombuffer(b64decode(array["float32"]), "<f4").reshape(array["shape"]).astype(float)


def attention_of(look: dict[str, Any], kind: str, layer: int) -> dict[str, Any]:
    return next(record for record in look["attentions"] if (record["attention"], record["layer"]) == (kind, layer))


def go(page: Page, **place: Any) -> None:
    page.evaluate("place => panel.go(place)", place)


def number(page: Page, name: str) -> float:
    return value_in(page, f'[data-number="{name}"]')


def value_in(page: Page, selector: str) -> float:
    """The exact value behind the last number in an element."""
    return float(page.locator(f"{selector} data, data{selector}").last.get_attribute("value") or "")


@pytest.mark.parametrize("name", SHAPES)
def test_every_step_opens_for_every_model(open_panel: Opener, name: str) -> None:
    page = open_panel(make_look(SHAPES[name]))
    titles = set()
    for language, width in (("en", 1400), ("ko", 360)):
        page.set_viewport_size({"width": width, "height": 900})
        page.locator("#panel[data-wide]" if width > 1000 else "#panel[data-narrow]").wait_for()
        for number, step in enumerate(page.evaluate(WALK, language), start=1):
            titles.add(step["title"])
            assert step["questions"] >= (number < N_STEPS), number  # the last one is the quiz
            assert (step["here"], step["invalid"], step["tooWide"]) == (1, [], 0), number
    assert len(titles) == 2 * N_STEPS
    assert page.locator("img").count() == 0


@pytest.mark.parametrize(("kind", "layer", "head"), [("encoder", 0, 0), ("encoder", 1, 3), ("cross", 1, 2)])
def test_cell_calculation_shows_the_numbers_of_the_look(
    open_panel: Opener, look: dict[str, Any], kind: str, layer: int, head: int
) -> None:
    page = open_panel(look)
    record = attention_of(look, kind, layer)
    for row, column in ((0, 0), (3, 5), (8, 2)):
        go(page, step="softmax", attention=kind, layer=layer, head=head, level="pieces", row=row, column=column)
        for name, shown in (("scores", "score"), ("scaled", "scaled"), ("weights", "weight")):
            assert number(page, shown) == pytest.approx(numbers(record[name])[head, row, column], rel=1e-6)
        assert number(page, "score") == pytest.approx(
            numbers(record["q"])[head, row] @ numbers(record["k"])[head, column], rel=1e-4
        )
        assert number(page, "row-sum") == pytest.approx(1, rel=1e-6)


def test_word_weights_are_summed_over_keys_and_averaged_over_queries(open_panel: Opener) -> None:
    look = make_look(Shape(max_letters=5))
    page = open_panel(look)
    words = look["source"]["words"]
    row = next(i for i, word in enumerate(words) if word["text"] == "animal")
    column = next(i for i, word in enumerate(words) if word["text"] == "because")
    assert len(words[row]["pieces"]) == len(words[column]["pieces"]) == 2
    go(page, step="softmax", attention="encoder", layer=0, head=1, level="words", row=row, column=column)
    weights = numbers(attention_of(look, "encoder", 0)["weights"])[1]
    expected = weights[np.ix_(words[row]["pieces"], words[column]["pieces"])].sum(1).mean()
    assert value_in(page, ".panel-map .readout") == pytest.approx(expected, rel=1e-6)


def test_switch_shows_the_softmax_without_scaling(open_panel: Opener, look: dict[str, Any]) -> None:
    page = open_panel(look)
    go(page, step="softmax", attention="encoder", layer=1, head=0, level="pieces", row=4, column=7)
    page.get_by_role("switch").check()
    expected = softmax(numbers(attention_of(look, "encoder", 1)["scores"])[0, 4])[7]
    assert value_in(page, ".panel-map .readout") == pytest.approx(expected, rel=1e-6)
    go(page, step="scores")  # the switch keeps its state across steps
    expect(page.get_by_role("switch")).to_be_checked()


@pytest.mark.parametrize("name", ["street", "one word"])  # with and without the division
def test_every_number_follows_every_switch(open_panel: Opener, name: str) -> None:
    look = make_look(SHAPES[name])
    page, root = open_panel(look), look["model"]["d_k"] ** 0.5
    divides = look["model"]["attention"] == "scaled_dot_product"
    for step, kind in (("scores", "encoder"), ("softmax", "cross"), ("masked", "decoder")):
        record = attention_of(look, kind, 0)
        go(page, step=step, attention=kind, layer=0, head=0, level="pieces", row=1, column=1)
        legend = page.locator(".scale-legend").text_content()
        drawn = set()
        for is_on in (False, True):
            page.get_by_role("switch").set_checked(is_on)
            is_divided = divides != (is_on and step != "masked")
            scores = numbers(record["scores"])[0, 1] / (root if is_divided else 1)
            n_visible = len(scores) if is_on or step != "masked" else 2  # the mask hides what follows row 1
            weights = softmax(scores[:n_visible])
            assert number(page, "score") == pytest.approx(numbers(record["scores"])[0, 1, 1], rel=1e-6)
            assert page.locator('[data-number="scaled"]').count() == is_divided
            assert value_in(page, ".cell .formula") == pytest.approx(np.exp(scores[:n_visible]).sum(), rel=1e-6)
            assert number(page, "weight") == pytest.approx(weights[1], rel=1e-6)
            shown = scores[1] if step == "scores" else weights[1]
            assert value_in(page, ".panel-map .readout") == pytest.approx(shown, rel=1e-6)
            if step == "scores":  # the columns: with and without the division
                expected = [
                    part for j in range(len(scores)) for part in _both(numbers(record["scores"])[0, 1], root)[:, j]
                ]
                bars = page.locator(".two-bars .bar data").evaluate_all(
                    "data => data.map(({ value }) => Number(value))"
                )
                assert bars == pytest.approx(expected, rel=1e-6)
                used = page.locator(".two-bars .bar-head b").inner_text()
                assert used == ("with ÷ √d_k" if is_divided else "without")
            if step == "softmax":
                assert value_in(page, ".softmax-table tr:nth-child(2) .bar") == pytest.approx(weights[1], rel=1e-6)
            drawn.add(page.evaluate("document.querySelector('.heat-cells').toDataURL()"))
        assert len(drawn) == 2
        assert page.locator(".scale-legend").text_content() == legend  # the colours mean the same


def _both(scores: Any, root: float) -> Any:
    return np.array([softmax(scores / root), softmax(scores)])


def test_gradient_of_the_softmax_is_the_trace_of_its_derivative(open_panel: Opener, look: dict[str, Any]) -> None:
    page = open_panel(look)
    go(page, step="scores", attention="encoder", layer=1, head=2, level="pieces", row=3)
    scores = numbers(attention_of(look, "encoder", 1)["scores"])[2, 3]
    expected = [(p * (1 - p)).sum() for p in _both(scores, look["model"]["d_k"] ** 0.5)]
    shown = (
        page.locator(".bar-foot").last.locator("data").evaluate_all("data => data.map(({ value }) => Number(value))")
    )
    assert shown == pytest.approx(expected, rel=1e-5)
    assert expected[1] < expected[0]


def test_place_survives_a_round_trip_through_an_address(open_panel: Opener, look: dict[str, Any]) -> None:
    page = open_panel(look)
    for place in (
        {"step": "position", "row": 2, "position": 20},
        {"step": "softmax", "layer": 1, "head": 3, "row": 2, "column": 4, "level": "pieces", "switched": "scale"},
        {"step": "feed_forward", "attention": "decoder", "layer": 1, "row": 1, "unit": 5},
        {"step": "vocabulary", "outputStep": 3},
        {"step": "beam", "beamStep": 2},
    ):
        go(page, **place)
        here, there = page.evaluate(
            "[panel.place, resolvePlace(readPlace(new URLSearchParams(placeParameters(panel.place))), panel.data)]"
        )
        assert here == there
        assert here.items() >= {name: value for name, value in place.items() if name != "step"}.items()
    parameters = page.evaluate("Object.fromEntries(placeParameters({ step: 6, layer: 0, head: 0, row: 0 }))")
    assert parameters == {"stop": "6", "layer": "1", "head": "1", "row": "1"}  # as people count


def test_switch_adds_scaling_for_a_model_without_it(open_panel: Opener) -> None:
    plain = make_look(SHAPES["one word"])  # attention without the division
    page = open_panel(plain)
    place = {"step": "scores", "attention": "encoder", "layer": 0, "head": 0, "level": "pieces", "row": 0, "column": 1}
    go(page, **place)
    raw = value_in(page, ".panel-map .readout")
    page.get_by_role("switch").check()
    divided = value_in(page, ".panel-map .readout")
    assert divided == pytest.approx(raw / plain["model"]["d_k"] ** 0.5, rel=1e-6) and abs(raw) > 0.1


def test_masked_scores_are_not_described_as_the_strongest(open_panel: Opener, look: dict[str, Any]) -> None:
    page = open_panel(look)
    go(page, step="scores", attention="decoder", layer=0, head=0, level="pieces")
    first = page.locator(".panel-map .heat-grid").get_attribute("aria-label").split(". ", 1)[1].split("; ")[0]  # type: ignore[union-attr]
    row, column = first.rsplit(" ", 1)[0].split(" → ")
    assert row == column  # the first symbol sees itself alone


def test_switch_without_the_mask_shows_later_positions(open_panel: Opener, look: dict[str, Any]) -> None:
    page = open_panel(look)
    go(page, step="masked", layer=0, head=2, level="pieces", row=2, column=9)
    readout = page.locator(".panel-map .readout")
    expect(readout).to_contain_text("hidden by the mask")
    assert page.locator('[data-number="mask"]').inner_text() == "−∞"
    page.get_by_role("switch").check()
    expected = softmax(numbers(attention_of(look, "decoder", 0)["scaled"])[2, 2])[9]
    assert value_in(page, ".panel-map .readout") == pytest.approx(expected, rel=1e-6)


def test_word_can_be_moved_to_another_position(open_panel: Opener, look: dict[str, Any]) -> None:
    page = open_panel(look)
    go(page, step="position", attention="encoder", level="pieces", row=1)
    page.locator('[data-slider="position"]').fill("20")
    bars = page.locator(".panel-sum .vectors")
    bars.focus()
    page.keyboard.press("ArrowRight")  # the first number: sin(20)
    page.keyboard.press("ArrowRight")  # the second: cos(20)
    embedded = numbers(look["embedding"]["source"]["embedded"])[1, 1]
    shown = bars.locator(".readout").inner_text()
    assert float(shown.rsplit("=", 1)[1].replace("−", "-")) == pytest.approx(embedded + np.cos(20), abs=0.006)


def test_arrow_keys_walk_from_the_first_step_to_the_last_and_back(open_panel: Opener, look: dict[str, Any]) -> None:
    page = open_panel(look)
    places = []
    for _ in range(N_STEPS):
        places.append(page.evaluate("[panel.place.step, panel.place.attention]"))
        page.keyboard.press("ArrowRight")
    assert [step for step, _ in places] == list(range(1, N_STEPS + 1))
    assert [attention for _, attention in places[10:13]] == ["encoder", "decoder", "cross"]
    for _ in range(N_STEPS):
        page.keyboard.press("ArrowLeft")
    assert page.evaluate("[panel.place.step, panel.place.attention]") == [1, "encoder"]
    assert page.evaluate("places.length") == 2 * (N_STEPS - 1)


def test_arrow_keys_walk_unless_the_focused_element_uses_them(open_panel: Opener, look: dict[str, Any]) -> None:
    page = open_panel(look)
    page.evaluate(
        """() => { for (const [tag, role] of [["button", ""], ["textarea", ""], ["select", ""], ["button", "slider"]]) {
        const element = document.createElement(tag);
        if (role) element.setAttribute("role", role);
        element.className = "around";
        document.body.prepend(element); } }"""
    )
    slider, select, field, button = page.locator(".around").all()
    for element in (slider, select, field):
        element.focus()
        page.keyboard.press("ArrowRight")
        assert page.evaluate("panel.place.step") == 1
    button.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("panel.place.step") == 2


def test_softmax_table_is_captioned_with_the_query(open_panel: Opener, look: dict[str, Any]) -> None:
    page = open_panel(look)
    go(page, step="softmax", attention="cross", layer=0, head=0, level="pieces", row=3, column=1)
    query = look["target"]["outputs"]["pieces"][3]["text"]
    assert page.locator(".softmax-table caption").text_content() == f"The row of \u2068{query}\u2069, step by step"


def test_right_to_left_word_does_not_reverse_a_caption(open_panel: Opener) -> None:
    page = open_panel(make_look(Shape(source="\u2069\u202eevil word")))
    go(page, step="values", attention="encoder", layer=0, head=0, level="words", row=0)
    expect(page.locator(".step-text")).to_contain_text("“\u2068\u202eevil\u2069”")


@pytest.mark.parametrize(("name", "waves"), [("street", True), ("base", False)])
def test_texts_mention_waves_only_for_sinusoidal_positions(open_panel: Opener, name: str, waves: bool) -> None:
    page = open_panel(make_look(SHAPES[name]))
    for language, word in (("en", "waves"), ("ko", "파동")):
        page.evaluate("language => setLanguage(language)", language)
        go(page, step="embedding")
        assert (word in (page.locator(".questions").text_content() or "")) == waves


def test_arrow_keys_move_the_cell_inside_a_heat_map(open_panel: Opener, look: dict[str, Any]) -> None:
    page = open_panel(look)
    go(page, step="softmax", row=2, column=2)
    page.locator(".heat-grid").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    place = page.evaluate("panel.place")
    assert (place["step"], place["row"], place["column"]) == (6, 3, 3)
    box = page.locator(".heat-cells").bounding_box()
    assert box
    page.mouse.click(box["x"] + 3, box["y"] + 3)
    assert page.evaluate("[panel.place.row, panel.place.column]") == [0, 0]


@pytest.mark.parametrize("width", [1400, 400])
def test_every_block_of_the_figure_opens_its_step(open_panel: Opener, look: dict[str, Any], width: int) -> None:
    page = open_panel(look, width)
    blocks = page.locator(".block:not(.block-layer, .block-norm)")  # those open the end of their sub-layer
    passed_before = 0
    for i in range(blocks.count()):
        block = blocks.nth(i)
        block.focus()
        page.keyboard.press("Enter")
        assert page.locator(".block[data-here]").count() == 1
        passed = page.locator(".block:not(.block-layer, .block-norm)[data-passed]").count()
        assert passed >= passed_before  # the blocks are in the order of the data flow
        passed_before = passed
    assert page.evaluate("panel.place.step") == N_STEPS - 1
    page.locator('[data-block="decoder.1.cross"]').click()
    assert page.evaluate("[panel.place.step, panel.place.attention, panel.place.layer]") == [13, "cross", 1]


def test_head_grid_takes_clicks_and_keys_and_marks_heads_that_are_off(open_panel: Opener, look: dict[str, Any]) -> None:
    page = open_panel(look)
    page.evaluate(
        """() => { window.picked = []; window.grid = new HeadGrid(document.getElementById("grid"),
        { look, off: new Set(["encoder.0.3"]), importance: new Map([["cross.1.0", 0.5]]),
          selected: null, onPick: (head) => picked.push(head) }); }"""
    )
    grid = page.locator("#grid")
    assert grid.locator(".head-cell").count() == 3 * 2 * 4
    expect(grid.locator('[data-head="encoder.0.3"]')).to_have_attribute(
        "aria-label", "Encoder self-attention, layer 1, head 4, off"
    )
    grid.locator('[data-head="encoder.0.0"]').focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    grid.locator('[data-head="cross.1.0"]').click()
    assert page.evaluate("picked") == [
        {"attention": "encoder", "layer": 1, "head": 1},
        {"attention": "cross", "layer": 1, "head": 0},
    ]
    page.evaluate("() => grid.update({ off: new Set() })")
    assert grid.locator("[data-off]").count() == 0


def test_panel_follows_a_change_of_language(open_panel: Opener, look: dict[str, Any]) -> None:
    page = open_panel(look)
    page.evaluate("setLanguage('ko')")
    expect(page.locator(".step-title")).to_have_text("문장을 토큰으로 나눕니다")
    expect(page.locator("#panel")).to_have_attribute("lang", "ko")


def test_vocabulary_and_beam_show_the_search(open_panel: Opener, look: dict[str, Any]) -> None:
    page = open_panel(look)
    go(page, step="vocabulary", outputStep=2)
    step = look["steps"][2]
    lines = page.locator(".vocabulary .bar-line")
    assert lines.count() == 10
    assert lines.first.locator(".word").inner_text() == step["top"][0]["text"]
    assert float(lines.first.locator(".number").inner_text()) == pytest.approx(step["top"][0]["probability"], abs=0.006)
    go(page, step="beam")
    nodes = page.locator(".beam-node")
    assert nodes.count() == len(look["beam"]["nodes"])
    page.locator('[data-slider="step"]').fill("1")
    assert page.locator(".beam-node:not([data-hidden])").count() == 1 + sum(
        n["step"] == 1 for n in look["beam"]["nodes"]
    )


def test_finished_hypothesis_decodes_byte_tokens(open_panel: Opener, look: dict[str, Any]) -> None:
    look = deepcopy(look)
    by_id = {node["id"]: node for node in look["beam"]["nodes"]}
    node = next(node for node in look["beam"]["nodes"] if node["finished"])
    path = []
    while node["parent"] is not None:
        path.append(node)
        node = by_id[node["parent"]]
    for node, text in zip(reversed(path[1:]), ["▁", "<0xEA>", "<0xB0>", "<0x80>", "▁Tier"], strict=False):
        node["text"] = text
    page = open_panel(look)
    go(page, step="beam")
    assert any(text.startswith("가 Tier") for text in page.locator(".finished-table bdi").all_inner_texts())


def test_new_sentence_keeps_the_step(open_panel: Opener, look: dict[str, Any]) -> None:
    page = open_panel(look)
    go(page, step="heads", layer=1, head=2, row=12)
    page.evaluate("look => panel.setLook(look)", make_look(Shape(source="It slept .", target="Es schlief .")))
    place = page.evaluate("panel.place")
    assert (place["step"], place["layer"], place["head"], place["row"]) == (8, 1, 2, 0)


def test_figures_repaint_in_dark_mode(open_panel: Opener, look: dict[str, Any]) -> None:
    page = open_panel(look)
    go(page, step="softmax")
    pixels = "() => document.querySelector('.heat-cells').toDataURL()"
    light = page.evaluate(pixels)
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    expect(page.locator(".look")).to_have_css("background-color", "rgb(19, 20, 24)")
    assert page.evaluate(pixels) != light


def test_quiz_has_two_questions_per_group_with_computed_answers(open_panel: Opener, look: dict[str, Any]) -> None:
    page = open_panel(look)
    go(page, step="quiz")
    model, pieces = look["model"], look["source"]["pieces"]
    n, d, size, epsilon = len(pieces), model["d_model"], model["n_tgt_symbols"], model["label_smoothing"]
    scores = numbers(attention_of(look, "encoder", 0)["scores"])[0, 0]
    plain, divided = softmax(scores).max(), softmax(scores / model["d_k"] ** 0.5).max()
    positions = numbers(look["embedding"]["source"]["position"])
    likeness = [cosine(row, positions[n // 2]) if i != n // 2 else -2 for i, row in enumerate(positions)]
    [feed_forward] = [
        part
        for part in look["sublayers"]
        if (part["stack"], part["layer"], part["name"]) == ("encoder", 0, "feed_forward")
    ]
    before, added = (numbers(feed_forward[name])[0] for name in ("norm_before", "norm_added"))
    row = next(i for i, word in enumerate(look["source"]["words"]) if word["text"] == "it")
    last = numbers(attention_of(look, "encoder", model["n_encoder_layers"] - 1)["weights"])
    words = look["source"]["words"]
    by_word = np.array(
        [[head[np.ix_(words[row]["pieces"], word["pieces"])].sum(1).mean() for word in words] for head in last]
    )
    answers = [
        str(n), f"{n * d:,}", "3", "its training loss is lower, but its translations are wrong",
        f"√{model['d_k']} = {model['d_k'] ** 0.5:.2f}", "larger" if plain > divided else "smaller",
        "1.00", str(int(np.argmax(likeness))), f"{n} × {d}",
        "the one before the sub-layer" if before >= added else "the one that is added",
        f"{1 - epsilon + epsilon / size:.3f}", f"{2 * size * d:,}",
        words[int(by_word[0].argmax())]["text"], str(int((by_word.argmax(1) != row).sum())),
    ]  # fmt: skip
    items = page.locator(".quiz > li")
    assert items.count() == len(answers) == 14
    for item, answer in zip(items.all(), answers, strict=True):
        assert item.locator(".options button").count() in (2, 3)
        item.get_by_role("button", name=answer, exact=True).click()
        expect(item.locator(".verdict")).to_contain_text("Right.")
    expect(page.locator(".step-body > div > .hint")).to_have_text("14 right of 14 answered, 14 in all.")
    items.first.locator(".options button:not([data-right])").first.click()
    expect(items.first.locator(".verdict")).to_contain_text(f"No: {answers[0]}.")
    items.first.get_by_role("button", name="Show it").click()
    assert page.evaluate("panel.place.attention") == "cross"


def cosine(a: Any, b: Any) -> float:
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))
