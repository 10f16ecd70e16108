"""The view "Translate": requests while typing, caching, warnings, links, choice of languages."""

from playwright.sync_api import expect

from .conftest import PageOpener
from .fake_server import FakeServer
from .responses import Json, model


def test_fast_typing_sends_few_requests(open_page: PageOpener, fake_server: FakeServer) -> None:
    page = open_page(fake_server.url)
    # in one task, so that no timer of the page can run between two keystrokes, however busy the machine is
    page.locator("#sentence").evaluate(
        """(box, text) => [...text].forEach((_, i) => {
        box.value = text.slice(0, i + 1); box.dispatchEvent(new Event("input", { bubbles: true })) })""",
        "good day",
    )
    expect(page.locator("#words")).to_have_text("doog yad")
    texts = [body["text"] for path, body in fake_server.requests if path == "/v1/translate"]
    assert texts[-1] == ["good day"]
    assert len(texts) <= 3


def test_translation_of_earlier_text_is_never_shown(open_page: PageOpener, fake_server: FakeServer) -> None:
    page = open_page(fake_server.url, text="one")
    expect(page.locator("#words")).to_have_text("eno")
    fake_server.may_respond.clear()
    with page.expect_request("**/v1/translate"):
        page.locator("#sentence").fill("two")
    with page.expect_request("**/v1/translate"):
        page.locator("#sentence").fill("three")
    fake_server.may_respond.set()
    expect(page.locator("#words")).to_have_text("eerht")
    page.wait_for_timeout(200)
    expect(page.locator("#words")).to_have_text("eerht")


def test_line_is_not_translated_twice(open_page: PageOpener, fake_server: FakeServer) -> None:
    page = open_page(fake_server.url, text="first line\n\nsecond line")
    expect(page.locator("#words p")).to_have_text(["tsrif enil", "", "dnoces enil"])
    page.locator("#sentence").fill("first line\n\nthird line")
    expect(page.locator("#words p")).to_have_text(["tsrif enil", "", "driht enil"])
    assert fake_server.last_request("/v1/translate")["text"] == ["third line"]


def test_blank_text_sends_no_request(open_page: PageOpener, fake_server: FakeServer) -> None:
    page = open_page(fake_server.url, text="word")
    expect(page.locator("#words")).to_have_text("drow")
    n_requests = fake_server.n_requests("/v1/translate")
    page.locator("#sentence").fill("   \n ")
    expect(page.locator("#words")).to_have_text("")
    page.wait_for_timeout(300)
    assert fake_server.n_requests("/v1/translate") == n_requests
    expect(page.get_by_role("button", name="copy")).to_be_hidden()


def test_slow_translation_shows_that_it_is_in_progress(open_page: PageOpener, fake_server: FakeServer) -> None:
    page = open_page(fake_server.url)
    page.locator("#sentence").fill("word")
    expect(page.locator(".time")).to_have_text("12 ms")
    fake_server.may_respond.clear()
    page.locator("#sentence").fill("other")
    expect(page.locator(".time")).to_have_text("translating…")
    expect(page.locator("#words")).to_have_text("drow")
    fake_server.may_respond.set()
    expect(page.locator("#words")).to_have_text("rehto")


def test_warnings_and_errors_are_explained(open_page: PageOpener, fake_server: FakeServer) -> None:
    page = open_page(fake_server.url, text="la la la la la", allow_error="413")
    expect(page.locator("#messages")).to_contain_text("repeats itself")
    fake_server.errors["/v1/translate"] = (413, {"code": "too_long", "message": "a text of 9 characters; 8 at most"})
    page.locator("#sentence").fill("way too long")
    expect(page.get_by_role("alert")).to_contain_text(
        "too long. Please split it into shorter lines. (a text of 9 characters"
    )
    fake_server.errors.clear()
    page.locator("#sentence").fill("short")
    expect(page.locator("#words")).to_have_text("trohs")
    expect(page.locator("#messages")).to_have_text("")


def test_shared_link_restores_text_and_languages(open_page: PageOpener, fake_server: FakeServer) -> None:
    fake_server.models = [model("a", "en", "de", "fr"), model("b", "de", "en")]
    page = open_page(fake_server.url, text="good day")
    page.locator("#pair-to").select_option("fr")
    page.get_by_role("button", name="share").click()
    expect(page.locator(".tool-message")).to_have_text("Link copied")
    link = page.evaluate("navigator.clipboard.readText()")
    second = open_page(link.split("#")[0])
    second.goto(link)  # the same page: only the part after the # changes
    expect(second.locator("#sentence")).to_have_value("good day")
    second.reload()
    expect(second.locator("#sentence")).to_have_value("good day")
    expect(second.locator("#pair-to")).to_have_value("fr")
    expect(second.locator("#words")).to_have_text("doog yad")
    assert fake_server.last_request("/v1/translate")["target"] == "fr"


def test_swapping_languages_takes_the_translation_as_the_new_sentence(
    open_page: PageOpener, fake_server: FakeServer
) -> None:
    fake_server.models = [model("a", "en", "de"), model("b", "de", "en")]
    page = open_page(fake_server.url, text="good day")
    expect(page.locator("#words")).to_have_text("doog yad")
    page.get_by_role("button", name="Swap languages").click()
    expect(page.locator("#sentence")).to_have_value("doog yad")
    expect(page.locator("#words")).to_have_text("good day")
    assert fake_server.last_request("/v1/translate")["model"] == "b"


def test_models_without_languages_are_chosen_by_name(open_page: PageOpener, fake_server: FakeServer) -> None:
    fake_server.models = [model("first", training=False), model("second", training=False)]
    page = open_page(fake_server.url, text="word")
    page.locator("#pair-model").select_option("second")
    expect(page.locator("#pair-model")).to_have_value("second")
    page.locator("#sentence").fill("other")
    expect(page.locator("#words")).to_have_text("rehto")
    assert fake_server.last_request("/v1/translate")["model"] == "second"


def test_back_and_forward_go_through_views(open_page: PageOpener, fake_server: FakeServer) -> None:
    page = open_page(fake_server.url, text="word")
    expect(page.locator("#words")).to_have_text("drow")
    page.get_by_role("tab", name="Training").click()
    expect(page.locator("#view-training")).to_be_visible()
    page.go_back()
    expect(page.locator("#view-translate")).to_be_attached()
    expect(page.locator("#view-training")).to_be_hidden()
    expect(page.locator("#sentence")).to_have_value("word")
    page.go_forward()
    expect(page.locator("#view-training")).to_be_visible()


def test_words_without_probability_are_neither_shaded_nor_rated(open_page: PageOpener, fake_server: FakeServer) -> None:
    def remove_probabilities(response: Json) -> None:
        for word in response["translations"][0]["words"]:
            word["probability"] = None

    fake_server.edits["/v1/translate"] = remove_probabilities
    page = open_page(fake_server.url, text="good day")
    words = page.locator(".words .word")
    expect(words).to_have_count(2)
    assert [word.evaluate("element => element.style.getPropertyValue('--doubt')") for word in words.all()] == ["", ""]
    words.nth(1).hover()
    expect(page.locator(".word-info")).to_contain_text("yad")
    expect(page.locator(".word-info")).not_to_contain_text("confident")
