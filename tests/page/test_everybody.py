"""For everybody: by keyboard alone, on a phone, in Korean, in the dark; and nobody's text can do harm."""

import re

from playwright.sync_api import Page, expect

from .conftest import Visit
from .fake import Fake

VIEWS = ["translate", "look", "try", "training"]
HOSTILE = [
    "<script>window.hit = 1</script> <img src=x onerror=window.hit=1> {{7*7}} javascript:window.hit=1",
    "\u202eright to left \u2066 override \u2069 and \u200f back",
    "W" * 3_000,
    "שלום עולם, زرافة طويلة",
]


def quoted(words: str) -> str:
    """Somebody's words in a sentence of the page: isolated, so that they can not turn it around."""
    return f"\u2068{words}\u2069"


def _expect_width(page: Page, width: int) -> None:
    """Waits until the page is as wide as its window: what a resize draws anew may take a moment."""
    page.wait_for_timeout(100)
    page.wait_for_function("width => document.documentElement.scrollWidth === width", arg=width)


def test_everything_is_reached_by_keyboard_alone(visit: Visit, fake: Fake) -> None:
    page = visit(fake.url)
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
    expect(active).to_have_attribute("aria-label", f"{quoted('day')} ↔ {quoted('yad')} · 50% confident")
    page.locator("body").press("Home")
    page.locator("#tab-translate").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(focused).to_have_id("tab-try")
    expect(page.locator(".head-cell").first).to_be_visible()  # it comes with the answer, however late that is
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
    raise AssertionError(f"Tab never came to {selector}")


def test_the_first_tab_stop_skips_to_the_sentence(visit: Visit, fake: Fake) -> None:
    page = visit(fake.url, "training")
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_id("skip")
    page.keyboard.press("Enter")
    expect(page.locator(":focus")).to_have_id("sentence")


def test_nothing_scrolls_sideways_and_every_control_has_a_name(visit: Visit, fake: Fake) -> None:
    page = visit(fake.url, text="The animal did not cross the street because it was too tired.")
    for view in VIEWS:
        page.locator(f"#tab-{view}").click()
        expect(page.locator(f"#view-{view}")).not_to_have_attribute("hidden", "")
        for width in (1600, 360):
            page.set_viewport_size({"width": width, "height": 800})
            _expect_width(page, width)
        assert page.evaluate(NAMELESS) == [], view


NAMELESS = """[...document.querySelectorAll("button, input, select, textarea, [role=slider], [role=listbox]")]
   .filter(one => one.checkVisibility())
   .filter(one => !(one.ariaLabel || one.textContent.trim() || one.labels?.length || one.title))
   .map(one => one.outerHTML)"""


def test_hostile_text_is_only_text(visit: Visit, fake: Fake) -> None:
    page = visit(fake.url, width=400)
    for text in HOSTILE:
        page.locator("#sentence").fill(text)
        expect(page.locator("#words")).to_have_text(" ".join(word[::-1] for word in text.split()))
        for view in VIEWS:
            page.locator(f"#tab-{view}").click()
            _expect_width(page, 400)
        expect(page.locator("#sentence")).to_have_value(text)
        assert page.evaluate("window.hit") is None
        assert page.locator("main img, main script").count() == 0


def test_words_that_run_backwards_do_not_turn_the_page_around(visit: Visit, fake: Fake) -> None:
    fake.edits["/v1/look"] = lambda look: look["target"].update(text="\u2069\u202eother")
    page = visit(fake.url, "look", text="\u2069\u202eevil")
    expect(page.locator("#view-look .note")).to_contain_text(quoted("\u202eother"))
    page.locator("#tab-translate").click()
    page.locator(".words .word").first.hover()
    source, target = quoted("\u202eevil"), quoted("live\u202e")
    expect(page.locator(".word-info")).to_have_text(f"{source} ↔ {target} · 100% confident")


def test_the_policy_forbids_what_the_page_never_does(visit: Visit, service: str) -> None:
    page = visit(service, may_say="Content Security Policy")
    with page.expect_response(re.compile(r"/$")) as response:
        page.reload()
    policy = response.value.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    html = response.value.text()
    assert not re.search(r"<script(?![^>]*src=)|\sstyle=|\son\w+=", html)
    page.evaluate("document.body.append(Object.assign(document.createElement('script'), {text: 'window.hit = 1'}))")
    assert page.evaluate("window.hit") is None


def test_korean_for_who_reads_korean_and_by_choice(visit: Visit, fake: Fake) -> None:
    page = visit(fake.url, "try", locale="ko-KR", text="good day")
    expect(page.get_by_role("tab", name="번역")).to_be_visible()
    expect(page.locator("#view-try")).to_contain_text("아직 바꾼 것이 없습니다")
    assert page.locator("html").get_attribute("lang") == "ko"
    page.get_by_role("button", name="English").click()
    expect(page.locator("#view-try")).to_contain_text("Nothing is changed yet")
    page.reload()
    expect(page.get_by_role("tab", name="Translate")).to_be_visible()


def test_the_theme_is_chosen_and_remembered(visit: Visit, fake: Fake) -> None:
    page = visit(fake.url)
    button = page.locator("#theme")
    button.click()
    button.click()
    expect(button).to_have_attribute("aria-label", "Theme: dark")
    ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert ground == "rgb(19, 20, 24)"
    page.reload()
    assert page.locator("html").get_attribute("data-theme") == "dark"
    expect(button).to_have_attribute("aria-label", "Theme: dark")


def test_a_running_training_is_live(visit: Visit, fake: Fake) -> None:
    fake.story = (50, "running")
    page = visit(fake.url, "training")
    expect(page.locator(".run-summary")).to_contain_text("step 50 of 200")
    fake.story = (100, "finished")
    expect(page.locator(".run-summary")).to_contain_text("Finished")
    n_asked = fake.n_asked("/v1/training")
    page.wait_for_timeout(2_200)
    assert fake.n_asked("/v1/training") == n_asked


def test_the_heads_that_matter_are_shown_on_the_wall(visit: Visit, fake: Fake) -> None:
    page = visit(fake.url, "try", text="good day")
    page.get_by_role("button", name="Which heads matter?").click()
    expect(page.locator(".head-importance")).to_contain_text("Measured on 100 sentences")
    expect(page.locator(".head-importance")).to_contain_text("head 4, token accuracy changes by −3.0 percentage points")
    expect(page.locator(".head-bar:visible")).to_have_count(18)  # a head that costs nothing has none
    page.get_by_role("button", name="Hide").click()
    expect(page.locator(".head-bar:visible")).to_have_count(0)
