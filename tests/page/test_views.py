"""Every view against the real service and a real, small model."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from regard.serve.app import WEB

from .conftest import Visit

N_STEPS = 15


@pytest.fixture
def name(run: Path) -> str:
    """What the service calls the model that comes with its run."""
    return run.name


def test_a_sentence_is_translated_with_confidence_and_time(
    visit: Visit, service: str, sentence: str, expected: str
) -> None:
    page = visit(service)
    page.locator("#sentence").fill(sentence)
    expect(page.locator("#words")).to_have_text(expected)
    expect(page.locator(".time")).to_contain_text(" ms")
    doubts = [
        word.evaluate("one => one.style.getPropertyValue('--doubt')") for word in page.locator(".words .word").all()
    ]
    assert len(doubts) == len(expected.split())
    assert all(0 <= float(doubt) <= 1 for doubt in doubts)
    assert any(float(doubt) > 0 for doubt in doubts)


def test_an_alternative_can_be_taken_over_and_given_back(
    visit: Visit, service: str, sentence: str, expected: str
) -> None:
    page = visit(service, text=sentence)
    rows = page.locator("#alternatives button")
    expect(rows).to_have_count(4)
    other = rows.nth(2).locator(".text").inner_text()
    rows.nth(2).click()
    expect(page.locator("#words")).to_have_text(other)
    expect(rows.nth(2)).to_have_attribute("aria-pressed", "true")
    rows.nth(0).click()
    expect(page.locator("#words")).to_have_text(expected)


def test_a_word_shows_its_partners_under_pointer_caret_and_touch(
    visit: Visit, service: str, sentence: str, expected: str
) -> None:
    page = visit(service, text=sentence, touch=True)
    words = page.locator(".words .word")
    marked = page.locator(".mirror .aligned")
    expect(words).to_have_count(len(expected.split()))
    words.nth(1).hover()
    expect(marked).to_have_count(1)
    expect(page.locator(".word-info")).to_contain_text("↔")
    source = marked.inner_text()
    place = marked.evaluate("one => [...one.parentNode.children].indexOf(one)") * 2  # digits, spaces between them
    page.mouse.move(600, 700)
    expect(marked).to_have_count(0)
    words.nth(1).tap()
    expect(marked).to_have_text([source])
    page.locator("#sentence").evaluate("(one, place) => { one.focus(); one.setSelectionRange(place, place) }", place)
    expect(page.locator(".words .aligned").first).to_be_visible()


def test_pointing_at_the_sentence_marks_the_translation(
    visit: Visit, service: str, sentence: str, expected: str
) -> None:
    page = visit(service, text=sentence)
    expect(page.locator("#words")).to_have_text(expected)
    words = page.locator(".mirror span")
    found = 0
    for n in range(words.count()):
        box = words.nth(n).bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        expect(words.nth(n)).to_have_class("aligned")
        found += page.locator(".words .aligned").count()
    assert found == len(expected.split())  # every word of the translation has one partner


def test_the_walk_goes_through_every_stop_without_asking_again(visit: Visit, service: str, sentence: str) -> None:
    page = visit(service, "look", text=sentence)
    title = page.locator(".step-title")
    expect(title).to_be_visible()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    titles = []
    for step in range(1, N_STEPS + 1):
        expect(page.locator(".walk-step[aria-current]")).to_have_text(str(step))
        assert page.locator(".step-body").inner_text().strip()
        titles.append(title.inner_text())
        page.keyboard.press("ArrowRight")
    assert len(set(titles)) == N_STEPS
    assert [url for url in asked if "/v1/" in url] == []
    page.wait_for_url(lambda url: f"stop={N_STEPS}" in url)
    page.go_back()
    expect(title).to_have_text(titles[-2])
    page.reload()
    expect(title).to_have_text(titles[-2])


def test_a_new_sentence_is_looked_into_and_the_place_is_kept(
    visit: Visit, service: str, sentence: str, expected: str
) -> None:
    page = visit(service, "look", text=sentence, stop=8)
    title = page.locator(".step-title")
    before = title.inner_text()
    with page.expect_request("**/v1/look") as asked:
        page.locator("#sentence").fill("1 2 3")
    assert (asked.value.post_data_json or {})["text"] == "1 2 3"
    expect(page.locator("#words")).not_to_have_text(expected)
    expect(title).to_have_text(before)
    page.locator("#sentence").fill("")
    expect(page.locator("#view-look")).to_contain_text("Type a sentence above")


def test_a_text_that_can_not_be_looked_into_is_explained(visit: Visit, service: str) -> None:
    page = visit(service, "look", text="1 2 3 4 5 6 7 8 9 0 " * 60, may_say="status of 4")
    expect(page.locator("#view-look")).to_contain_text("cannot be shown")


def test_of_several_lines_one_is_looked_into(visit: Visit, service: str, sentence: str) -> None:
    page = visit(service, "look", text=f"1 2 3\n\n{sentence}")
    expect(page.locator("#view-look .line-picker")).to_contain_text("Line 1 of 2")
    expect(page.locator(".step-title")).to_be_visible()
    with page.expect_request("**/v1/look") as asked:
        page.get_by_role("button", name="Next line").click()
    assert asked.value.post_data_json["text"] == sentence


def test_each_intervention_shows_before_and_after(visit: Visit, service: str, sentence: str, expected: str) -> None:
    page = visit(service, "try", text=sentence)
    expect(page.locator(".comparison-side").first).to_contain_text(expected)
    verdict = page.locator(".effect")
    expect(verdict).to_have_count(0)
    for switch in ("Divide by √d_k", "Mask the future"):
        page.get_by_role("switch", name=switch).click()
        expect(verdict).to_contain_text("changes by")
        page.get_by_role("switch", name=switch).click()
        expect(verdict).to_have_count(0)
    for positions in ("shuffled", "none"):
        page.get_by_role("radio", name=positions).check()
        expect(verdict).to_contain_text("changes by")
    expect(page.locator(".word-probabilities li")).to_have_count(len(expected.split()))
    page.get_by_role("button", name="Reset everything").click()
    expect(page.get_by_role("radio", name="normal")).to_be_checked()
    expect(verdict).to_have_count(0)


def test_every_head_can_be_silenced_and_let_speak_again(visit: Visit, service: str, sentence: str) -> None:
    page = visit(service, "try", text=sentence)
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


def test_which_heads_matter_is_explained_where_it_can_not_be_answered(
    visit: Visit, service: str, sentence: str
) -> None:
    page = visit(service, "try", text=sentence, may_say="404")
    page.get_by_role("button", name="Which heads matter?").click()
    expect(page.locator(".head-importance")).to_contain_text("needs the validation text")


def test_the_story_of_a_run_is_drawn_and_can_be_read(visit: Visit, service: str, name: str) -> None:
    page = visit(service, "training", model=name)
    expect(page.locator(".run-summary")).to_contain_text("Finished")
    curves = page.locator(".curve:visible")
    expect(curves).to_have_count(4)
    plot = curves.first.get_by_role("slider")
    plot.focus()
    page.keyboard.press("Home")
    expect(curves.first.locator(".values")).to_contain_text("step 1training 4.900")
    assert "step 1, training 4.900" in (plot.get_attribute("aria-valuetext") or "")
    expect(page.locator(".sample mark")).to_have_text(["four"])


def test_a_model_without_its_run_says_why_there_is_no_training(visit: Visit, service: str) -> None:
    page = visit(service, "training")
    expect(page.locator("#view-training")).to_contain_text("without the run")


def test_the_first_paint_is_quick_and_nothing_comes_from_outside(
    visit: Visit, service: str, sentence: str, expected: str
) -> None:
    page = visit(service, text=sentence)
    expect(page.locator("#words")).to_have_text(expected)
    page.reload()
    expect(page.locator("#words")).to_have_text(expected)
    painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert painted < 1000
    urls = page.evaluate("performance.getEntriesByType('resource').map(one => one.name)")
    assert all(url.startswith(service) for url in urls)


def test_style_sheets_load_in_the_same_order_as_in_a_saved_look() -> None:
    (line,) = re.findall(r"^const STYLE_SHEETS = (.*);", (WEB / "look" / "load.js").read_text(), re.MULTILINE)
    listed = re.findall(r'"(\w+\.css)"', line)
    assert listed == sorted(path.name for path in (WEB / "look").glob("*.css"))
    assert (WEB / "colours.css").is_file()
