"""Other people's clients, unchanged, over a real connection."""

import json
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.error import HTTPError

import pytest
import uvicorn
from libretranslatepy import LibreTranslateAPI

from regard.serve import Keys, Service, create_app

from .mirror import served

NPM_CLIENT = "libretranslate@1.0.1"
SCRIPT = Path(__file__).parent / "clients" / "translate.cjs"
KEY = "a-key-of-some-length"
PATIENCE_SECONDS = 60


@contextmanager
def listening(*keys: str) -> Iterator[str]:
    """The address of a service on this machine."""
    service = Service([served("en-de", "en", "de")], keys=Keys(keys) if keys else None)
    server = uvicorn.Server(
        uvicorn.Config(create_app(service), host="127.0.0.1", port=0, log_level="warning", ws="none")
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until = monotonic() + PATIENCE_SECONDS
        while not server.started and thread.is_alive() and monotonic() < until:
            sleep(0.01)
        assert server.started
        yield "http://{}:{}".format(*server.servers[0].sockets[0].getsockname())
    finally:
        server.should_exit = True
        thread.join(PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with listening() as address:
        yield address


@pytest.fixture(scope="module")
def npm(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """The npm client's `translate`; fetched once, then kept where pytest keeps things."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("node and npm are not on this machine")
    directory = Path(request.config.cache.mkdir("npm")) / NPM_CLIENT
    if not (directory / "package").exists():
        directory.mkdir(exist_ok=True)
        fetched = run("npm", "pack", "--silent", "--pack-destination", str(directory), NPM_CLIENT)
        if fetched.returncode != 0:
            pytest.skip(f"no npm registry: {(fetched.stderr.strip() or 'npm failed').splitlines()[-1]}")
        with tarfile.open(next(directory.glob("*.tgz"))) as packed:
            packed.extractall(directory, filter="data")

    def translate(*asked: dict[str, Any]) -> Any:
        done = run("node", str(SCRIPT), str(directory / "package"), json.dumps(asked))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return translate


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)


def test_the_pypi_client(url: str) -> None:
    api = LibreTranslateAPI(url)
    assert api.translate("the animal was tired\n\ntoo wide", "en", "de") == "TIRED WAS ANIMAL THE\n\nWIDE TOO"
    assert api.translate("das Tier war zu müde", "auto", "de") == "das Tier war zu müde"
    assert api.detect("the animal was tired")[0]["language"] == "en"
    assert api.languages() == [
        {"code": "en", "name": "English", "targets": ["de"]},
        {"code": "de", "name": "German", "targets": []},
    ]
    with pytest.raises(HTTPError) as refused:
        api.translate("x", "en", "zz")
    assert json.load(refused.value) == {"error": "zz is not supported"}
    refused.value.close()


def test_the_pypi_client_with_a_key() -> None:
    with listening(KEY) as url:
        api = LibreTranslateAPI(url, KEY)
        assert api.translate("one two", "en", "de") == "TWO ONE"
        assert api.languages()[0]["code"] == "en"
        for key, status in (("no-key-of-this-place", 403), (None, 401)):
            with pytest.raises(HTTPError) as refused:
                LibreTranslateAPI(url, key).translate("one two", "en", "de")
            assert refused.value.status == status
            refused.value.close()


def test_the_npm_client(url: str, npm: Callable[..., Any]) -> None:
    plain = {"query": "the animal was tired", "target": "de", "apiurl": url}
    html = {"query": "<p>the <b>tired</b> animal</p>", "format": "html"}
    asked = [{}, {"source": "en"}, html, {"query": ["one two", "three"], "source": "en"}, {"target": "zz"}]
    *answers, refused = npm(*(plain | one for one in asked))
    assert answers == [
        "TIRED WAS ANIMAL THE",
        "TIRED WAS ANIMAL THE",
        "<p>ANIMAL <b>TIRED</b> THE</p>",
        ["TWO ONE", "THREE"],
    ]
    assert "not found" in refused["error"]
