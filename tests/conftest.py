"""Shared by all tests: one torch thread per process, a browser, and a measure of work.

More threads do not speed up small tensors, and the tests run in two processes.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

os.environ["OMP_NUM_THREADS"] = "1"  # inherited by the processes that tests start

# how long one example takes depends on what else the machine does
settings.register_profile("regard", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("regard")


@pytest.fixture(scope="module")  # not "session": while Playwright runs, this thread cannot run another event loop
def browser() -> Iterator["Browser"]:
    """The Chromium of the system, not one downloaded by Playwright."""
    from playwright.sync_api import expect, sync_playwright

    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None and os.environ.get("REGARD_BROWSER") != "required":
        pytest.skip("no chromium on this machine")
    assert path is not None, "REGARD_BROWSER=required, but there is no chromium"
    expect.set_options(timeout=60_000)  # milliseconds; the default of 5,000 is too short on a busy machine
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        yield browser
        browser.close()


@pytest.fixture
def count_calls() -> Callable[[Callable[[], Any]], int]:
    """Counts calls of Python and C functions: a measure of work that other processes, unlike time, cannot change."""

    def count(function: Callable[[], Any]) -> int:
        n_calls = 0

        def on_event(_frame: Any, event: str, _argument: Any) -> None:
            nonlocal n_calls
            n_calls += event in ("call", "c_call")

        previous = sys.getprofile()
        sys.setprofile(on_event)
        try:
            function()
        finally:
            sys.setprofile(previous)
        return n_calls

    return count
