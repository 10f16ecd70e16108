"""Admission: checks host, API key and size of a request, and cancels its work when the client disconnects."""

from __future__ import annotations

import asyncio
import logging
import re
import traceback
from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serve.http.problem import Problem, too_busy
from regard.serve.http.responses import LIBRETRANSLATE_PATHS, problem_response
from regard.serve.service import Service

log = logging.getLogger("regard.serve")

_LIVENESS_PATH = "/livez"
_STATUS_PATHS = frozenset({_LIVENESS_PATH, "/health"})  # need no key: a status is all they say
_MONITORING_PATHS = frozenset({*_STATUS_PATHS, "/readyz", "/metrics"})  # answered while the service stops, too
_QUEUE_PATHS = frozenset({"/v1/translate", "/v1/predict", "/translate"})
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class _ClientNotReading(Exception):
    """The client does not read its response."""


class Admission:
    """Middleware: reads the request body within the limits, then runs the application until the client disconnects."""

    def __init__(self, app: ASGIApp, service: Service, direct_routes: Mapping[str, ASGIApp]) -> None:
        """`direct_routes` handle POST requests to these paths without the overhead of the router."""
        self._app, self._service, self._settings = app, service, service.settings
        self._direct_routes = direct_routes
        self._held_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def send_within_timeout(message: Message) -> None:
            nonlocal started
            if not started and self._service.draining:  # the client should not reuse this connection
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            started = True
            if message.get("more_body", False):
                await self._send_part(message, send)
            else:
                await send(message)

        try:
            await self._admit(scope, receive, send_within_timeout)
        except Problem as problem:
            if not started:
                await problem_response(problem, scope)(scope, receive, send_within_timeout)
        except _ClientNotReading:
            pass  # uvicorn closes the connection, because the response is incomplete
        except Exception as error:
            log_error(error)
            if started:  # uvicorn logs what it catches, and the original error may contain a client's text
                raise RuntimeError("the response was interrupted") from None
            await problem_response(Problem(500, "internal", "internal error"), scope)(scope, receive, send)

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._check_host(scope)
        self._check_key(scope)
        if scope["path"] in _MONITORING_PATHS:
            await self._app(scope, receive, send)
            return
        if self._service.closed:
            raise Problem(503, "stopping", "the service is stopping", retry_after=5)
        if scope["path"] in _QUEUE_PATHS:
            self._service.refuse_if_full()
        self._service.n_admitted += 1
        body = bytearray()
        try:
            await self._read_body(scope, receive, body)
            if scope["method"] == "POST":
                await self._run_until_disconnect(scope, bytes(body), receive, send)
            else:
                await self._app(scope, _replay(bytes(body), receive), send)
        finally:
            self._held_bytes -= len(body)
            self._service.n_admitted -= 1

    def _check_host(self, scope: Scope) -> None:
        """Prevents DNS rebinding: a web page could point its own host name at this machine and read our responses.

        Such requests still carry that host name. Services with API keys or a public address are not affected.
        """
        if self._service.keys is not None or self._settings.host not in _LOOPBACK:
            return
        allowed = _LOOPBACK | {name.lower() for name in self._settings.names}
        for header in (value.decode("latin-1") for name, value in scope["headers"] if name == b"host"):
            host = re.sub(r":\d*$", "", header).lower().strip("[]")
            if host not in allowed:
                message = f"this service only accepts local requests, not for host {host[:100]!r}"
                raise Problem(421, "wrong_host", f"{message}; allow it with --name")

    def _check_key(self, scope: Scope) -> None:
        """LibreTranslate clients may send the key in the body instead; those routes check it there."""
        keys, path = self._service.keys, scope["path"]
        if keys is None or path in _STATUS_PATHS or _is_page(path):
            return
        authorization = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, key = authorization.decode("latin-1").partition(" ")
        bearer = key.strip() if scheme.lower() == "bearer" else None
        if not bearer and path in LIBRETRANSLATE_PATHS:
            return
        keys.require(bearer)
        scope.setdefault("state", {})["has_key"] = True

    async def _read_body(self, scope: Scope, receive: Receive, body: bytearray) -> None:
        """Reads the body; a body that is too large is refused from its Content-Length, or as soon as it is exceeded."""
        headers = dict(scope["headers"])
        length = headers.get(b"content-length")
        if length is None and b"transfer-encoding" not in headers:
            return
        self._check_body_size(0, int(length) if length is not None and length.isdigit() else 0)
        try:
            async with asyncio.timeout(self._settings.body_seconds):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Problem(400, "left", "the client disconnected before the end of its request")
                    part = message.get("body", b"")
                    self._check_body_size(len(body), len(part))
                    body += part
                    self._held_bytes += len(part)
                    more = message.get("more_body", False)
        except TimeoutError:
            raise Problem(408, "slow", f"the request body took more than {self._settings.body_seconds:g} s") from None

    def _check_body_size(self, n_read: int, n_more: int) -> None:
        if n_read + n_more > self._settings.max_body:
            raise Problem(413, "too_large", f"the request body is larger than {self._settings.max_body:,} bytes")
        if self._held_bytes + n_more > self._settings.max_bodies:
            raise too_busy(1.0)

    async def _send_part(self, message: Message, send: Send) -> None:
        """Gives up on clients that do not read, because their response stays in memory."""
        try:
            async with asyncio.timeout(self._settings.read_seconds):
                await send(message)
        except TimeoutError:
            raise _ClientNotReading from None

    async def _run_until_disconnect(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Runs the application; when the client disconnects, cancels it, which removes its texts from the queue."""
        task = asyncio.current_task()
        assert task is not None
        disconnected = completed = False

        async def watch() -> None:
            nonlocal disconnected
            while (await receive())["type"] != "http.disconnect":
                pass
            if not completed:  # servers send http.disconnect after a complete response, too
                disconnected = True
                task.cancel()

        async def send_and_note_end(message: Message) -> None:
            nonlocal completed
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                completed = True
            await send(message)

        watcher = asyncio.create_task(watch())

        async def wait_for_disconnect() -> Message:
            await asyncio.wait([watcher])
            return {"type": "http.disconnect"}

        try:
            app = self._direct_routes.get(scope["path"], self._app)
            await app(scope, _replay(body, wait_for_disconnect), send_and_note_end)
        except asyncio.CancelledError:
            if not disconnected:
                raise
            task.uncancel()
        finally:
            watcher.cancel()


def _replay(body: bytes, receive_next: Receive) -> Receive:
    """A `receive` that returns the body as one message, then whatever `receive_next` returns."""
    replayed = False

    async def receive() -> Message:
        nonlocal replayed
        if replayed:
            return await receive_next()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def _is_page(path: str) -> bool:
    """Files of the page and of the documentation: they contain no data, and a browser sends no key for them."""
    return path in ("/", "/docs", "/openapi.json") or path.startswith(("/static/", "/docs/"))


def log_error(error: Exception) -> None:
    """Logs type and location of an error, but not its message, which may contain a client's text."""
    frames = traceback.extract_tb(error.__traceback__)
    location = " < ".join(f"{frame.name}:{frame.lineno}" for frame in reversed(frames[-4:]))
    log.error("%s in %s", type(error).__name__, location)
