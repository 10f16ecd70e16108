"""Hostile text stays text, and the content security policy is enforced."""

import re

from playwright.sync_api import expect

from .conftest import PageOpener
from .fake_server import FakeServer
from .page_checks import VIEWS, expect_width, isolated

HOSTILE = [
    "<script>window.hit = 1</script> <img src=x onerror=window.hit=1> {{7*7}} javascript:window.hit=1",
    "\u202eright to left \u2066 override \u2069 and \u200f back",
    "W" * 3_000,
    "שלום עולם, زرافة طويلة",
]


def test_hostile_text_is_inert(open_page: PageOpener, fake_server: FakeServer) -> None:
    page = open_page(fake_server.url, width=400)
    for text in HOSTILE:
        page.locator("#sentence").fill(text)
        expect(page.locator("#words")).to_have_text(" ".join(word[::-1] for word in text.split()))
        for view in VIEWS:
            page.locator(f"#tab-{view}").click()
            expect_width(page, 400)
        expect(page.locator("#sentence")).to_have_value(text)
        assert page.evaluate("window.hit") is None
        assert page.locator("main img, main script").count() == 0


def test_right_to_left_words_do_not_reverse_a_sentence_of_the_page(
    open_page: PageOpener, fake_server: FakeServer
) -> None:
    fake_server.edits["/v1/look"] = lambda look: look["target"].update(text="\u2069\u202eother")
    page = open_page(fake_server.url, "look", text="\u2069\u202eevil")
    expect(page.locator("#view-look .note").first).to_contain_text(isolated("\u202eother"))
    page.locator("#tab-translate").click()
    page.locator(".words .word").first.hover()
    source, target = isolated("\u202eevil"), isolated("live\u202e")
    expect(page.locator(".word-info")).to_have_text(f"{source} ↔ {target} · 100% confident")


def test_content_security_policy_blocks_inline_scripts(open_page: PageOpener, service_url: str) -> None:
    page = open_page(service_url, allow_error="Content Security Policy")
    with page.expect_response(re.compile(r"/$")) as response:
        page.reload()
    policy = response.value.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    html = response.value.text()
    assert not re.search(r"<script(?![^>]*src=)|\sstyle=|\son\w+=", html)
    page.evaluate("document.body.append(Object.assign(document.createElement('script'), {text: 'window.hit = 1'}))")
    assert page.evaluate("window.hit") is None
