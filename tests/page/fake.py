"""A server that answers as the service does, and can be slow, refuse, want a key, go away and come back."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

from .answers import Json, heads_answer, look_answer, model, story_answer, translate_answer

WEB = Path(str(files("regard"))) / "web"
POLICY = "default-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


class Fake:
    """The server and everything that can be wrong with it; `asked` holds every question with its body."""

    def __init__(self) -> None:
        self.models = [model("fake", "en", "de")]
        self.key: str | None = None
        self.open = threading.Event()  # as long as it is not set, questions wait
        self.open.set()
        self.refusals: dict[str, tuple[int, Json]] = {}  # path → status and error
        self.edits: dict[str, Callable[[Json], None]] = {}  # path → what to change about the answer
        self.story = (100, "finished")
        self.asked: list[tuple[str, Json]] = []
        # bound but never listening: keeps the port free for us while the server is away
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind(("127.0.0.1", 0))
        self._port = self._reserved.getsockname()[1]
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/"

    def start(self) -> None:
        """Listens, always on the same port."""
        fake = self

        class Handler(_Handler):
            owner = fake

        class Server(ThreadingHTTPServer):
            request_queue_size = 128  # a page asks for all its files at once

        self._server = Server(("127.0.0.1", self._port), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """Go away."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def close(self) -> None:
        """Stops for good."""
        self.stop()
        self._reserved.close()

    def n_asked(self, path: str) -> int:
        return sum(one == path for one, _ in self.asked)

    def last(self, path: str) -> Json:
        """What was asked last there; a page that just goes away may still ask for something else."""
        return [body for one, body in self.asked if one == path][-1]

    def answer(self, path: str, body: Json) -> tuple[int, Json]:
        """Status and JSON."""
        status, answer = self._answer(path, body)
        if path in self.edits:
            self.edits[path](answer)
        return status, answer

    def _answer(self, path: str, body: Json) -> tuple[int, Json]:
        if path in self.refusals:
            status, error = self.refusals[path]
            return status, {"error": {"request_id": "1", **error}}
        if path == "/v1/models":
            return 200, {"models": self.models}
        if path == "/v1/translate":
            return 200, translate_answer(body)
        if path == "/v1/look":
            return 200, look_answer(body)
        if path == "/v1/heads":
            return 200, heads_answer()
        if path == "/v1/training":
            return 200, story_answer(*self.story)
        return 404, {"error": {"code": "not_found", "message": "nothing here", "request_id": "1"}}


class _Handler(BaseHTTPRequestHandler):
    owner: Fake

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path == "/livez":
            self._json(200, {"status": "ok"})
        elif path == "/" or path.startswith("/static/"):
            self._file(path)
        else:
            self._question(path, {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._question(urlsplit(self.path).path, body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def _question(self, path: str, body: Json) -> None:
        owner = self.owner
        owner.asked.append((path, body))
        if owner.key is not None and self.headers.get("Authorization") != f"Bearer {owner.key}":
            error = {"code": "key", "message": "a key, please", "request_id": "1"}
            self._json(401, {"error": error})
            return
        owner.open.wait(timeout=120)
        self._json(*owner.answer(path, body))

    def _file(self, path: str) -> None:
        name = path.removeprefix("/static/") if path != "/" else "index.html"
        file = WEB / name
        if file.is_file():
            self._send(200, file.read_bytes(), KINDS[file.suffix])
        else:
            self._json(404, {})

    def _json(self, status: int, answer: Json) -> None:
        self._send(status, json.dumps(answer).encode(), "application/json")

    def _send(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", POLICY)
        self.end_headers()
        self.wfile.write(content)
