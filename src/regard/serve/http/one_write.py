"""A transport that sends what is written in one turn of the event loop at once: head and body in one system call."""

from __future__ import annotations

import asyncio
from typing import Any

_LARGE = 65_536  # bytes: copying them would cost more than a system call
_LEAVE_SECONDS = 60.0  # for a client to read what is left, once the connection is closed


class OneWrite:
    """Stands before the real transport; everything but writing goes straight through."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not data:
            return
        if len(data) >= _LARGE:
            self._flush()
            self._transport.write(data)
            return
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()
        if self._transport.get_write_buffer_size():  # else one that does not read would be waited for without end
            self._loop.call_later(_LEAVE_SECONDS, self._transport.abort)

    def _flush(self) -> None:
        if self._parts:
            data = b"".join(self._parts)
            self._parts.clear()
            if not self._transport.is_closing():
                self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
