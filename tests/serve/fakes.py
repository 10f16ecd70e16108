"""A translator that shouts, one that can be held up, and a service over them, in this process or on a real socket."""

import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import sleep
from typing import Any

from starlette.testclient import TestClient

from regard.decoding.options import DecodingOptions
from regard.serve import Keys, ServedModel, Service, Settings, create_app
from regard.serve.http.server import bind, create_server
from regard.serve.inside.look_service import load_lens
from regard.translator import Token, Translation

KEY = "a-key-of-some-length"


class Shout:
    """Translates into capitals; remembers the batches that it was given."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.batches: list[list[str]] = []
        self.free = threading.Event()
        self.free.set()
        self.begun = threading.Event()

    def translate(
        self, lines: Sequence[str], *, options: DecodingOptions, target: str | None, details: bool
    ) -> list[Translation]:
        self.batches.append(list(lines))
        self.begun.set()
        self.free.wait(20)
        sleep(self.seconds)
        for line in lines:
            if line.startswith("raise "):
                raise {"SystemExit": SystemExit, "ValueError": ValueError}[line.split()[1]](line)
        return [self._one(line, options, details) for line in lines]

    def _one(self, line: str, options: DecodingOptions, details: bool) -> Translation:
        text = line.upper().strip()
        if not text:
            return Translation("", n_parts=0)
        others = tuple(Translation(f"{text} {number}", -2.0) for number in range(1, options.n_best))
        words = text.split()
        tokens = tuple(Token(f"▁{word}", 0.5) for word in words) if details else ()
        pairs = tuple((i, i) for i in range(len(words))) if details else ()
        return Translation(text, -1.0, tokens, pairs, others)

    @property
    def seen(self) -> list[str]:
        return [line for batch in self.batches for line in batch]


def served(translator: Shout | None = None, name: str = "loud", **known: Any) -> ServedModel:
    return ServedModel(name=name, translators=[translator or Shout()], **known)


@contextmanager
def connected(*models: ServedModel, keys: Sequence[str] = (), **settings: Any) -> Iterator[TestClient]:
    """The application in this process."""
    service = Service(models or [served()], Settings(**settings), Keys(keys) if keys else None)
    with TestClient(create_app(service), base_url="http://localhost") as client:
        client.app_state["service"] = service
        yield client


class Listening:
    """The application on a real socket, in a thread."""

    def __init__(self, *models: ServedModel, load: Callable[[ServedModel], Any] = load_lens, **settings: Any) -> None:
        self.service = Service(models or [served()], Settings(port=0, **settings))
        self._bound = bind(self.service.settings)
        started = threading.Event()
        self.server = create_server(create_app(self.service, load=load), self.service, started.set)
        self._thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self._bound]})
        self._thread.start()
        assert started.wait(20)
        self.port = self._bound.getsockname()[1]

    def __enter__(self) -> "Listening":
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self._thread.join(20)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def ask(self, text: str = "hello", path: str = "/v1/translate") -> tuple[int, Any]:
        with self.connect() as connection:
            connection.sendall(request(path, {"text": text}))
            return answer(connection)


def request(path: str, body: Any, method: str = "POST", more: str = "") -> bytes:
    content = json.dumps(body).encode()
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\nConnection: close\r\n{more}\r\n"
    )
    return head.encode() + content


def answer(connection: socket.socket) -> tuple[int, Any]:
    """Status and JSON of what comes until the connection is closed."""
    parts = []
    while part := connection.recv(1_048_576):
        parts.append(part)
    head, _, body = b"".join(parts).partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)
