"""Everything that changes the picture is in the address: a reload shows the same."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from .conftest import PageOpener
from .fake_server import FakeServer

# The last option of every choice, every slider one further, every switch.
CHANGE_ALL = """() => {
    const all = (selector) => [...document.querySelectorAll(`.step ${selector}`)];
    const visible = (selector) => all(selector).filter((element) => element.checkVisibility());
    const choices = new Set(visible("[data-choice]").map((choice) => choice.dataset.choice));
    for (const name of choices) all(`[data-choice="${name}"] input`).at(-1).click();
    for (const slider of visible("input[type=range]")) {
        slider.value = Number(slider.value) + 1;
        slider.dispatchEvent(new Event("input", { bubbles: true }));
    }
    for (const toggle of visible("[role=switch]")) toggle.click();
}"""
PICTURE = """() => [
    document.querySelector(".step").innerText,
    ...[...document.querySelectorAll(".step canvas")].map((canvas) => canvas.toDataURL()),
    ...[...document.querySelectorAll(".step input")].map((input) => `${input.value} ${input.checked}`),
]"""


def picture(page: Page, stop: int) -> list[str]:
    expect(page.locator(".walk-step[aria-current] .walk-number")).to_have_text(str(stop))
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(300)  # the address is written once the reader pauses
    shown: list[str] = page.evaluate(PICTURE)
    return shown


@pytest.mark.parametrize("stop", [3, 4, 5, 10, 12])
def test_reload_shows_the_same_picture(open_page: PageOpener, fake_server: FakeServer, stop: int) -> None:
    page = open_page(fake_server.url, "look", text="good it day", stop=stop)
    before = picture(page, stop)
    page.evaluate(CHANGE_ALL)
    changed = picture(page, stop)
    assert changed != before
    page.reload()
    assert picture(page, stop) == changed
