"""How fast the page is: first paint, and the time from a typed sentence to its look on the screen.

    python -m regard serve runs/demo --port 8000 &
    python benchmarks/page_speed.py http://127.0.0.1:8000/

Needs Chromium on the PATH and the development dependencies. Prints medians in milliseconds.
"""

from __future__ import annotations

import argparse
import shutil
from statistics import median

from playwright.sync_api import Browser, sync_playwright

FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
WORDS = "the animal did not cross the street because it was too tired and the woman saw the old dog there"
# Types a sentence, and resolves with the milliseconds until the panel shows it.
LOOK = """async (text) => {
    const field = document.getElementById("sentence");
    const pieces = () => document.querySelector(".panel-pieces")?.textContent ?? "";
    const before = pieces();
    const startedAt = performance.now();
    field.value = text;
    field.dispatchEvent(new Event("input", { bubbles: true }));
    while (pieces() === before || pieces() === "") await new Promise(requestAnimationFrame);
    return performance.now() - startedAt;
}"""


def measure(browser: Browser, url: str, repeats: int) -> tuple[list[float], list[float]]:
    """First paints in new contexts, without a cache; looks in one page, each of another sentence of 20 words."""
    paints, looks = [], []
    for _ in range(repeats):
        context = browser.new_context()
        page = context.new_page()
        page.goto(url)
        page.wait_for_function(f"{FIRST_PAINT} > 0")
        paints.append(page.evaluate(FIRST_PAINT))
        context.close()
    page = browser.new_page()
    page.goto(f"{url}#look?stop=1&text=one")
    page.locator(".panel-pieces").wait_for()
    for number in range(repeats):
        looks.append(page.evaluate(LOOK, f"{WORDS} {number}x{number}"))
    return paints, looks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    with sync_playwright() as playwright:
        path = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=path)
        paints, looks = measure(browser, arguments.url, arguments.repeats)
        browser.close()
    pause = 250  # look_view.js waits for the end of typing
    print(f"first paint {median(paints):.0f} ms ({min(paints):.0f} to {max(paints):.0f})")
    print(f"a look at 20 words {median(looks) - pause:.0f} ms ({min(looks) - pause:.0f} to {max(looks) - pause:.0f}),")
    print(f"after {pause} ms without typing")


if __name__ == "__main__":
    main()
