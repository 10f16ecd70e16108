"""Runs uvicorn: binds the socket early, keeps texts out of its logs, and stops gracefully."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from threading import current_thread, main_thread
from time import monotonic
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI

from regard.errors import UserError
from regard.serve.http.protocol import LimitedProtocol
from regard.serve.service import Service
from regard.serve.settings import Settings

log = logging.getLogger("regard.serve")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_POLL_SECONDS = 0.02
_QUIET_SECONDS = 0.1  # without a request, before a stopping service closes its socket
_MAX_QUIET_WAIT_SECONDS = 2.0
_SWITCH_SECONDS = 0.001  # so that a finished batch does not wait for the GIL while requests are parsed


def bind(settings: Settings) -> socket.socket:
    """Binds the address before anything is loaded; the socket does not listen yet."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        message = f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}"
        raise UserError(message, hint="try another --port") from error
    return bound


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def run(app: FastAPI, service: Service, bound: socket.socket, announce: Callable[[str], None]) -> bool:
    """Serves until it is stopped; `announce` gets the URL. Returns False if an engine thread did not end."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    create_server(app, service, lambda: announce(_url(bound))).run(sockets=[bound])
    log.info("stopped")
    return not service.has_stuck_thread


def create_server(app: FastAPI, service: Service, on_started: Callable[[], None]) -> Server:
    """uvicorn with the limits of the service."""

    class Protocol(LimitedProtocol):
        settings = service.settings

    # uvicorn logs whole exceptions, which may contain a client's text; Admission has logged their type already
    logging.getLogger("uvicorn.error").disabled = True
    config = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=1024,
        timeout_keep_alive=service.settings.idle_seconds,
        timeout_graceful_shutdown=2,
    )
    return Server(config, service, on_started)


def _url(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # all addresses: one that can be opened here
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _log_unhandled(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Only the type: the message of an unhandled error may contain a client's text."""
    log.error("unhandled %s in a background task", type(context.get("exception")).__name__)


class Server(uvicorn.Server):
    """uvicorn's server with a graceful stop: readiness fails first, then new requests do, then the process ends.

    tests/serve/test_uvicorn.py lists what this class uses of uvicorn.
    """

    def __init__(self, config: uvicorn.Config, service: Service, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._service, self._on_started = service, on_started
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sockets: list[socket.socket] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._sockets = sockets or []
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(_log_unhandled)
        await super().startup(sockets)
        log.info("started with %s", ", ".join(self._service.models))
        self._on_started()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn's, but does not raise the signal again at the end: a service that was stopped exits with 0."""
        if current_thread() is not main_thread():  # only the main thread can handle signals
            yield
            return
        original_handlers = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in original_handlers.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal starts a graceful stop, the second one stops immediately."""
        if self._service.draining or self._loop is None:
            self.should_exit = self.force_exit = True
            return
        self._service.draining = True
        asyncio.run_coroutine_threadsafe(self._drain(), self._loop)

    async def _drain(self) -> None:
        settings = self._service.settings
        log.info("stopping; requests in progress: %d", self._service.n_admitted)
        await asyncio.sleep(settings.notice_seconds)
        self._service.closed = True
        deadline = monotonic() + settings.grace_seconds
        while self._service.n_admitted and monotonic() < deadline:
            await asyncio.sleep(_POLL_SECONDS)
        await self._answer_the_last()
        self.should_exit = True

    async def _answer_the_last(self) -> None:
        """Requests that are already in a buffer of the system get their 503; closing the socket would reset them."""
        for listening in self._sockets:
            listening.listen(0)  # no new connections; those that wait to be accepted stay
        deadline = monotonic() + _MAX_QUIET_WAIT_SECONDS
        n_requests = -1
        while n_requests != self.server_state.total_requests and monotonic() < deadline:
            n_requests = self.server_state.total_requests
            await asyncio.sleep(_QUIET_SECONDS)
