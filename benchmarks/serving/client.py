"""HTTP/1.1 with as little work as possible: the load must not come out of the service's own cores."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from dataclasses import dataclass
from typing import Any

Headers = dict[str, str]


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Headers
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Lost(Exception):
    """The connection ended without an answer."""


class Connection(asyncio.Protocol):
    """One request at a time."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._answer: asyncio.Future[Answer] | None = None
        self._transport: asyncio.Transport | None = None
        self.open = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        if end < 0 or self._answer is None:
            return
        lines = self._received[:end].decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:])}
        size = int(headers.get("content-length", "0"))
        if len(self._received) - end - 4 >= size:
            answer = Answer(int(lines[0].split()[1]), headers, bytes(self._received[end + 4 : end + 4 + size]))
            self._received.clear()
            self.open = self.open and headers.get("connection") != "close"
            waiting, self._answer = self._answer, None
            if not waiting.done():
                waiting.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(Lost())

    def send(self, raw: bytes) -> asyncio.Future[Answer]:
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(raw)
        return self._answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class Client:
    """As many connections as are needed at a time, used again and again."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._idle: deque[Connection] = deque()

    async def connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(Connection, "127.0.0.1", self.port)
        return connection

    async def ask(self, raw: bytes) -> Answer:
        while self._idle and not self._idle[-1].open:
            self._idle.pop()
        connection = self._idle.pop() if self._idle else await self.connect()
        answer = await connection.send(raw)
        if connection.open:
            self._idle.append(connection)
        return answer

    async def get(self, path: str, headers: str = "") -> Answer:
        return await self.ask(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode())

    async def metric(self, name: str) -> float:
        lines = (await self.get("/metrics")).body.decode().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()


def translate_request(texts: list[str], headers: str = "", **more: Any) -> bytes:
    body = json.dumps({"text": texts, **more}).encode()
    head = (
        "POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"{headers}Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
