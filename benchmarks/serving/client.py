"""A minimal HTTP/1.1 client: it shares the cores with the service, so it must be cheap."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from dataclasses import dataclass
from typing import Any

Headers = dict[str, str]


@dataclass(frozen=True)
class Response:
    status: int
    headers: Headers
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class ConnectionClosed(Exception):
    """The connection was closed before the response was complete."""


class Connection(asyncio.Protocol):
    """Sends one request at a time."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._future: asyncio.Future[Response] | None = None
        self._transport: asyncio.Transport | None = None
        self.open = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        if end < 0 or self._future is None:
            return
        lines = self._received[:end].decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:])}
        size = int(headers.get("content-length", "0"))
        if len(self._received) - end - 4 >= size:
            response = Response(int(lines[0].split()[1]), headers, bytes(self._received[end + 4 : end + 4 + size]))
            self._received.clear()
            self.open = self.open and headers.get("connection") != "close"
            future, self._future = self._future, None
            if not future.done():
                future.set_result(response)

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        if self._future is not None and not self._future.done():
            self._future.set_exception(ConnectionClosed())

    def send(self, raw: bytes) -> asyncio.Future[Response]:
        assert self._transport is not None
        self._future = asyncio.get_running_loop().create_future()
        self._transport.write(raw)
        return self._future

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class Client:
    """A pool of connections that grows as needed."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._idle: deque[Connection] = deque()

    async def connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(Connection, "127.0.0.1", self.port)
        return connection

    async def send(self, raw: bytes) -> Response:
        while self._idle and not self._idle[-1].open:
            self._idle.pop()
        connection = self._idle.pop() if self._idle else await self.connect()
        response = await connection.send(raw)
        if connection.open:
            self._idle.append(connection)
        return response

    async def get(self, path: str, headers: str = "") -> Response:
        return await self.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode())

    async def metric(self, name: str) -> float:
        lines = (await self.get("/metrics")).body.decode().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()


def translate_request(texts: list[str], headers: str = "") -> bytes:
    body = json.dumps({"text": texts}).encode()
    head = (
        "POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"{headers}Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
