"""What all tests share: one torch thread a process, and a browser.

Small tensors gain nothing from more threads, and the tests run in two processes.
"""

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

os.environ["OMP_NUM_THREADS"] = "1"  # also for the processes that tests start


@pytest.fixture(scope="module")  # while Playwright runs, nothing else in this thread can run an event loop
def browser() -> Iterator["Browser"]:
    """The system's own Chromium: the one that Playwright would fetch is no part of the project."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None and os.environ.get("REGARD_BROWSER") != "required":
        pytest.skip("no chromium on this machine")
    assert path is not None, "REGARD_BROWSER=required, but there is no chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        yield browser
        browser.close()
