"""uvicorn's HTTP/1.1, with patience that ends: slow heads get 408, large ones 431, and silence is hung up on."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from regard.serve.http.one_write import OneWrite
from regard.serve.settings import Settings

_LINGER_SECONDS = 2.0  # after a refusal: so long the rest of a body is read and thrown away,
_LINGER_BYTES = 4_194_304  # and so much of it, so that the client gets to see the refusal
_CODES = {400: "not_http", 408: "slow", 431: "head_too_large", 501: "not_supported"}


class PatientProtocol(H11Protocol):
    """One connection. A subclass names the settings: uvicorn makes an instance for each connection by itself."""

    settings: Settings

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_timer: asyncio.TimerHandle | None = None
        self._linger_timer: asyncio.TimerHandle | None = None
        self._n_thrown_away = 0
        self._n_received = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(OneWrite(transport, self.loop))  # type: ignore[arg-type]
        if len(self.connections) > self.settings.max_connections:
            transport.abort()
            return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timers()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._n_received += len(data)
        if self._linger_timer is not None:
            self._n_thrown_away += len(data)
            if self._n_thrown_away > _LINGER_BYTES:
                self.transport.abort()
                return
        super().data_received(data)

    def handle_events(self) -> None:
        super().handle_events()
        if self.transport.is_closing():
            return
        if self.conn.their_state is not h11.SEND_BODY:
            self._stop_lingering()
        if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:  # some bytes of a head, and not its end
            self._await_head()
            return
        self._stop_head_timer()
        if self.conn.their_state is h11.IDLE and self.timeout_keep_alive_task is None:  # the rest of a refused body
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def send_400_response(self, msg: str) -> None:
        """uvicorn calls this for every head or body that is not HTTP; h11 knows better what is wrong."""
        error = sys.exc_info()[1]
        self._refuse(getattr(error, "error_status_hint", 400), msg)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY and not self.transport.is_closing():
            self._stop_lingering()
            self._linger_timer = self.loop.call_later(_LINGER_SECONDS, self.transport.abort)

    def timeout_keep_alive_handler(self) -> None:
        """A client that does not even read what it asked for would keep the connection for ever."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            super().timeout_keep_alive_handler()

    def _await_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.settings.header_seconds, self._head_is_late)

    def _head_is_late(self) -> None:
        self._head_timer = None
        if not self._n_received:  # opened, and never used: browsers do that
            self.transport.close()
        elif not self.transport.is_closing():
            self._refuse(408, f"the head of the request took more than {self.settings.header_seconds:g} s")

    def _refuse(self, status: int, message: str) -> None:
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()
            return
        error = {"code": _CODES.get(status, "not_http"), "message": message, "request_id": ""}
        body = json.dumps({"error": error}).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        events = [
            h11.Response(status_code=status, headers=headers, reason=STATUS_PHRASES[status]),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ]
        self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
        self.transport.close()

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_lingering(self) -> None:
        self._n_thrown_away = 0
        if self._linger_timer is not None:
            self._linger_timer.cancel()
            self._linger_timer = None

    def _stop_timers(self) -> None:
        self._stop_head_timer()
        self._stop_lingering()
