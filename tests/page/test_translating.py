"""Translate: as you type, with alternatives, confidence, partners and words for what is wrong."""

from playwright.sync_api import expect

from .answers import Json, model
from .conftest import Visit
from .fake import Fake


def test_only_the_last_of_what_was_typed_is_asked_for(visit: Visit, fake: Fake) -> None:
    page = visit(fake.url)
    # in one task, so that no timer of the page can run between two keystrokes, however busy the machine is
    page.locator("#sentence").evaluate(
        """(box, text) => [...text].forEach((_, i) => {
        box.value = text.slice(0, i + 1); box.dispatchEvent(new Event("input", { bubbles: true })) })""",
        "good day",
    )
    expect(page.locator("#words")).to_have_text("doog yad")
    asked = [body["text"] for path, body in fake.asked if path == "/v1/translate"]
    assert asked[-1] == ["good day"]
    assert len(asked) <= 3


def test_an_answer_to_old_text_is_never_shown(visit: Visit, fake: Fake) -> None:
    page = visit(fake.url, text="one")
    expect(page.locator("#words")).to_have_text("eno")
    fake.open.clear()
    with page.expect_request("**/v1/translate"):
        page.locator("#sentence").fill("two")
    with page.expect_request("**/v1/translate"):
        page.locator("#sentence").fill("three")
    fake.open.set()
    expect(page.locator("#words")).to_have_text("eerht")
    page.wait_for_timeout(200)
    expect(page.locator("#words")).to_have_text("eerht")


def test_a_line_that_is_known_is_not_asked_for_again(visit: Visit, fake: Fake) -> None:
    page = visit(fake.url, text="first line\n\nsecond line")
    expect(page.locator("#words p")).to_have_text(["tsrif enil", "", "dnoces enil"])
    page.locator("#sentence").fill("first line\n\nthird line")
    expect(page.locator("#words p")).to_have_text(["tsrif enil", "", "driht enil"])
    assert fake.last("/v1/translate")["text"] == ["third line"]


def test_blank_stays_blank_and_asks_nothing(visit: Visit, fake: Fake) -> None:
    page = visit(fake.url, text="word")
    expect(page.locator("#words")).to_have_text("drow")
    n_asked = fake.n_asked("/v1/translate")
    page.locator("#sentence").fill("   \n ")
    expect(page.locator("#words")).to_have_text("")
    page.wait_for_timeout(300)
    assert fake.n_asked("/v1/translate") == n_asked
    expect(page.get_by_role("button", name="copy")).to_be_hidden()


def test_slow_is_said_only_when_it_is_slow(visit: Visit, fake: Fake) -> None:
    page = visit(fake.url)
    page.locator("#sentence").fill("word")
    expect(page.locator(".time")).to_have_text("12 ms")
    fake.open.clear()
    page.locator("#sentence").fill("other")
    expect(page.locator(".time")).to_have_text("translating…")
    expect(page.locator("#words")).to_have_text("drow")
    fake.open.set()
    expect(page.locator("#words")).to_have_text("rehto")


def test_a_loop_and_a_refusal_are_said_in_words(visit: Visit, fake: Fake) -> None:
    page = visit(fake.url, text="la la la la la", may_say="413")
    expect(page.locator("#messages")).to_contain_text("repeats itself")
    fake.refusals["/v1/translate"] = (413, {"code": "too_long", "message": "a text of 9 characters; 8 at most"})
    page.locator("#sentence").fill("way too long")
    expect(page.get_by_role("alert")).to_contain_text(
        "too long. Please split it into shorter lines. (a text of 9 characters"
    )
    fake.refusals.clear()
    page.locator("#sentence").fill("short")
    expect(page.locator("#words")).to_have_text("trohs")
    expect(page.locator("#messages")).to_have_text("")


def test_the_link_leads_to_the_same_sight(visit: Visit, fake: Fake) -> None:
    fake.models = [model("a", "en", "de", "fr"), model("b", "de", "en")]
    page = visit(fake.url, text="good day")
    page.locator("#pair-to").select_option("fr")
    page.get_by_role("button", name="share").click()
    expect(page.locator(".tool-message")).to_have_text("Link copied")
    link = page.evaluate("navigator.clipboard.readText()")
    other = visit(link.split("#")[0])
    other.goto(link)  # the same page: only what stands after the # is new
    expect(other.locator("#sentence")).to_have_value("good day")
    other.reload()
    expect(other.locator("#sentence")).to_have_value("good day")
    expect(other.locator("#pair-to")).to_have_value("fr")
    expect(other.locator("#words")).to_have_text("doog yad")
    assert fake.last("/v1/translate")["target"] == "fr"


def test_the_other_direction_starts_from_the_translation(visit: Visit, fake: Fake) -> None:
    fake.models = [model("a", "en", "de"), model("b", "de", "en")]
    page = visit(fake.url, text="good day")
    expect(page.locator("#words")).to_have_text("doog yad")
    page.get_by_role("button", name="Swap languages").click()
    expect(page.locator("#sentence")).to_have_value("doog yad")
    expect(page.locator("#words")).to_have_text("good day")
    assert fake.last("/v1/translate")["model"] == "b"


def test_models_without_languages_are_told_apart_by_name(visit: Visit, fake: Fake) -> None:
    fake.models = [model("first", training=False), model("second", training=False)]
    page = visit(fake.url, text="word")
    page.locator("#pair-model").select_option("second")
    expect(page.locator("#pair-model")).to_have_value("second")
    page.locator("#sentence").fill("other")
    expect(page.locator("#words")).to_have_text("rehto")
    assert fake.last("/v1/translate")["model"] == "second"


def test_back_and_forward_go_through_views(visit: Visit, fake: Fake) -> None:
    page = visit(fake.url, text="word")
    expect(page.locator("#words")).to_have_text("drow")
    page.get_by_role("tab", name="Training").click()
    expect(page.locator("#view-training")).to_be_visible()
    page.go_back()
    expect(page.locator("#view-translate")).to_be_attached()
    expect(page.locator("#view-training")).to_be_hidden()
    expect(page.locator("#sentence")).to_have_value("word")
    page.go_forward()
    expect(page.locator("#view-training")).to_be_visible()


def test_what_the_model_does_not_tell_is_neither_shaded_nor_called_unsure(visit: Visit, fake: Fake) -> None:
    def untold(answer: Json) -> None:
        for word in answer["translations"][0]["words"]:
            word["probability"] = None

    fake.edits["/v1/translate"] = untold
    page = visit(fake.url, text="good day")
    words = page.locator(".words .word")
    expect(words).to_have_count(2)
    assert [word.evaluate("one => one.style.getPropertyValue('--doubt')") for word in words.all()] == ["", ""]
    words.nth(1).hover()
    expect(page.locator(".word-info")).to_contain_text("yad")
    expect(page.locator(".word-info")).not_to_contain_text("confident")
