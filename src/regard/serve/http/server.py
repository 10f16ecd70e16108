"""uvicorn, run from here: bound early, silent about what it is told, and leaving only when everyone is served."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from time import monotonic
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI

from regard.errors import UserError
from regard.serve.http.protocol import PatientProtocol
from regard.serve.service import Service
from regard.serve.settings import Settings

log = logging.getLogger("regard.serve")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LOOK_EVERY_SECONDS = 0.02
_SWITCH_SECONDS = 0.001  # a batch that is done should not wait for Python's lock while others' requests are read


def bind(settings: Settings) -> socket.socket:
    """Take the address before anything is loaded; nobody is listened to yet."""
    try:
        family, kind, number, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        taken = socket.socket(family, kind, number)
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
    except OSError as error:
        where = f"{settings.host}:{settings.port}"
        raise UserError(f"can not listen on {where}: {error.strerror or error}", hint="try another --port") from error
    return taken


def url_of(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run(app: FastAPI, service: Service, bound: socket.socket, announce: Callable[[str], None]) -> bool:
    """Serve until told to stop. False when something was left behind: an engine thread that does not come back."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    server_of(app, service, lambda: announce(url_of(bound))).run(sockets=[bound])
    return not service.left_behind


def server_of(app: FastAPI, service: Service, announce: Callable[[], None]) -> Server:
    """uvicorn with the limits of the service."""

    class Protocol(PatientProtocol):
        settings = service.settings

    _keep_texts_out_of_logs()
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
        h11_max_incomplete_event_size=service.settings.max_header,
    )
    return Server(config, service, announce)


def _keep_texts_out_of_logs() -> None:
    """uvicorn writes down whole errors, which may hold what a client sent; Guard has reported what they were."""
    theirs = logging.getLogger("uvicorn.error")
    theirs.propagate = False
    if not theirs.handlers:
        theirs.addHandler(logging.NullHandler())


def _report_kind(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Of an error that nobody waited for, its kind alone."""
    log.error("%s that nobody waited for", type(context.get("exception")).__name__)


class Server(uvicorn.Server):
    """Asked to stop, it first says so, then takes nothing new, then waits for what it has taken, then goes."""

    def __init__(self, config: uvicorn.Config, service: Service, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._service, self._announce = service, announce
        self._draining: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(_report_kind)
        await super().startup(sockets)
        self._announce()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn's, but a signal that was heard is not raised again: a service that was stopped did well."""
        if current_thread() is not main_thread():  # signals are not ours to hear
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Once: leave in good order. Twice: leave."""
        if self._service.draining or self._loop is None:
            self.should_exit = self.force_exit = True
            return
        self._service.draining = True
        self._loop.call_soon_threadsafe(self._begin_to_drain)

    def _begin_to_drain(self) -> None:
        self._draining = asyncio.create_task(self._drain())

    async def _drain(self) -> None:
        settings = self._service.settings
        await asyncio.sleep(settings.notice_seconds)
        self._service.closed = True
        until = monotonic() + settings.grace_seconds
        while self._service.n_admitted and monotonic() < until:
            await asyncio.sleep(_LOOK_EVERY_SECONDS)
        self.should_exit = True
