"""A server with the routes of the service that can be slow, return errors, require a key, stop and start again."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

from .responses import (
    Json,
    heads_response,
    look_response,
    model,
    projection_response,
    training_response,
    translate_response,
)

WEB = Path(str(files("regard"))) / "web"
POLICY = "default-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
MEDIA_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


class FakeServer:
    """Set its attributes to change how it responds; `requests` records the path and body of each request."""

    def __init__(self) -> None:
        self.models = [model("fake", "en", "de")]
        self.key: str | None = None
        self.may_respond = threading.Event()  # while it is not set, requests wait
        self.may_respond.set()
        self.errors: dict[str, tuple[int, Json]] = {}  # path → status and error
        self.edits: dict[str, Callable[[Json], None]] = {}  # path → function that edits the response
        self.run_progress = (100, "finished")  # step and state of the training run
        self.requests: list[tuple[str, Json]] = []
        # bound but never listening: reserves the port while the server is stopped
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
        fake_server = self

        class Handler(_Handler):
            fake = fake_server

        class Server(ThreadingHTTPServer):
            request_queue_size = 128  # the browser requests all modules at once

        self._server = Server(("127.0.0.1", self._port), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """Stops listening; `start` resumes on the same port."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def close(self) -> None:
        """Stops and releases the port."""
        self.stop()
        self._reserved.close()

    def n_requests(self, path: str) -> int:
        return sum(requested == path for requested, _ in self.requests)

    def last_request(self, path: str) -> Json:
        """The body of the last request to this path."""
        return [body for requested, body in self.requests if requested == path][-1]

    def respond(self, path: str, body: Json) -> tuple[int, Json]:
        """Status and JSON."""
        status, response = self._response(path, body)
        if path in self.edits:
            self.edits[path](response)
        return status, response

    def _response(self, path: str, body: Json) -> tuple[int, Json]:
        if path in self.errors:
            status, error = self.errors[path]
            return status, {"error": {"request_id": "1", **error}}
        if path == "/v1/models":
            return 200, {"models": self.models}
        if path == "/v1/translate":
            return 200, translate_response(body)
        if path == "/v1/predict":
            return 200, {"model": body["model"], "output": [{"length": len(line)} for line in body["input"]]}
        if path == "/v1/look":
            return 200, look_response(body)
        if path == "/v1/projection":
            return 200, projection_response(body)
        if path == "/v1/heads":
            return 200, heads_response()
        if path == "/v1/training":
            return 200, training_response(*self.run_progress)
        return 404, {"error": {"code": "not_found", "message": "nothing here", "request_id": "1"}}


class _Handler(BaseHTTPRequestHandler):
    fake: FakeServer

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path == "/livez":
            self._json(200, {"status": "ok"})
        elif path == "/" or path.startswith("/static/"):
            self._file(path)
        else:
            self._respond(path, {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._respond(urlsplit(self.path).path, body)

    def log_message(self, format: str, *args: object) -> None:
        """Suppresses the log."""

    def _respond(self, path: str, body: Json) -> None:
        fake = self.fake
        fake.requests.append((path, body))
        if fake.key is not None and self.headers.get("Authorization") != f"Bearer {fake.key}":
            error = {"code": "key", "message": "a key, please", "request_id": "1"}
            self._json(401, {"error": error})
            return
        fake.may_respond.wait(timeout=120)
        self._json(*fake.respond(path, body))

    def _file(self, path: str) -> None:
        name = path.removeprefix("/static/") if path != "/" else "index.html"
        file = WEB / name
        if file.is_file():
            self._send(200, file.read_bytes(), MEDIA_TYPES[file.suffix])
        else:
            self._json(404, {})

    def _json(self, status: int, content: Json) -> None:
        self._send(status, json.dumps(content).encode(), "application/json")

    def _send(self, status: int, content: bytes, media_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{media_type}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", POLICY)
        self.end_headers()
        self.wfile.write(content)
