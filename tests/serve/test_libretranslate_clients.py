"""LibreTranslate's published clients, unmodified, over a real connection."""

import json
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
import uvicorn
from libretranslatepy import LibreTranslateAPI

from regard.serve import Keys, Service, create_app

from .fakes import KEY, TIMEOUT_SECONDS, wait_until
from .libretranslate_fakes import served

NPM_CLIENT = "libretranslate@1.0.1"
SCRIPT = Path(__file__).parent / "clients" / "translate.cjs"


@contextmanager
def run_server(*keys: str) -> Iterator[str]:
    """Yields the URL."""
    service = Service([served("en-de", "en", "de")], keys=Keys(keys) if keys else None)
    server = uvicorn.Server(
        uvicorn.Config(create_app(service), host="127.0.0.1", port=0, log_level="warning", ws="none")
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive())
        assert server.started
        yield "http://{}:{}".format(*server.servers[0].sockets[0].getsockname())
    finally:
        server.should_exit = True
        thread.join(TIMEOUT_SECONDS)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with run_server() as address:
        yield address


@pytest.fixture(scope="module")
def npm(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """The npm client's `translate`; downloaded once into pytest's cache."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("node and npm are not installed")
    directory = Path(request.config.cache.mkdir("npm")) / NPM_CLIENT
    if not (directory / "package").exists():
        directory.mkdir(exist_ok=True)
        pack = run("npm", "pack", "--silent", "--pack-destination", str(directory), NPM_CLIENT)
        if pack.returncode != 0:
            pytest.skip(f"no npm registry: {(pack.stderr.strip() or 'npm failed').splitlines()[-1]}")
        with tarfile.open(next(directory.glob("*.tgz"))) as archive:
            # the argument is newer than Python 3.11.2
            archive.extractall(directory, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))

    def translate(*requests: dict[str, Any]) -> Any:
        process = run("node", str(SCRIPT), str(directory / "package"), json.dumps(requests))
        assert process.returncode == 0, process.stderr
        return json.loads(process.stdout)

    return translate


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)


def test_pypi_client(url: str) -> None:
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


def test_pypi_client_with_a_key() -> None:
    with run_server(KEY) as url:
        api = LibreTranslateAPI(url, KEY)
        assert api.translate("one two", "en", "de") == "TWO ONE"
        assert api.languages()[0]["code"] == "en"
        for key, status in (("some-other-service-key", 403), (None, 401)):
            with pytest.raises(HTTPError) as refused:
                LibreTranslateAPI(url, key).translate("one two", "en", "de")
            assert refused.value.status == status
            refused.value.close()


def test_npm_client(url: str, npm: Callable[..., Any]) -> None:
    plain = {"query": "the animal was tired", "target": "de", "apiurl": url}
    html = {"query": "<p>the <b>tired</b> animal</p>", "format": "html"}
    changes = [{}, {"source": "en"}, html, {"query": ["one two", "three"], "source": "en"}, {"target": "zz"}]
    *translations, refused = npm(*(plain | change for change in changes))
    assert translations == [
        "TIRED WAS ANIMAL THE",
        "TIRED WAS ANIMAL THE",
        "<p>ANIMAL <b>TIRED</b> THE</p>",
        ["TWO ONE", "THREE"],
    ]
    assert "not found" in refused["error"]
