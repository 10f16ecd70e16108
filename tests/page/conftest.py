"""One Chromium for all tests of the page; each test gets a page of its own, and fails when that page complains."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from .fake import Fake

Visit = Callable[..., Page]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The system's own Chromium: the one that Playwright would fetch is no part of the project."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None and os.environ.get("REGARD_BROWSER") != "required":
        pytest.skip("no chromium on this machine")
    assert path is not None, "REGARD_BROWSER=required, but there is no chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        yield browser
        browser.close()


@pytest.fixture
def fake() -> Iterator[Fake]:
    """A server for situations that the real one does not come into."""
    server = Fake()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """visit(url, view, width=…, locale=…, **state) opens the page; what the console says must be in `may_say`."""
    contexts = []
    said: list[str] = []
    allowed: list[str] = []

    def open_page(
        url: str,
        view: str = "translate",
        *,
        width: int = 1200,
        locale: str = "en-US",
        touch: bool = False,
        may_say: str | None = None,
        **state: object,
    ) -> Page:
        allowed.extend([may_say] if may_say else [])
        size = {"width": width, "height": 800}
        context = browser.new_context(viewport=size, locale=locale, has_touch=touch, reduced_motion="reduce")
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(f"{url}#{view}?{urlencode(state)}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [one for one in said if not any(text in one for text in allowed)] == []
