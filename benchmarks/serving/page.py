"""Response times of the page: first paint, and a look at a sentence of 20 words."""

from __future__ import annotations

import json
import shutil
import statistics
from time import perf_counter
from urllib.request import Request, urlopen

from serving.harness import Harness, Result

N_WORDS = 20
MAX_LOOK_SECONDS = 0.3
MAX_PAINT_SECONDS = 1.0


def looks(harness: Harness) -> Result:
    """With the same request as the page: all arrays, for the model's own translation."""
    text = " ".join(" ".join(harness.sentences[:10]).split()[:N_WORDS])
    with harness.run_service("--quiet") as child:
        seconds = [_look(child.port, text) for _ in range(harness.choose(21, 4))]
    median = statistics.median(seconds[1:])
    return Result(
        f"median {median * 1000:.0f} ms, slowest {max(seconds[1:]) * 1000:.0f} ms; the first, which loads torch, "
        f"{seconds[0]:.1f} s",
        median < MAX_LOOK_SECONDS,
    )


def _look(port: int, text: str) -> float:
    body = json.dumps({"text": text, "arrays": "base64"}).encode()
    request = Request(f"http://127.0.0.1:{port}/v1/look", body, {"Content-Type": "application/json"})
    started_at = perf_counter()
    with urlopen(request) as response:
        response.read()
    return perf_counter() - started_at


def first_paint(harness: Harness) -> Result:
    """As measured by Chromium, each time in a new profile."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        return Result("not measured: chromium is not installed", False)
    seconds = []
    with harness.run_service("--quiet") as child, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium)
        for _ in range(harness.choose(5, 1)):
            page = browser.new_context().new_page()
            page.goto(f"http://127.0.0.1:{child.port}/")
            page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length > 0")
            seconds.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime") / 1000)
            page.context.close()
        browser.close()
    median = statistics.median(seconds)
    return Result(f"median {median * 1000:.0f} ms, slowest {max(seconds) * 1000:.0f} ms", median < MAX_PAINT_SECONDS)
