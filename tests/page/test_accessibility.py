"""Keyboard operation, accessible names, narrow screens, language and theme."""

from importlib.resources import files

import pytest
from playwright.sync_api import Page, expect

from .conftest import PageOpener
from .fake_server import FakeServer
from .page_checks import VIEWS, expect_width, isolated


def test_page_is_usable_by_keyboard_alone(open_page: PageOpener, fake_server: FakeServer) -> None:
    page = open_page(fake_server.url)
    page.keyboard.type("good day to you")
    expect(page.locator("#words")).to_have_text("doog yad ot uoy")
    focused = page.locator(":focus")
    for _ in range(10):
        page.keyboard.press("Tab")
        if focused.get_attribute("id") == "words":
            break
    expect(focused).to_have_id("words")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".mirror .aligned")).to_have_text("day")
    active = page.locator(f"#{focused.get_attribute('aria-activedescendant')}")
    expect(active).to_have_attribute("aria-label", f"{isolated('day')} ↔ {isolated('yad')} · 50% confident")
    page.locator("body").press("Home")
    page.locator("#tab-translate").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(focused).to_have_id("tab-try")
    expect(page.locator(".head-cell").first).to_be_visible()  # it is drawn when the response arrives
    _tab_to(page, ".head-cell")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator(".heads-off li")).to_have_text(["encoder, layer 1, head 2 ×"])
    _tab_to(page, "#try-scale")
    page.keyboard.press("Space")
    expect(page.locator("#try-scale")).not_to_be_checked()


def _tab_to(page: Page, selector: str) -> None:
    for _ in range(40):
        if page.locator(f"{selector}:focus").count():
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab never reached {selector}")


def test_first_tab_stop_skips_to_the_sentence(open_page: PageOpener, fake_server: FakeServer) -> None:
    page = open_page(fake_server.url, "training")
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_id("skip")
    page.keyboard.press("Enter")
    expect(page.locator(":focus")).to_have_id("sentence")


WIDTHS = (320, 390, 800, 1400)


def test_no_view_scrolls_sideways_and_every_control_has_a_name(open_page: PageOpener, fake_server: FakeServer) -> None:
    page = open_page(fake_server.url, text="The animal did not cross the street because it was too tired. " * 2)
    page.locator("#alternatives button").last.wait_for()
    for view in VIEWS:
        page.locator(f"#tab-{view}").click()
        expect(page.locator(f"#view-{view}")).not_to_have_attribute("hidden", "")
        if view == "look":
            page.locator(".step-title").wait_for()
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            expect_width(page, width)
            assert page.locator("#alternatives").evaluate("list => list.scrollHeight - list.clientHeight") <= 0, (
                "cut off"
            )
            if view == "look":
                assert page.evaluate(TOO_WIDE_STEPS) == [], width
        assert page.evaluate(NAMELESS) == [], view


TOO_WIDE_STEPS = """async () => {
    const wide = [];
    for (const step of document.querySelectorAll(".walk-step")) {
        step.click();
        for (let frame = 0; frame < 2; frame += 1) await new Promise(requestAnimationFrame);
        if (document.documentElement.scrollWidth > innerWidth) wide.push(step.dataset.step);
    }
    return wide;
}"""

NAMELESS = """[...document.querySelectorAll("button, input, select, textarea, [role=slider], [role=listbox]")]
   .filter(element => element.checkVisibility())
   .filter(element => !(element.ariaLabel || element.textContent.trim() || element.labels?.length || element.title))
   .map(element => element.outerHTML)"""


def test_language_follows_the_browser_until_the_user_chooses(open_page: PageOpener, fake_server: FakeServer) -> None:
    page = open_page(fake_server.url, "try", locale="ko-KR", text="good day")
    expect(page.get_by_role("tab", name="번역")).to_be_visible()
    expect(page.locator("#view-try")).to_contain_text("아직 바꾼 것이 없습니다")
    assert page.locator("html").get_attribute("lang") == "ko"
    page.get_by_role("button", name="English").click()
    expect(page.locator("#view-try")).to_contain_text("Nothing has been changed yet")
    page.reload()
    expect(page.get_by_role("tab", name="Translate")).to_be_visible()


def test_chosen_theme_is_remembered(open_page: PageOpener, fake_server: FakeServer) -> None:
    page = open_page(fake_server.url)
    button = page.locator("#theme")
    button.click()
    button.click()
    expect(button).to_have_attribute("aria-label", "Theme: dark")
    ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert ground == "rgb(19, 20, 24)"
    page.reload()
    assert page.locator("html").get_attribute("data-theme") == "dark"
    expect(button).to_have_attribute("aria-label", "Theme: dark")


AXE = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
RUN_AXE = """async () => {
    const { violations } = await axe.run({ resultTypes: ["violations"] });
    return violations.map(({ id, nodes }) => [id, ...nodes.map(({ html }) => html.slice(0, 200))].join(" | "));
}"""
PLACES = ["translate", *(f"look?stop={stop}" for stop in (4, 5, 8, 12, 14, 16)), "try?mask=off&scale=off", "training"]


@pytest.mark.parametrize("language", ["en", "ko"])
def test_axe_finds_no_violations(open_page: PageOpener, fake_server: FakeServer, language: str) -> None:
    page = open_page(fake_server.url, locale=language, text="good it day")
    page.evaluate(AXE)
    found = {}
    for place in PLACES:
        page.evaluate("place => { location.hash = place }", f"{place}{'&' if '?' in place else '?'}text=good+it+day")
        view = place.partition("?")[0]
        page.locator(f"#view-{view}:not([hidden])").wait_for()
        shown = {"look": ".step-title", "try": ".trained-without", "training": ".sample", "translate": ".tour li"}[view]
        page.locator(shown).first.wait_for(state="visible")
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
            found[f"{place} {theme}"] = page.evaluate(RUN_AXE)
    assert {where: problems for where, problems in found.items() if problems} == {}
