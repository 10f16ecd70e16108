"""The server stops, requires a key, is busy or has failed: the page shows a notice and recovers without a reload."""

from playwright.sync_api import expect

from .conftest import PageOpener
from .fake_server import FakeServer
from .responses import model


def test_page_shows_a_notice_while_the_server_is_stopped_and_then_continues(
    open_page: PageOpener, fake_server: FakeServer
) -> None:
    page = open_page(fake_server.url, text="one", allow_error="ERR_CONNECTION_REFUSED")
    expect(page.locator("#words")).to_have_text("eno")
    fake_server.stop()
    page.locator("#sentence").fill("two")
    expect(page.locator("#notice")).to_contain_text("is not responding")
    expect(page.locator("#words")).to_have_text("eno")
    page.locator("#sentence").fill("three")
    fake_server.start()
    expect(page.locator("#words")).to_have_text("eerht")
    expect(page.locator("#notice")).to_be_hidden()


def test_api_key_is_requested_until_accepted_and_then_reused(open_page: PageOpener, fake_server: FakeServer) -> None:
    fake_server.key = "sesame"
    page = open_page(fake_server.url, text="one", allow_error="401")
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


def test_cancelled_key_dialog_leaves_an_error_with_a_retry_button(
    open_page: PageOpener, fake_server: FakeServer
) -> None:
    fake_server.key = "sesame"
    page = open_page(fake_server.url, text="one", allow_error="401")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#connection-error")).to_contain_text("requires an API key")
    page.get_by_role("button", name="한국어").click()  # redraws the messages
    page.get_by_role("button", name="English").click()
    page.get_by_role("button", name="Try again").click()
    page.get_by_role("dialog").get_by_label("API key", exact=True).fill("sesame")
    page.keyboard.press("Enter")
    expect(page.locator("#words")).to_have_text("eno")
    expect(page.locator("#connection-error")).to_have_text("")


def test_busy_server_is_retried(open_page: PageOpener, fake_server: FakeServer) -> None:
    fake_server.errors["/v1/translate"] = (429, {"code": "busy", "message": "later"})
    page = open_page(fake_server.url, text="one", allow_error="429")
    expect(page.locator("#notice")).to_contain_text("busy")
    fake_server.errors.clear()
    expect(page.locator("#words")).to_have_text("eno")
    expect(page.locator("#notice")).to_be_hidden()


def test_failed_engine_has_its_own_notice_and_is_retried_rarely(open_page: PageOpener, fake_server: FakeServer) -> None:
    fake_server.errors["/v1/translate"] = (503, {"code": "engine_failed", "message": "must be started again"})
    page = open_page(fake_server.url, "training", text="one", allow_error="503")
    expect(page.locator("#notice")).to_contain_text("has to be restarted")
    page.get_by_role("button", name="한국어").click()
    expect(page.locator("#notice")).to_contain_text("다시 시작하면")
    page.get_by_role("button", name="English").click()
    page.wait_for_timeout(1_500)
    assert fake_server.n_requests("/v1/translate") <= 2
    page.locator("#tab-look").click()  # works without the engine, and does not hide the notice
    expect(page.locator(".step-title")).to_be_visible()
    expect(page.locator("#notice")).to_contain_text("has to be restarted")
    fake_server.errors.clear()
    page.evaluate("window.dispatchEvent(new Event('focus'))")  # the user returns to the page
    expect(page.locator("#words")).to_have_text("eno")
    expect(page.locator("#notice")).to_be_hidden()


def test_model_in_training_has_its_own_notice(open_page: PageOpener, fake_server: FakeServer) -> None:
    fake_server.errors["/v1/translate"] = (503, {"code": "not_ready", "message": "its training is not finished"})
    page = open_page(fake_server.url, "training", text="one", allow_error="503")
    expect(page.locator("#notice")).to_contain_text("still being trained")
    page.wait_for_timeout(2_500)  # the view keeps polling the training
    expect(page.locator("#notice")).to_contain_text("still being trained")
    page.get_by_role("button", name="한국어").click()
    expect(page.locator("#notice")).to_contain_text("학습 중")
    fake_server.errors.clear()
    page.evaluate("window.dispatchEvent(new Event('focus'))")
    expect(page.locator("#words")).to_have_text("eno")
    expect(page.locator("#notice")).to_be_hidden()


def test_failed_engine_is_retried_at_once_after_a_server_restart(
    open_page: PageOpener, fake_server: FakeServer
) -> None:
    fake_server.errors["/v1/translate"] = (503, {"code": "engine_failed", "message": "must be started again"})
    page = open_page(fake_server.url, text="one", allow_error="Failed to load resource")
    expect(page.locator("#notice")).to_contain_text("has to be restarted")
    fake_server.stop()
    expect(page.locator("#notice")).to_contain_text("is not responding", timeout=40_000)
    fake_server.errors.clear()
    fake_server.start()
    expect(page.locator("#words")).to_have_text("eno", timeout=40_000)
    expect(page.locator("#notice")).to_be_hidden()


def test_cancelled_request_leaves_no_notice(open_page: PageOpener, fake_server: FakeServer) -> None:
    fake_server.errors["/v1/translate"] = (429, {"code": "busy", "message": "later"})
    page = open_page(fake_server.url, text="one", allow_error="429")
    expect(page.locator("#notice")).to_contain_text("busy")
    page.locator("#sentence").fill("")
    expect(page.locator("#notice")).to_be_hidden()


def test_end_of_training_removes_the_notice_and_shows_the_languages(
    open_page: PageOpener, fake_server: FakeServer
) -> None:
    not_ready = (503, {"code": "not_ready", "message": "its training is not finished"})
    fake_server.models = [model("fake") | {"ready": False}]
    fake_server.errors |= {"/v1/translate": not_ready, "/v1/look": not_ready}
    page = open_page(fake_server.url, "look", text="one", allow_error="503")
    expect(page.locator("#notice")).to_contain_text("still being trained")
    page.locator("#tab-training").click()  # cancels the request for the look
    fake_server.models = [model("fake", "en", "de")]
    fake_server.errors.clear()
    page.evaluate("window.dispatchEvent(new Event('focus'))")
    expect(page.locator("#words")).to_have_text("eno")
    expect(page.locator("#notice")).to_be_hidden()
    expect(page.locator("#pair")).to_contain_text("German")


def test_model_that_turns_out_to_be_of_another_task_predicts_after_its_training(
    open_page: PageOpener, fake_server: FakeServer
) -> None:
    fake_server.models = [model("fake") | {"task": None, "ready": False}]
    fake_server.errors["/v1/translate"] = (503, {"code": "not_ready", "message": "its training is not finished"})
    page = open_page(fake_server.url, text="one", allow_error="status of")
    expect(page.locator("#notice")).to_contain_text("still being trained")
    fake_server.models = [model("fake") | {"task": "lengths"}]
    fake_server.errors["/v1/translate"] = (400, {"code": "no_translator", "message": "fake does not translate"})
    page.evaluate("window.dispatchEvent(new Event('focus'))")
    expect(page.locator("#words")).to_have_text("length: 3")
    expect(page.locator("#tab-translate")).to_have_text("Predict")
    expect(page.locator("#notice")).to_be_hidden()
    expect(page.locator("#messages")).to_have_text("")


def test_cached_translations_are_dropped_after_a_server_restart(open_page: PageOpener, fake_server: FakeServer) -> None:
    page = open_page(fake_server.url, text="one", allow_error="ERR_CONNECTION_REFUSED")
    expect(page.locator("#words")).to_have_text("eno")
    fake_server.stop()
    page.locator("#sentence").fill("two")
    expect(page.locator("#notice")).to_contain_text("is not responding")
    fake_server.edits["/v1/translate"] = lambda response: response["translations"][0].update(text="retrained")
    fake_server.start()
    expect(page.locator("#words")).to_have_text("retrained")
    page.locator("#sentence").fill("one")
    page.wait_for_timeout(500)
    expect(page.locator("#words")).to_have_text("retrained")


def test_look_opened_while_the_server_is_stopped_appears_after_its_restart(
    open_page: PageOpener, fake_server: FakeServer
) -> None:
    page = open_page(fake_server.url, text="one", allow_error="ERR_CONNECTION_REFUSED")
    expect(page.locator("#words")).to_have_text("eno")
    fake_server.stop()
    page.locator("#tab-look").click()
    expect(page.locator("#notice")).to_contain_text("is not responding")
    fake_server.start()
    expect(page.locator(".step-title")).to_be_visible()
    assert page.evaluate("[...document.styleSheets].filter(({ href }) => href?.includes('/look/')).length") == 5


def test_selected_alternative_of_earlier_text_is_not_shown_for_new_text(
    open_page: PageOpener, fake_server: FakeServer
) -> None:
    page = open_page(fake_server.url, text="one")
    expect(page.locator("#words")).to_have_text("eno")
    fake_server.may_respond.clear()
    with page.expect_request("**/v1/translate"):
        page.locator("#sentence").fill("two")
    page.locator("#alternatives button").nth(1).click()
    fake_server.may_respond.set()
    expect(page.locator("#words")).to_have_text("owt")


def test_warning_remains_after_the_server_was_busy(open_page: PageOpener, fake_server: FakeServer) -> None:
    page = open_page(fake_server.url, text="la la la la", allow_error="429")
    expect(page.locator("#messages")).to_contain_text("Do not trust")
    fake_server.errors["/v1/look"] = (429, {"code": "busy", "message": "later"})
    page.locator("#tab-look").click()
    expect(page.locator("#notice")).to_contain_text("busy")
    fake_server.errors.clear()
    expect(page.locator("#notice")).to_be_hidden()
    page.locator("#tab-translate").click()
    expect(page.locator("#messages")).to_contain_text("Do not trust")
