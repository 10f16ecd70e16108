"""Helpers of several tests of the page."""

from playwright.sync_api import Page

VIEWS = ["translate", "look", "try", "training"]


def isolated(words: str) -> str:
    """Words in bidi isolation, so that they cannot reverse the sentence around them."""
    return f"\u2068{words}\u2069"


def expect_width(page: Page, width: int) -> None:
    """Waits until the page is as wide as its window; redrawing after a resize takes a moment."""
    page.wait_for_timeout(100)
    page.wait_for_function("width => document.documentElement.scrollWidth === width", arg=width)
