"""The connections between rank 0 and the other ranks: batches and orders one way, failures and signals the other.

Gradients are summed by torch.distributed. These connections say which rank has died: the operating system closes them
when a process ends, and notices after half a minute when a machine or a cable is gone.
"""

from __future__ import annotations

import hmac
import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from time import sleep
from typing import Any, NamedTuple

from regard.errors import RunError

TOKEN_BYTES = 32
SECONDS_TO_CONNECT = 60.0
LOST_AFTER_SECONDS = 30  # without any answer of the other machine
SECONDS_TO_END = 3.0  # after another rank was lost, even if this one is inside a call of PyTorch that waits for it
_RESUME_HINT = "the same command resumes from the last checkpoint"


class Message(NamedTuple):
    """What one rank tells another: numbers and names, and tensors as bytes. Nothing is pickled."""

    kind: str
    fields: dict[str, Any]
    data: bytes = b""


class Link:
    """A connection to another rank; any thread may send."""

    def __init__(self, connection: Connection, name: str) -> None:
        self.connection, self.name = connection, name  # the name is for people
        self._lock = threading.Lock()

    def send(self, kind: str, data: bytes = b"", **fields: Any) -> None:
        """Raises OSError if the other rank has ended."""
        header = json.dumps({"kind": kind, "has_data": bool(data), "fields": fields}).encode()
        with self._lock:
            self.connection.send_bytes(header)
            if data:
                self.connection.send_bytes(data)

    def receive(self) -> Message:
        """Raises OSError or EOFError if the other rank has ended."""
        header = json.loads(self.connection.recv_bytes())
        data = self.connection.recv_bytes() if header["has_data"] else b""
        return Message(header["kind"], header["fields"], data)


def listen(host: str) -> socket.socket:
    """A socket on a free port of this address, or of all addresses if it is not one of this machine's."""
    family, _, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    try:
        return socket.create_server(address[:2], family=family)
    except OSError:
        return socket.create_server(("", 0))


def accept(server: socket.socket, token: bytes, n: int) -> dict[int, Link]:
    """The links to the other ranks, by rank. A stranger, who does not know the token, is not answered."""
    links: dict[int, Link] = {}
    server.settimeout(SECONDS_TO_CONNECT)
    while len(links) < n:
        try:
            connected, _ = server.accept()
        except TimeoutError as error:
            raise RunError(f"{n - len(links)} of {n} other processes did not connect") from error
        connected.settimeout(SECONDS_TO_CONNECT)  # a stranger may say nothing
        with suppress(OSError, ValueError, KeyError):
            if hmac.compare_digest(_read(connected, len(token)), token):
                connection = _connection(connected)
                hello = json.loads(connection.recv_bytes(10_000))
                links[int(hello["rank"])] = Link(connection, hello["name"])
                continue
        connected.close()
    return links


def connect(host: str, port: int, token: bytes, rank: int) -> Link:
    """The link to rank 0."""
    connected = socket.create_connection((host, port), timeout=SECONDS_TO_CONNECT)
    connected.sendall(token)
    link = Link(_connection(connected), "rank 0")
    link.connection.send_bytes(json.dumps({"rank": rank, "name": own_name(rank)}).encode())
    return link


def how_lost(name: str, error: Exception) -> str:
    """The operating system closes the connections of a process that ends; nobody does so for a cable that is cut."""
    has_ended = isinstance(error, EOFError | ConnectionError)
    return f"{name} has ended" if has_ended else f"{name} cannot be reached any more"


def own_name(rank: int) -> str:
    return f"rank {rank} (process {os.getpid()} on {socket.gethostname()})"


def _read(connected: socket.socket, n_bytes: int) -> bytes:
    data = b""
    while len(data) < n_bytes and (more := connected.recv(n_bytes - len(data))):
        data += more
    return data


def _connection(connected: socket.socket) -> Connection:
    """Blocking, and closed by the operating system when the other machine does not answer any more."""
    connected.settimeout(None)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    times = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": LOST_AFTER_SECONDS // 5 - 1,
             "TCP_USER_TIMEOUT": 1000 * LOST_AFTER_SECONDS}  # fmt: skip
    for name, value in times.items():
        if hasattr(socket, name):  # not all systems have all of them
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return Connection(connected.detach())


class Verdict:
    """Why the ranks cannot go on, once one of them is lost. This process then ends, with an error or at once."""

    def __init__(self, says_it: bool) -> None:
        self.says_it = says_it  # one process per machine prints the error
        self.error: RunError | None = None
        self._known = threading.Event()
        self._is_raised = False
        self._lock = threading.Lock()

    def set(self, message: str, hint: str | None = _RESUME_HINT) -> None:
        """Called by the thread that notices it; the first reason counts."""
        if self.error is None:
            self.error = RunError(message, hint=hint)
            self._known.set()
            threading.Thread(target=self._end, daemon=True, name="regard-end").start()

    @contextmanager
    def explains(self) -> Iterator[None]:
        """Inside the `with` block, an error because of a lost rank is raised as the RunError that names it."""
        try:
            yield
        except (OSError, RuntimeError) as error:
            self._known.wait(LOST_AFTER_SECONDS + SECONDS_TO_END)
            self._is_raised = True
            if self.error is None:
                reason = " ".join(str(error).split())[:200]
                raise RunError(f"the connection between the processes failed: {reason}", hint=_RESUME_HINT) from error
            raise self.error from error

    def say(self) -> None:
        """Prints the error, if there is one and nobody else on this machine does; once."""
        with self._lock:
            if self.error is not None and self.says_it:
                sys.stderr.write(f"error: {self.error}\n")
                sys.stderr.flush()
            self.says_it = False

    def _end(self) -> None:
        sleep(SECONDS_TO_END)
        if self._is_raised:
            sleep(SECONDS_TO_END)  # it is about to end anyway
        else:
            self.say()
        os._exit(2)  # saving is atomic, and what waits in PyTorch for another rank cannot be interrupted
