"""Choosing a model: heads, notes, measurements and curves always belong to the selected one."""

from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from .conftest import PageOpener
from .fake_server import FakeServer
from .responses import Json, heads_response, model


@pytest.fixture
def large_and_small(fake_server: FakeServer) -> None:
    small = {"n_encoder_layers": 1, "n_decoder_layers": 2, "n_heads": 2}
    fake_server.models = [model("large"), model("small", training=False) | {"config": small}]


def _heads_off(fake_server: FakeServer) -> list[list[tuple[str, int, int]]]:
    looks = [body for path, body in fake_server.requests if path == "/v1/look"]
    return [
        [(head["attention"], head["layer"], head["head"]) for head in body["interventions"]["heads_off"]]
        for body in looks
    ]


def test_heads_that_the_model_lacks_are_dropped_from_a_link(open_page: PageOpener, fake_server: FakeServer) -> None:
    page = open_page(
        fake_server.url,
        "try",
        text="good day",
        model="fake",
        off="encoder.6.8,encoder.2.4,cross.3.1,decoder.1.5,cross.0.1",
    )
    expect(page.locator(".heads-off li")).to_have_text(["encoder, layer 2, head 4 ×"])
    expect(page.locator(".effect")).to_be_visible()
    assert _heads_off(fake_server) == [[("encoder", 1, 3)]]
    page.wait_for_timeout(300)
    page.wait_for_url(lambda url: "encoder.6.8" not in url)


@pytest.mark.usefixtures("large_and_small")
def test_changing_the_model_keeps_only_the_heads_that_it_has(open_page: PageOpener, fake_server: FakeServer) -> None:
    page = open_page(
        fake_server.url, "try", text="good day", model="large", off="encoder.1.2,encoder.2.2,cross.2.2,cross.2.3"
    )
    expect(page.locator(".heads-off li")).to_have_count(4)
    page.locator("#pair-model").select_option("small")
    expect(page.locator(".heads-off li")).to_have_count(2)
    expect(page.locator(".effect")).to_be_visible()
    assert _heads_off(fake_server)[-1] == [("encoder", 0, 1), ("cross", 1, 1)]


def test_reset_recovers_from_a_rejected_intervention(open_page: PageOpener, fake_server: FakeServer) -> None:
    fake_server.errors["/v1/look"] = (422, {"code": "invalid", "message": "no such thing"})
    page = open_page(fake_server.url, "try", text="good day", off="encoder.1.2", mask="off", allow_error="422")
    expect(page.locator("#view-try")).to_contain_text("no such thing")
    fake_server.errors.clear()
    page.get_by_role("button", name="Reset everything").click()
    expect(page.locator("#view-try")).not_to_contain_text("no such thing")
    expect(page.locator(".comparison-side").first).to_contain_text("doog yad")


def test_look_takes_the_translation_on_the_screen_also_if_the_model_finds_another(
    open_page: PageOpener, fake_server: FakeServer
) -> None:
    """As for a number that was searched again, several sentences, or quantised weights."""

    def finds_other(look: Json) -> None:
        if not look["target"]["given"]:
            look["target"].update(text="other")

    fake_server.edits["/v1/look"] = finds_other
    page = open_page(fake_server.url, "look", text="good day")
    note = page.locator("#view-look > .note")
    expect(note).to_contain_text("the model finds “\u2068other\u2069”")
    assert fake_server.last_request("/v1/look")["translation"] == "doog yad"
    page.get_by_role("button", name="한국어").click()
    expect(note).to_contain_text("“\u2068other\u2069”라고 번역합니다")
    page.get_by_role("button", name="다른 번역").click()
    page.locator("#alternatives button").nth(1).click()  # the user's own choice is not reported as a difference
    expect(note).to_have_text("")
    assert fake_server.last_request("/v1/look")["translation"] == "DOOG YAD"


def test_tried_translations_say_so_if_the_first_one_is_not_the_one_on_the_screen(
    open_page: PageOpener, fake_server: FakeServer
) -> None:
    page = open_page(fake_server.url, "try", text="good day")
    note = page.locator("#view-try > .note")
    expect(page.locator(".comparison-side").first).to_contain_text("doog yad")
    expect(note).to_have_text("")
    page.get_by_role("button", name="alternatives").click()
    page.locator("#alternatives button").nth(1).click()
    expect(note).to_contain_text("the first one differs from the translation above")


def test_translation_of_earlier_text_is_not_compared(open_page: PageOpener, fake_server: FakeServer) -> None:
    page = open_page(fake_server.url, "look", text="good day")
    title = page.locator(".step-title")
    expect(title).to_be_visible()
    expect(page.locator("#words")).to_have_text("doog yad")
    held_requests: list[Route] = []
    page.route("**/v1/translate", lambda route: held_requests.append(route))
    notes = _record_notes(page)
    with page.expect_response("**/v1/look"), page.expect_request("**/v1/translate"):
        page.locator("#sentence").fill("good night")
    page.wait_for_timeout(500)
    expect(page.locator("#words")).to_have_text("doog yad")
    held_requests[-1].continue_()
    expect(page.locator("#words")).to_have_text("doog thgin")
    assert [note for note in notes() if note not in ("", "Computing…")] == []


def _record_notes(page: Page) -> Any:
    """Returns a function that returns every note shown since."""
    page.evaluate(
        """() => { const note = document.querySelector("#view-look > .note"); window.notes = [];
        new MutationObserver(() => notes.push(note.textContent)).observe(note, { childList: true, subtree: true }) }"""
    )
    return lambda: page.evaluate("window.notes")


def test_look_appears_once_a_sentence_is_typed(open_page: PageOpener, fake_server: FakeServer) -> None:
    page = open_page(fake_server.url, "look")
    expect(page.locator("#view-look")).to_contain_text("Type a sentence above")
    page.locator("#sentence").fill("good day")
    expect(page.locator(".step-title")).to_be_visible()
    expect(page.locator("#view-look")).not_to_contain_text("Type a sentence above")


@pytest.mark.usefixtures("large_and_small")
def test_head_importance_is_requested_again_after_a_timeout(open_page: PageOpener, fake_server: FakeServer) -> None:
    fake_server.errors["/v1/heads"] = (504, {"code": "deadline", "message": "not done within 30 s"})
    page = open_page(fake_server.url, "try", text="good day", model="large", allow_error="504")
    importance = page.locator(".head-importance")
    button = page.get_by_role("button", name="Which heads matter?")
    responses = []
    page.on("response", lambda response: responses.append(response) if "/v1/heads" in response.url else None)
    button.click()
    while len(responses) < 2:  # it retries after each error
        page.wait_for_timeout(50)
    first, second = (response.request.timing["startTime"] for response in responses[:2])
    assert second - first > 500  # milliseconds by the browser's clock: it waits before it retries
    expect(importance).to_contain_text("Switching off one head at a time")
    fake_server.errors.clear()
    expect(importance).to_contain_text("Measured on 100 sentences")


@pytest.mark.usefixtures("large_and_small")
def test_changing_the_model_cancels_the_measurement_of_head_importance(
    open_page: PageOpener, fake_server: FakeServer
) -> None:
    fake_server.errors["/v1/heads"] = (504, {"code": "deadline", "message": "not done within 30 s"})
    page = open_page(fake_server.url, "try", text="good day", model="large", allow_error="504")
    importance = page.locator(".head-importance")
    page.get_by_role("button", name="Which heads matter?").click()
    expect(importance).to_contain_text("Switching off one head at a time")
    page.locator("#pair-model").select_option("small")
    expect(importance).not_to_contain_text("Switching off")
    n_requests = fake_server.n_requests("/v1/heads")
    page.wait_for_timeout(1_500)
    assert fake_server.n_requests("/v1/heads") == n_requests
    fake_server.errors.clear()

    def seven_sentences(response: Json) -> None:
        response.update(heads_response(), n_sentences=7)

    fake_server.edits["/v1/heads"] = seven_sentences
    page.get_by_role("button", name="Which heads matter?").click()  # works at once for the new model
    expect(importance).to_contain_text("Measured on 7 sentences")


@pytest.mark.usefixtures("large_and_small")
def test_training_curves_are_hidden_for_a_model_without_a_run(open_page: PageOpener, fake_server: FakeServer) -> None:
    page = open_page(fake_server.url, "training", model="large")
    expect(page.locator(".run-summary")).to_contain_text("Finished")
    page.locator("#pair-model").select_option("small")
    expect(page.locator("#view-training")).to_contain_text("without the run")
    page.get_by_role("button", name="한국어").click()
    expect(page.locator("#view-training")).to_contain_text("학습 디렉터리 없이")
    expect(page.locator(".run")).to_be_hidden()
    page.locator("#pair-model").select_option("large")
    expect(page.locator(".run")).to_be_visible()


def test_choosing_a_source_language_selects_a_model_that_has_it(open_page: PageOpener, fake_server: FakeServer) -> None:
    fake_server.models = [model("there", "en", "de"), model("back", "de", "en"), model("far", "fr", "es")]
    page = open_page(fake_server.url, text="one")
    expect(page.locator("#words")).to_have_text("eno")
    for code, target, name in (("de", "en", "back"), ("fr", "es", "far"), ("en", "de", "there")):
        with page.expect_request("**/v1/translate") as request:
            page.locator("#pair-from").select_option(code)
        body = request.value.post_data_json or {}
        assert (body["model"], body["target"]) == (name, target)
        expect(page.locator("#pair-from")).to_have_value(code)
        page.locator("#sentence").fill(f"one {code}")  # not in the cache
        expect(page.locator("#words")).to_have_text(f"eno {code[::-1]}")
