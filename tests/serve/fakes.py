"""Fake translators, and a service over them: in this process or on a real socket."""

import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any

from starlette.testclient import TestClient

from regard.decoding.options import DecodingOptions
from regard.errors import UserError
from regard.serve import Keys, ServedModel, Service, Settings, create_app
from regard.serve.http.server import bind, create_server
from regard.serve.inside.look_service import load_lens
from regard.translator import Token, Translation

KEY = "a-key-of-some-length"
TIMEOUT_SECONDS = 60.0  # for anything that must happen: long enough for a machine under heavy load


class UppercaseTranslator:
    """Translates into upper case and records its batches. While `released` is not set, translations wait."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds  # per batch
        self.batches: list[list[str]] = []
        self.warnings: tuple[str, ...] = ()
        self.released = threading.Event()
        self.released.set()
        self.started = threading.Event()

    def translate(
        self, lines: Sequence[str], *, options: DecodingOptions, target: str | None, details: bool, **_: Any
    ) -> list[Translation]:
        self.batches.append(list(lines))
        self.started.set()
        assert self.released.wait(TIMEOUT_SECONDS)
        sleep(self.seconds)
        for line in lines:
            if line.startswith("raise "):
                raise {"SystemExit": SystemExit, "ValueError": ValueError}[line.split()[1]](line)
        return [self._translation(line, options, details) for line in lines]

    def predict(self, inputs: Sequence[Any]) -> list[Translation]:
        if not all(isinstance(line, str) for line in inputs):
            raise UserError("a translator takes lines of text")
        return self.translate(inputs, options=DecodingOptions(), target=None, details=False)

    def _translation(self, line: str, options: DecodingOptions, details: bool) -> Translation:
        text = line.upper().strip()
        if not text:
            return Translation("", n_parts=0)
        alternatives = tuple(Translation(f"{text} {number}", -2.0) for number in range(1, options.n_best))
        words = text.split()
        tokens = tuple(Token(f"▁{word}", 0.5) for word in words) if details else ()
        alignment = tuple((i, i) for i in range(len(words))) if details else ()
        return Translation(text, -1.0, tokens, alignment, alternatives, warnings=self.warnings)

    @property
    def texts(self) -> list[str]:
        return [line for batch in self.batches for line in batch]


def served(translator: UppercaseTranslator | None = None, name: str = "upper", **fields: Any) -> ServedModel:
    return ServedModel(name=name, predictors=[translator or UppercaseTranslator()], **fields)


@contextmanager
def create_client(*models: ServedModel, keys: Sequence[str] = (), **settings: Any) -> Iterator[TestClient]:
    """A client of an application in this process."""
    service = Service(models or [served()], Settings(**settings), Keys(keys) if keys else None)
    with TestClient(create_app(service), base_url="http://localhost") as client:
        client.app_state["service"] = service
        yield client


class RunningServer:
    """An application on a real socket, in a thread."""

    def __init__(self, *models: ServedModel, load: Callable[[ServedModel], Any] = load_lens, **settings: Any) -> None:
        self.service = Service(models or [served()], Settings(port=0, **settings))
        self._bound = bind(self.service.settings)
        started = threading.Event()
        self.server = create_server(create_app(self.service, load=load), self.service, started.set)
        self._thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self._bound]})
        self._thread.start()
        assert started.wait(TIMEOUT_SECONDS)
        self.port = self._bound.getsockname()[1]

    def __enter__(self) -> "RunningServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self._thread.join(TIMEOUT_SECONDS)
        assert not self._thread.is_alive()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT_SECONDS)

    def post(self, text: str = "hello", path: str = "/v1/translate") -> tuple[int, Any]:
        with self.connect() as connection:
            connection.sendall(raw_request(path, {"text": text}))
            return read_response(connection)


def raw_request(path: str, body: Any, method: str = "POST") -> bytes:
    content = json.dumps(body).encode()
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + content


def read_response(connection: socket.socket) -> tuple[int, Any]:
    """Status and JSON body; reads until the server closes the connection."""
    parts = []
    while part := connection.recv(1_048_576):
        parts.append(part)
    head, _, body = b"".join(parts).partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def wait_until(condition: Callable[[], bool]) -> None:
    """Polls until the condition holds; fails after TIMEOUT_SECONDS."""
    end = monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert monotonic() < end, "timed out"
        sleep(0.01)
