"""The server goes away and comes back, wants a key, is busy: the page says so and goes on by itself."""

from playwright.sync_api import expect

from .answers import model
from .conftest import Visit
from .fake import Fake


def test_the_page_says_that_the_server_is_gone_and_goes_on_when_it_is_back(visit: Visit, fake: Fake) -> None:
    page = visit(fake.url, text="one", may_say="ERR_CONNECTION_REFUSED")
    expect(page.locator("#words")).to_have_text("eno")
    fake.stop()
    page.locator("#sentence").fill("two")
    expect(page.locator("#notice")).to_contain_text("is not responding")
    expect(page.locator("#words")).to_have_text("eno")
    page.locator("#sentence").fill("three")
    fake.start()
    expect(page.locator("#words")).to_have_text("eerht")
    expect(page.locator("#notice")).to_be_hidden()


def test_a_key_is_asked_for_once(visit: Visit, fake: Fake) -> None:
    fake.key = "sesame"
    page = visit(fake.url, text="one", may_say="401")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("API key", exact=True).fill("wrong")
    dialog.get_by_role("button", name="Use key").click()
    expect(dialog).to_contain_text("not accepted")
    dialog.get_by_label("API key", exact=True).fill("sesame")
    page.keyboard.press("Enter")
    expect(page.locator("#words")).to_have_text("eno")
    page.locator("#sentence").fill("two")
    expect(page.locator("#words")).to_have_text("owt")
    expect(dialog).to_have_count(0)


def test_without_a_key_it_says_what_is_missing(visit: Visit, fake: Fake) -> None:
    fake.key = "sesame"
    page = visit(fake.url, text="one", may_say="401")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#connection-error")).to_contain_text("requires an API key")
    page.get_by_role("button", name="한국어").click()  # which writes the remarks anew
    page.get_by_role("button", name="English").click()
    page.get_by_role("button", name="Try again").click()
    page.get_by_role("dialog").get_by_label("API key", exact=True).fill("sesame")
    page.keyboard.press("Enter")
    expect(page.locator("#words")).to_have_text("eno")
    expect(page.locator("#connection-error")).to_have_text("")


def test_a_busy_server_is_asked_again(visit: Visit, fake: Fake) -> None:
    fake.refusals["/v1/translate"] = (429, {"code": "busy", "message": "later"})
    page = visit(fake.url, text="one", may_say="429")
    expect(page.locator("#notice")).to_contain_text("busy")
    fake.refusals.clear()
    expect(page.locator("#words")).to_have_text("eno")
    expect(page.locator("#notice")).to_be_hidden()


def test_an_engine_that_has_failed_is_told_from_a_busy_server_and_asked_rarely(visit: Visit, fake: Fake) -> None:
    fake.refusals["/v1/translate"] = (503, {"code": "engine_failed", "message": "must be started again"})
    page = visit(fake.url, "training", text="one", may_say="503")
    expect(page.locator("#notice")).to_contain_text("has to be restarted")
    page.get_by_role("button", name="한국어").click()
    expect(page.locator("#notice")).to_contain_text("다시 시작하면")
    page.get_by_role("button", name="English").click()
    page.wait_for_timeout(1_500)
    assert fake.n_asked("/v1/translate") <= 2
    page.locator("#tab-look").click()  # what the engine has no part in still answers, and does not hide the word
    expect(page.locator(".step-title")).to_be_visible()
    expect(page.locator("#notice")).to_contain_text("has to be restarted")
    fake.refusals.clear()
    page.evaluate("window.dispatchEvent(new Event('focus'))")  # the reader comes back to the page
    expect(page.locator("#words")).to_have_text("eno")
    expect(page.locator("#notice")).to_be_hidden()


def test_a_model_in_training_is_no_busy_server(visit: Visit, fake: Fake) -> None:
    fake.refusals["/v1/translate"] = (503, {"code": "not_ready", "message": "its training is not finished"})
    page = visit(fake.url, "training", text="one", may_say="503")
    expect(page.locator("#notice")).to_contain_text("still being trained")
    page.wait_for_timeout(2_500)  # the view goes on asking how far the training is
    expect(page.locator("#notice")).to_contain_text("still being trained")
    page.get_by_role("button", name="한국어").click()
    expect(page.locator("#notice")).to_contain_text("학습 중")
    fake.refusals.clear()
    page.evaluate("window.dispatchEvent(new Event('focus'))")
    expect(page.locator("#words")).to_have_text("eno")
    expect(page.locator("#notice")).to_be_hidden()


def test_an_engine_is_asked_at_once_when_the_server_was_started_again(visit: Visit, fake: Fake) -> None:
    fake.refusals["/v1/translate"] = (503, {"code": "engine_failed", "message": "must be started again"})
    page = visit(fake.url, text="one", may_say="Failed to load resource")
    expect(page.locator("#notice")).to_contain_text("has to be restarted")
    fake.stop()
    expect(page.locator("#notice")).to_contain_text("is not responding", timeout=40_000)
    fake.refusals.clear()
    fake.start()
    expect(page.locator("#words")).to_have_text("eno", timeout=40_000)
    expect(page.locator("#notice")).to_be_hidden()


def test_a_question_that_was_given_up_leaves_no_notice(visit: Visit, fake: Fake) -> None:
    fake.refusals["/v1/translate"] = (429, {"code": "busy", "message": "later"})
    page = visit(fake.url, text="one", may_say="429")
    expect(page.locator("#notice")).to_contain_text("busy")
    page.locator("#sentence").fill("")
    expect(page.locator("#notice")).to_be_hidden()


def test_when_a_training_has_ended_its_notice_goes_and_its_languages_come(visit: Visit, fake: Fake) -> None:
    not_ready = (503, {"code": "not_ready", "message": "its training is not finished"})
    fake.models = [model("fake") | {"ready": False}]
    fake.refusals |= {"/v1/translate": not_ready, "/v1/look": not_ready}
    page = visit(fake.url, "look", text="one", may_say="503")
    expect(page.locator("#notice")).to_contain_text("still being trained")
    page.locator("#tab-training").click()  # which gives the look up
    fake.models = [model("fake", "en", "de")]
    fake.refusals.clear()
    page.evaluate("window.dispatchEvent(new Event('focus'))")
    expect(page.locator("#words")).to_have_text("eno")
    expect(page.locator("#notice")).to_be_hidden()
    expect(page.locator("#pair")).to_contain_text("German")


def test_what_another_model_of_the_same_name_says_is_asked_for(visit: Visit, fake: Fake) -> None:
    page = visit(fake.url, text="one", may_say="ERR_CONNECTION_REFUSED")
    expect(page.locator("#words")).to_have_text("eno")
    fake.stop()
    page.locator("#sentence").fill("two")
    expect(page.locator("#notice")).to_contain_text("is not responding")
    fake.edits["/v1/translate"] = lambda answer: answer["translations"][0].update(text="retrained")
    fake.start()
    expect(page.locator("#words")).to_have_text("retrained")
    page.locator("#sentence").fill("one")
    page.wait_for_timeout(500)
    expect(page.locator("#words")).to_have_text("retrained")


def test_looking_inside_while_the_server_is_away_works_once_it_is_back(visit: Visit, fake: Fake) -> None:
    page = visit(fake.url, text="one", may_say="ERR_CONNECTION_REFUSED")
    expect(page.locator("#words")).to_have_text("eno")
    fake.stop()
    page.locator("#tab-look").click()
    expect(page.locator("#notice")).to_contain_text("is not responding")
    fake.start()
    expect(page.locator(".step-title")).to_be_visible()
    assert page.evaluate("[...document.styleSheets].filter(({ href }) => href?.includes('/look/')).length") == 5


def test_an_alternative_of_the_old_text_is_not_taken_for_the_new_one(visit: Visit, fake: Fake) -> None:
    page = visit(fake.url, text="one")
    expect(page.locator("#words")).to_have_text("eno")
    fake.open.clear()
    with page.expect_request("**/v1/translate"):
        page.locator("#sentence").fill("two")
    page.locator("#alternatives button").nth(1).click()
    fake.open.set()
    expect(page.locator("#words")).to_have_text("owt")


def test_a_warning_outlives_a_pause_of_the_server(visit: Visit, fake: Fake) -> None:
    page = visit(fake.url, text="la la la la", may_say="429")
    expect(page.locator("#messages")).to_contain_text("Do not trust")
    fake.refusals["/v1/look"] = (429, {"code": "busy", "message": "later"})
    page.locator("#tab-look").click()
    expect(page.locator("#notice")).to_contain_text("busy")
    fake.refusals.clear()
    expect(page.locator("#notice")).to_be_hidden()
    page.locator("#tab-translate").click()
    expect(page.locator("#messages")).to_contain_text("Do not trust")
