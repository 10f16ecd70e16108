"""uvicorn's HTTP/1.1 protocol with timeouts and limits: slow headers get 408, large ones 431."""

from __future__ import annotations

import asyncio
import json
import sys
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.serve.settings import Settings

# after an early error response, the rest of the body is read and discarded up to these limits: a client that is still
# sending when the connection closes would not see the response
_LINGER_SECONDS = 2.0
_LINGER_BYTES = 4_194_304
_LARGE_WRITE = 65_536  # bytes; copying that much costs more than a system call
_CLOSE_SECONDS = 60.0  # after close(): how long a client may take to read what is still buffered
_CODES = {400: "not_http", 408: "slow", 431: "head_too_large", 501: "not_supported"}


class LimitedProtocol(H11Protocol):
    """One connection. uvicorn creates an instance per connection, so a subclass has to set `settings`.

    tests/serve/test_uvicorn.py lists what this class uses of uvicorn.
    """

    settings: Settings

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn = _StrictConnection(self.settings.max_header)
        self._header_timer: asyncio.TimerHandle | None = None
        self._linger_timer: asyncio.TimerHandle | None = None
        self._n_discarded = 0
        self._n_received = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(_BufferedTransport(transport, self.loop))  # type: ignore[arg-type]
        if len(self.connections) > self.settings.max_connections:
            transport.abort()
            return
        self._start_header_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_header_timer()
        self._stop_lingering()
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
            self.timeout_keep_alive_task = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._n_received += len(data)
        if self._linger_timer is not None:
            self._n_discarded += len(data)
            if self._n_discarded > _LINGER_BYTES:
                self.transport.abort()
                return
        super().data_received(data)

    def handle_events(self) -> None:
        super().handle_events()
        if self.transport.is_closing():
            return
        if self.conn.their_state is not h11.SEND_BODY:
            self._stop_lingering()
        if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:  # incomplete headers
            self._start_header_timer()
            return
        self._stop_header_timer()
        # idle after the rest of a refused body
        if self.conn.their_state is h11.IDLE and self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def send_400_response(self, msg: str) -> None:
        """uvicorn calls this for every request that is not valid HTTP; h11's error has a more precise status."""
        error = sys.exc_info()[1]
        self._send_error(getattr(error, "error_status_hint", 400), msg)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY and not self.transport.is_closing():
            self._stop_lingering()
            self._linger_timer = self.loop.call_later(_LINGER_SECONDS, self.transport.abort)

    def timeout_keep_alive_handler(self) -> None:
        """Aborts if the client has not read its response: a graceful close would wait for it forever."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            super().timeout_keep_alive_handler()

    def _start_header_timer(self) -> None:
        if self._header_timer is None:
            self._header_timer = self.loop.call_later(self.settings.header_seconds, self._on_header_timeout)

    def _on_header_timeout(self) -> None:
        self._header_timer = None
        if not self._n_received:  # browsers open connections that they never use
            self.transport.close()
        elif not self.transport.is_closing():
            self._send_error(408, f"the request headers took more than {self.settings.header_seconds:g} s")

    def _send_error(self, status: int, message: str) -> None:
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
            h11.Response(status_code=status, headers=headers, reason=HTTPStatus(status).phrase.encode()),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ]
        self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
        self.transport.close()

    def _stop_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _stop_lingering(self) -> None:
        self._n_discarded = 0
        if self._linger_timer is not None:
            self._linger_timer.cancel()
            self._linger_timer = None


class _StrictConnection(h11.Connection):
    """Also limits headers that arrive complete: h11 limits only what it has to keep while it waits for the rest.

    A request with both Content-Length and Transfer-Encoding is refused: a proxy in front may believe the other one.
    """

    def __init__(self, max_header: int) -> None:
        super().__init__(h11.SERVER, max_header)
        self._max_header = max_header

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request | h11.EndOfMessage):
            n_bytes = sum(len(name) + len(value) + 4 for name, value in event.headers)
            n_bytes += len(event.target) if isinstance(event, h11.Request) else 0
            if n_bytes > self._max_header:
                raise h11.RemoteProtocolError("the headers are too large", error_status_hint=431)
            if {b"content-length", b"transfer-encoding"} <= {name for name, _ in event.headers}:
                raise h11.RemoteProtocolError("a request may have Content-Length or Transfer-Encoding, not both")
        return event


class _BufferedTransport:
    """Joins what is written in one iteration of the event loop: headers and body go out in one system call.

    Everything except writing is passed to the real transport.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not data:
            return
        if len(data) >= _LARGE_WRITE:
            self._flush()
            self._transport.write(data)
            return
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()
        if self._transport.get_write_buffer_size():  # close() would wait forever for a client that does not read
            self._loop.call_later(_CLOSE_SECONDS, self._transport.abort)

    def _flush(self) -> None:
        if self._parts:
            data = b"".join(self._parts)
            self._parts.clear()
            if not self._transport.is_closing():
                self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
