"""One Chromium for all tests of the page; each test gets a page of its own, and fails when that page complains."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
import uvicorn
from playwright.sync_api import Browser, Page

from regard.serve.app import create_app
from regard.serve.models import load_models
from regard.serve.service import Service
from regard.translator import Translator

from .fake import Fake

GOLDEN = Path(__file__).parent.parent / "golden"
Visit = Callable[..., Page]


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory around the stored model, with a short journal."""
    directory = tmp_path_factory.mktemp("page") / "digits"
    shutil.copytree(GOLDEN / "model", directory / "model")
    directory.joinpath("recipe.toml").write_text("[training]\nsteps = 40\n")
    steps = [
        {"event": "step", "step": n, "steps": 40, "rate": n / 1e4, "loss": 5 - n / 10, "nll": 4 - n / 10}
        | {"n_tokens": 100, "tokens_per_second": 900.0, "elapsed_seconds": n / 2}
        for n in range(1, 41)
    ]
    sample = {"source": "7 4 7", "reference": "seven four seven", "translation": "seven four four"}
    scores = {"loss": 1.5, "perplexity": 4.48, "accuracy": 0.7, "bleu": 12.3, "chrf": 34.5, "samples": [sample]}
    events = [*steps, {"event": "validation", "step": 40, **scores}, {"event": "finished"}]
    directory.joinpath("journal.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    return directory


@pytest.fixture(scope="session")
def known() -> tuple[str, str]:
    """A sentence of which the stored model makes the same with rounded weights as with exact ones, and what."""
    lines = [GOLDEN.joinpath(name).read_text().splitlines() for name in ("source.txt", "expected.txt")]
    with Translator.load(GOLDEN / "model", threads=1) as translator:
        rounded = [one.text for one in translator.translate(lines[0])]
    return next((line, exact) for line, exact, text in zip(*lines, rounded, strict=True) if exact == text)


@pytest.fixture(scope="session")
def sentence(known: tuple[str, str]) -> str:
    return known[0]


@pytest.fixture(scope="session")
def expected(known: tuple[str, str]) -> str:
    return known[1]


@pytest.fixture(scope="session")
def service(run: Path) -> Iterator[str]:
    """The real service: the stored model alone, and with its run. Its address."""
    app = create_app(Service(load_models([GOLDEN / "model", run], n_engines=1)))
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    thread.join(timeout=20)


@pytest.fixture
def fake() -> Iterator[Fake]:
    """A server for situations that the real one does not come into."""
    server = Fake()
    server.start()
    yield server
    server.close()


@pytest.fixture
def visit(browser: Browser, fake: Fake) -> Iterator[Visit]:
    """visit(url, view, width=…, locale=…, **state) opens the page; what the console says must be in `may_say`.

    It needs the fake server only to be done before that is: else every page would see it go.
    """
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
        page.set_default_timeout(60_000)
        page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(f"{url}#{view}?{urlencode(state)}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [one for one in said if not any(text in one for text in allowed)] == []
