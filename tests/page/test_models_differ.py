"""Models that differ in size, engine or history: what was said or done for one is not said or done for another."""

from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from .answers import Json, heads_answer, model
from .conftest import Visit
from .fake import Fake


@pytest.fixture
def large_and_small(fake: Fake) -> None:
    small: dict[str, Any] = {"n_encoder_layers": 1, "n_decoder_layers": 2, "n_heads": 2}
    fake.models = [model("large"), model("small", training=False) | small]


def _heads_off(fake: Fake) -> list[list[tuple[str, int, int]]]:
    looks = [body for path, body in fake.asked if path == "/v1/look"]
    return [
        [(one["attention"], one["layer"], one["head"]) for one in body["interventions"]["heads_off"]] for body in looks
    ]


def test_a_link_may_name_heads_that_the_model_does_not_have(visit: Visit, fake: Fake) -> None:
    page = visit(fake.url, "try", text="good day", model="fake", off="encoder.5.7,encoder.1.3,cross.2.0,decoder.0.4")
    expect(page.locator(".heads-off li")).to_have_text(["encoder, layer 2, head 4 ×"])
    expect(page.locator(".effect")).to_be_visible()
    assert _heads_off(fake) == [[("encoder", 1, 3)]]
    page.wait_for_timeout(300)
    page.wait_for_url(lambda url: "encoder.5.7" not in url)


@pytest.mark.usefixtures("large_and_small")
def test_another_model_keeps_only_the_heads_that_it_has(visit: Visit, fake: Fake) -> None:
    page = visit(fake.url, "try", text="good day", model="large", off="encoder.0.1,encoder.1.1,cross.1.1,cross.1.2")
    expect(page.locator(".heads-off li")).to_have_count(4)
    page.locator("#pair-model").select_option("small")
    expect(page.locator(".heads-off li")).to_have_count(2)
    expect(page.locator(".effect")).to_be_visible()
    assert _heads_off(fake)[-1] == [("encoder", 0, 1), ("cross", 1, 1)]


def test_what_the_service_refuses_can_be_taken_back(visit: Visit, fake: Fake) -> None:
    fake.refusals["/v1/look"] = (422, {"code": "invalid", "message": "no such thing"})
    page = visit(fake.url, "try", text="good day", off="encoder.0.1", mask="off", may_say="422")
    expect(page.locator("#view-try")).to_contain_text("no such thing")
    fake.refusals.clear()
    page.get_by_role("button", name="Reset everything").click()
    expect(page.locator("#view-try")).not_to_contain_text("no such thing")
    expect(page.locator(".comparison-side").first).to_contain_text("doog yad")


@pytest.mark.parametrize(
    ("engine", "said", "unsaid"), [("ctranslate2", "quantised weights", "differs"), ("torch", "differs", "quantised")]
)
def test_rounded_weights_are_named_only_where_they_can_be_the_cause(
    visit: Visit, fake: Fake, engine: str, said: str, unsaid: str
) -> None:
    fake.models = [model("fake", "en", "de") | {"engine": engine}]
    fake.edits["/v1/look"] = lambda look: look["target"].update(text="other")
    page = visit(fake.url, "look", text="good day")
    note = page.locator("#view-look > .note")
    expect(note).to_contain_text(said)
    expect(note).not_to_contain_text(unsaid)
    expect(note).to_contain_text("other")
    page.get_by_role("button", name="한국어").click()
    expect(note).to_contain_text("번역은 “\u2068other\u2069”입니다")
    page.get_by_role("button", name="다른 번역").click()
    page.locator("#alternatives button").nth(1).click()  # the reader's own choice is no difference of the engines
    expect(note).to_have_text("")


def test_a_translation_of_older_text_is_not_compared(visit: Visit, fake: Fake) -> None:
    page = visit(fake.url, "look", text="good day")
    title = page.locator(".step-title")
    expect(title).to_be_visible()
    expect(page.locator("#words")).to_have_text("doog yad")
    held: list[Route] = []
    page.route("**/v1/translate", lambda route: held.append(route))
    said = _all_that_is_said(page)
    with page.expect_response("**/v1/look"), page.expect_request("**/v1/translate"):
        page.locator("#sentence").fill("good night")
    page.wait_for_timeout(500)
    expect(page.locator("#words")).to_have_text("doog yad")
    held[-1].continue_()
    expect(page.locator("#words")).to_have_text("doog thgin")
    assert [one for one in said() if one not in ("", "Looking…")] == []


def _all_that_is_said(page: Page) -> Any:
    page.evaluate(
        """() => { const note = document.querySelector("#view-look > .note"); window.said = [];
        new MutationObserver(() => said.push(note.textContent)).observe(note, { childList: true, subtree: true }) }"""
    )
    return lambda: page.evaluate("window.said")


def test_a_look_appears_as_soon_as_something_is_written(visit: Visit, fake: Fake) -> None:
    page = visit(fake.url, "look")
    expect(page.locator("#view-look")).to_contain_text("Type a sentence above")
    page.locator("#sentence").fill("good day")
    expect(page.locator(".step-title")).to_be_visible()
    expect(page.locator("#view-look")).not_to_contain_text("Type a sentence above")


@pytest.mark.usefixtures("large_and_small")
def test_a_long_measurement_is_waited_for(visit: Visit, fake: Fake) -> None:
    fake.refusals["/v1/heads"] = (504, {"code": "deadline", "message": "not done within 30 s"})
    page = visit(fake.url, "try", text="good day", model="large", may_say="504")
    matter = page.locator(".head-importance")
    button = page.get_by_role("button", name="Which heads matter?")
    responses = []
    page.on("response", lambda response: responses.append(response) if "/v1/heads" in response.url else None)
    button.click()
    while len(responses) < 2:  # it asks again after every refusal
        page.wait_for_timeout(50)
    first, second = (response.request.timing["startTime"] for response in responses[:2])
    assert second - first > 500  # milliseconds by the browser's clock: it does not ask again at once
    expect(matter).to_contain_text("Switching off one head at a time")
    fake.refusals.clear()
    expect(matter).to_contain_text("Measured on 100 sentences")


@pytest.mark.usefixtures("large_and_small")
def test_a_measurement_ends_with_its_model(visit: Visit, fake: Fake) -> None:
    fake.refusals["/v1/heads"] = (504, {"code": "deadline", "message": "not done within 30 s"})
    page = visit(fake.url, "try", text="good day", model="large", may_say="504")
    matter = page.locator(".head-importance")
    page.get_by_role("button", name="Which heads matter?").click()
    expect(matter).to_contain_text("Switching off one head at a time")
    page.locator("#pair-model").select_option("small")
    expect(matter).not_to_contain_text("Switching off")
    n_asked = fake.n_asked("/v1/heads")
    page.wait_for_timeout(1_500)
    assert fake.n_asked("/v1/heads") == n_asked
    fake.refusals.clear()

    def few(answer: Json) -> None:
        answer.update(heads_answer(), n_sentences=7)

    fake.edits["/v1/heads"] = few
    page.get_by_role("button", name="Which heads matter?").click()  # the new model can be asked about at once
    expect(matter).to_contain_text("Measured on 7 sentences")


@pytest.mark.usefixtures("large_and_small")
def test_the_curves_of_one_model_never_stand_under_another(visit: Visit, fake: Fake) -> None:
    page = visit(fake.url, "training", model="large")
    expect(page.locator(".run-summary")).to_contain_text("Finished")
    page.locator("#pair-model").select_option("small")
    expect(page.locator("#view-training")).to_contain_text("without the run")
    page.get_by_role("button", name="한국어").click()
    expect(page.locator("#view-training")).to_contain_text("학습 디렉터리 없이")
    expect(page.locator(".run")).to_be_hidden()
    page.locator("#pair-model").select_option("large")
    expect(page.locator(".run")).to_be_visible()


def test_another_source_language_finds_the_model_that_has_it(visit: Visit, fake: Fake) -> None:
    fake.models = [model("there", "en", "de"), model("back", "de", "en"), model("far", "fr", "es")]
    page = visit(fake.url, text="one")
    expect(page.locator("#words")).to_have_text("eno")
    for code, target, name in (("de", "en", "back"), ("fr", "es", "far"), ("en", "de", "there")):
        with page.expect_request("**/v1/translate") as asked:
            page.locator("#pair-from").select_option(code)
        body = asked.value.post_data_json or {}
        assert (body["model"], body["target"]) == (name, target)
        expect(page.locator("#pair-from")).to_have_value(code)
        page.locator("#sentence").fill(f"one {code}")  # nothing of it is known yet
        expect(page.locator("#words")).to_have_text(f"eno {code[::-1]}")
