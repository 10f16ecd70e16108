"""Fixtures of the page's tests: a real service, a fake server, and browser pages whose errors fail the test."""

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

from .fake_server import FakeServer

GOLDEN = Path(__file__).parent.parent / "golden"
PageOpener = Callable[..., Page]


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
def sentence_and_translation() -> tuple[str, str]:
    """A sentence that the stored model translates identically with quantised and exact weights."""
    lines = [GOLDEN.joinpath(name).read_text().splitlines() for name in ("source.txt", "expected.txt")]
    with Translator.load(GOLDEN / "model", threads=1) as translator:
        quantised = [translation.text for translation in translator.translate(lines[0])]
    return next((line, exact) for line, exact, text in zip(*lines, quantised, strict=True) if exact == text)


@pytest.fixture(scope="session")
def sentence(sentence_and_translation: tuple[str, str]) -> str:
    return sentence_and_translation[0]


@pytest.fixture(scope="session")
def expected(sentence_and_translation: tuple[str, str]) -> str:
    return sentence_and_translation[1]


@pytest.fixture(scope="session")
def service_url(run: Path) -> Iterator[str]:
    """Starts the real service with two models: the stored one alone, and one with its run directory."""
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
def fake_server() -> Iterator[FakeServer]:
    """A server that can fail in ways that the real service cannot be made to."""
    server = FakeServer()
    server.start()
    yield server
    server.close()


@pytest.fixture
def open_page(browser: Browser, fake_server: FakeServer) -> Iterator[PageOpener]:
    """open_page(url, view, width=…, locale=…, **state) opens the page. The test fails if the console shows an error or
    warning that does not contain `allow_error`.

    Depends on `fake_server` so that pages are closed before that server stops.
    """
    contexts = []
    errors: list[str] = []
    allowed: list[str] = []

    def open_it(
        url: str,
        view: str = "translate",
        *,
        width: int = 1200,
        locale: str = "en-US",
        touch: bool = False,
        allow_error: str | None = None,
        **state: object,
    ) -> Page:
        allowed.extend([allow_error] if allow_error else [])
        size = {"width": width, "height": 800}
        context = browser.new_context(viewport=size, locale=locale, has_touch=touch, reduced_motion="reduce")
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on(
            "console", lambda message: errors.append(message.text) if message.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{url}#{view}?{urlencode(state)}")
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert [error for error in errors if not any(text in error for text in allowed)] == []
