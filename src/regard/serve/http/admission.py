"""Who is let in: keys, size, pace, and whether the service still takes anything. And who has left is noticed here."""

from __future__ import annotations

import asyncio
import logging
import re
import traceback
from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serve.http.problem import Problem, leaving, too_busy
from regard.serve.http.responses import LIBRETRANSLATE_PATHS, problem_response
from regard.serve.service import Service

log = logging.getLogger("regard.serve")

_ALIVE = "/livez"
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_TRANSLATES = frozenset({"/v1/translate", "/translate"})
_ALWAYS_ANSWERED = frozenset({_ALIVE, "/readyz", "/metrics"})


class _NotRead(Exception):
    """The client does not take what it asked for."""


class Guard:
    """Reads a request's body under its limits, then runs the application until it answers or the client leaves."""

    def __init__(self, app: ASGIApp, service: Service, direct: Mapping[str, ASGIApp]) -> None:
        """`direct`: what a POST to a path goes to, without a router's detour."""
        self._app, self._service, self._settings = app, service, service.settings
        self._direct = direct
        self._held_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def watched_send(message: Message) -> None:
            nonlocal started
            if not started and self._service.draining:  # so that nobody asks again on this connection
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            started = True
            if message.get("more_body", False):
                await self._send_in_time(message, send)
            else:
                await send(message)

        try:
            await self._admit(scope, receive, watched_send)
        except Problem as problem:
            if not started:
                await problem_response(problem, scope)(scope, receive, watched_send)
        except _NotRead:
            pass  # the server hangs up on an answer that has no end
        except Exception as error:
            report(error)
            if started:  # the server logs what it gets, and the error may hold a client's text
                raise RuntimeError("the response broke off") from None
            await problem_response(Problem(500, "internal", "an error of ours"), scope)(scope, receive, send)

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._check_host(scope)
        self._check_key(scope)
        if scope["path"] in _ALWAYS_ANSWERED:
            await self._app(scope, receive, send)
            return
        if self._service.closed:
            raise leaving()
        if scope["path"] in _TRANSLATES:
            self._service.refuse_if_full()
        self._service.n_admitted += 1
        body = bytearray()
        try:
            await self._read(scope, receive, body)
            if scope["method"] == "POST":
                await self._run_while_there(scope, bytes(body), receive, send)
            else:
                await self._app(scope, _replay(bytes(body), receive), send)
        finally:
            self._held_bytes -= len(body)
            self._service.n_admitted -= 1

    def _check_host(self, scope: Scope) -> None:
        """Of a service for this machine alone: a stranger's page could give its own name this machine's address, and
        then read whatever we say to anybody without a key. Its requests still have that name."""
        if self._service.keys is not None or self._settings.host not in _LOCAL:
            return
        for host in (value.decode("latin-1") for name, value in scope["headers"] if name == b"host"):
            name = re.sub(r":\d*$", "", host).lower().strip("[]")
            if name not in _LOCAL and name not in {one.lower() for one in self._settings.names}:
                message = f"this service is for its own machine, and does not answer to {name[:100]!r}"
                raise Problem(421, "wrong_host", f"{message}; --name lets it")

    def _check_key(self, scope: Scope) -> None:
        """LibreTranslate's clients have the key in the body: its routes look for it there when it is not here."""
        keys, path = self._service.keys, scope["path"]
        if keys is None or path == _ALIVE or _is_page(path):
            return
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        scheme, _, key = (given[0] if given else b"").decode("latin-1").partition(" ")
        bearer = key.strip() if scheme.lower() == "bearer" else None
        if not bearer and path in LIBRETRANSLATE_PATHS:
            return
        keys.require(bearer)
        scope.setdefault("state", {})["has_key"] = True

    async def _read(self, scope: Scope, receive: Receive, body: bytearray) -> None:
        """The whole body; refused as soon as it is known to be too large: before any of it, if its length is told."""
        headers = dict(scope["headers"])
        told = headers.get(b"content-length")
        if told is None and b"transfer-encoding" not in headers:
            return
        self._make_room(0, int(told) if told is not None and told.isdigit() else 0)
        try:
            async with asyncio.timeout(self._settings.body_seconds):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Problem(400, "left", "the client left in the middle of its request")
                    part = message.get("body", b"")
                    self._make_room(len(body), len(part))
                    body += part
                    self._held_bytes += len(part)
                    more = message.get("more_body", False)
        except TimeoutError:
            raise Problem(408, "slow", f"the body took more than {self._settings.body_seconds:g} s") from None

    def _make_room(self, n_read: int, n_more: int) -> None:
        if n_read + n_more > self._settings.max_body:
            raise Problem(413, "too_large", f"a request may have {self._settings.max_body:,} bytes")
        if self._held_bytes + n_more > self._settings.max_bodies:
            raise too_busy(1.0)

    async def _send_in_time(self, message: Message, send: Send) -> None:
        """Who does not read what it asked for can not keep us holding it."""
        try:
            async with asyncio.timeout(self._settings.read_seconds):
                await send(message)
        except TimeoutError:
            raise _NotRead from None

    async def _run_while_there(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Cancel the work when the client leaves: what waits is dropped, what is being translated goes to nobody."""
        task = asyncio.current_task()
        assert task is not None
        left = answered = False

        async def watch() -> None:
            nonlocal left
            while (await receive())["type"] != "http.disconnect":
                pass
            if not answered:  # a server also says so once the response is out
                left = True
                task.cancel()

        async def send_and_note(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                answered = True
            await send(message)

        watcher = asyncio.create_task(watch())

        async def until_left() -> Message:
            await asyncio.wait([watcher])
            return {"type": "http.disconnect"}

        try:
            app = self._direct.get(scope["path"], self._app)
            await app(scope, _replay(body, until_left), send_and_note)
        except asyncio.CancelledError:
            if not left:
                raise
            task.uncancel()
        finally:
            watcher.cancel()


def _replay(body: bytes, then: Receive) -> Receive:
    """The body as one message, then what else there is to hear: that the client leaves."""
    given = False

    async def receive() -> Message:
        nonlocal given
        if given:
            return await then()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def _is_page(path: str) -> bool:
    """The page's own files: they hold no data, and have to be there to ask for a key."""
    return path == "/" or path.startswith("/static/")


def report(error: Exception) -> None:
    """Kind and place of an error of ours; its message may hold a client's text, so it is left out."""
    places = traceback.extract_tb(error.__traceback__)
    last = " < ".join(f"{place.name}:{place.lineno}" for place in reversed(places[-4:]))
    log.error("%s in %s", type(error).__name__, last)
