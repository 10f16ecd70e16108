"""Keyboard operation, accessible names, narrow screens, language and theme."""

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


def test_no_view_scrolls_sideways_and_every_control_has_a_name(open_page: PageOpener, fake_server: FakeServer) -> None:
    page = open_page(fake_server.url, text="The animal did not cross the street because it was too tired.")
    for view in VIEWS:
        page.locator(f"#tab-{view}").click()
        expect(page.locator(f"#view-{view}")).not_to_have_attribute("hidden", "")
        for width in (1600, 360):
            page.set_viewport_size({"width": width, "height": 800})
            expect_width(page, width)
        assert page.evaluate(NAMELESS) == [], view


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
