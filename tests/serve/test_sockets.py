"""Behaviour on real connections: slow, large and disconnecting clients, and shutdown."""

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn

from regard.serve.http.server import Server
from regard.serve.settings import Settings

from .fakes import TIMEOUT_SECONDS, RunningServer, UppercaseTranslator, raw_request, read_response, served, wait_until

HELD_SERVICE = Path(__file__).parent / "held_service.py"
GOLDEN = Path(__file__).parents[1] / "golden" / "model"
HEADERS = b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
LIVEZ = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with RunningServer(max_header=8_192) as running:
        yield running


def test_slow_requests_get_408_while_other_requests_are_served() -> None:
    with (
        RunningServer(header_seconds=2.0, body_seconds=2.0) as server,
        server.connect() as idle,
        server.connect() as slow_headers,
        server.connect() as slow_second_headers,
        server.connect() as slow_body,
        server.connect() as silent,
    ):
        for connection in (idle, slow_second_headers):
            connection.sendall(LIVEZ)
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200")
        slow_headers.sendall(b"POST /v1/tr")
        slow_second_headers.sendall(b"GET /li")
        slow_body.sendall(HEADERS + b"Content-Length: 100\r\nConnection: close\r\n\r\n{")
        assert server.post()[0] == 200
        send_until_answered(slow_headers)  # sending more must not restart the timeout
        for connection in (slow_headers, slow_second_headers, slow_body):
            status, body = read_response(connection)
            assert (status, body["error"]["code"]) == (408, "slow")
        assert silent.recv(1) == b""  # closed without a response
        idle.sendall(LIVEZ)  # idle for longer than header_seconds, which is allowed between requests
        assert idle.recv(65_536).startswith(b"HTTP/1.1 200")


def send_until_answered(connection: socket.socket) -> None:
    for _ in range(1_000):
        if select.select([connection], [], [], 0.1)[0]:
            return
        connection.sendall(b"a")
    raise AssertionError("no response")


def test_rest_of_a_refused_body_does_not_close_the_connection(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.serve.http.protocol._LINGER_SECONDS", TIMEOUT_SECONDS)
    monkeypatch.setattr("regard.serve.http.protocol._LINGER_BYTES", 2_500_000)  # per body, not per connection
    size = 1_200_000
    with server.connect() as connection:
        for _ in range(3):
            connection.sendall(HEADERS + f"Content-Length: {size}\r\n\r\n".encode())
            assert connection.recv(65_536).startswith(b"HTTP/1.1 413")
            connection.sendall(b"a" * size)
        address = connection.getsockname()
        [protocol] = [open_ for open_ in list(server.server.server_state.connections) if open_.client == address]  # type: ignore[union-attr]
        wait_until(lambda: protocol._linger_timer is None)  # type: ignore[union-attr]
        connection.sendall(LIVEZ)
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200")


def test_large_body_gets_413_before_it_is_read_and_more_data_is_refused(server: RunningServer) -> None:
    with server.connect() as connection:
        connection.sendall(HEADERS + b"Content-Length: 1073741824\r\n\r\n" + b"a" * 1_000)
        assert connection.recv(65_536).startswith(b"HTTP/1.1 413")
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            for _ in range(1_000):
                connection.sendall(b"a" * 65_536)


def test_large_chunked_body_gets_413_once_it_exceeds_the_limit(server: RunningServer) -> None:
    with server.connect() as connection:
        connection.sendall(HEADERS + b"Transfer-Encoding: chunked\r\n\r\n")
        connection.sendall((b"10000\r\n" + b"a" * 65_536 + b"\r\n") * 32)
        assert connection.recv(65_536).startswith(b"HTTP/1.1 413")


def test_large_headers_get_431(server: RunningServer) -> None:
    with server.connect() as connection:
        connection.sendall(HEADERS + b"X-Long: " + b"a" * 40_000)
        assert read_response(connection)[0] == 431


@pytest.mark.parametrize("size", [9_000, 60_000, 98_000])
@pytest.mark.parametrize(
    "head",
    [
        lambda size: LIVEZ[:-2] + b"X-Long: " + b"a" * size + b"\r\n\r\n",
        lambda size: b"GET /livez?" + b"a" * size + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        lambda size: LIVEZ[:-2] + b"".join(b"X%d: a\r\n" % number for number in range(size // 8)) + b"\r\n",
    ],
    ids=["one header", "path", "many headers"],
)
def test_large_headers_that_arrive_complete_get_431_too(
    server: RunningServer, head: Callable[[int], bytes], size: int
) -> None:
    with server.connect() as connection:
        connection.sendall(head(size))
        assert read_response(connection)[0] == 431
    with server.connect() as connection:
        connection.sendall(head(6_000))
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200")


CHUNKED = b'd\r\n{"text": "a"}\r\n0\r\n\r\n'


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        (b"Content-Length: 23\r\nTransfer-Encoding: chunked", CHUNKED, 400),
        (b"Transfer-Encoding: chunked\r\nContent-Length: 0", CHUNKED, 400),
        (b"Content-Length: 13\r\nContent-Length: 5", b'{"text": "a"}', 400),
        (b"Content-Length: +13", b'{"text": "a"}', 400),
        (b"Transfer-Encoding : chunked", CHUNKED, 400),
        (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", CHUNKED, 501),
        (b"Transfer-Encoding: chunked", b"-1\r\n" + CHUNKED, 400),
        (b"Transfer-Encoding: chunked", b"5\r\n" + CHUNKED[3:], 400),
        (b"Transfer-Encoding: chunked", CHUNKED[:-2] + b"X: " + b"a" * 20_000 + b"\r\n\r\n", 431),
    ],
)
def test_requests_that_two_servers_could_read_differently_are_refused_and_the_connection_is_closed(
    server: RunningServer, headers: bytes, body: bytes, status: int
) -> None:
    with server.connect() as connection:
        connection.sendall(HEADERS + headers + b"\r\n\r\n" + body)
        assert read_response(connection)[0] == status


def test_data_that_is_not_http_gets_400(server: RunningServer) -> None:
    with server.connect() as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n")
        assert read_response(connection)[0] == 400


def test_texts_of_disconnected_clients_are_removed_from_the_queue() -> None:
    translator = UppercaseTranslator()
    translator.released.clear()
    with RunningServer(served(translator)) as server:
        first = threading.Thread(target=server.post, args=("first",))
        first.start()
        assert translator.started.wait(TIMEOUT_SECONDS)
        [batcher] = server.service.batchers.values()
        connections = [server.connect() for _ in range(30)]
        for number, connection in enumerate(connections):
            connection.sendall(raw_request("/v1/translate", {"text": f"disconnected {number}"}))
        wait_until(lambda: batcher.n_waiting == 30)
        for connection in connections:
            connection.close()
        wait_until(lambda: batcher.n_waiting == 0)
        translator.released.set()
        first.join(TIMEOUT_SECONDS)
        assert server.post("after")[1]["translations"][0]["text"] == "AFTER"
    assert translator.texts == ["first", "after"]


def test_stream_stops_when_its_client_disconnects() -> None:
    translator = UppercaseTranslator(seconds=0.02)
    n_sentences = 5_000
    with RunningServer(served(translator), max_streamed=2, max_body=10_000_000) as server:
        with server.connect() as connection:
            text = " ".join(f"Number {i}." for i in range(n_sentences))
            connection.sendall(raw_request("/v1/translate?stream=1", {"text": text}))
            received = b""
            while b"event: sentence" not in received:
                received += connection.recv(65_536)
        [batcher] = server.service.batchers.values()
        wait_until(lambda: server.service.n_admitted == 0 and batcher.n_waiting == 0)
        assert len(translator.texts) < n_sentences


def test_client_that_does_not_read_a_long_response_is_disconnected() -> None:
    looked = threading.Event()
    text = SimpleNamespace(ids=())
    target = SimpleNamespace(outputs=text)
    rows = {"rows": ["a" * 200_000] * 100}
    look = SimpleNamespace(source=text, target=target, to_dict=lambda arrays: rows)

    def run_look(*_: object, **__: object) -> Any:
        looked.set()
        return look

    lens = SimpleNamespace(look=run_look, count_numbers=lambda n_source, n_target: 0)
    with RunningServer(load=lambda _: lens, read_seconds=2.0) as server, server.connect() as not_reading:
        not_reading.sendall(raw_request("/v1/look", {"text": "a"}))
        assert looked.wait(TIMEOUT_SECONDS)
        wait_until(lambda: server.service.n_admitted == 0)
        assert server.post()[0] == 200
        with server.connect() as reading:
            reading.sendall(raw_request("/v1/look", {"text": "a"}))
            status, body = read_response(reading)
        assert status == 200 and len(body["rows"]) == 100


def test_error_during_a_response_is_logged_without_its_message(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a secret sentence")

    monkeypatch.setattr("regard.serve.api.streaming.translation_record", fail)
    with RunningServer() as server, server.connect() as connection:
        connection.sendall(raw_request("/v1/translate?stream=1", {"text": "a secret sentence"}))
        while connection.recv(65_536):
            pass
    output = caplog.text + "".join(capfd.readouterr())
    assert "ValueError" in output and "secret" not in output


def test_sigterm_fails_readiness_then_refuses_requests_finishes_admitted_ones_and_exits_with_0() -> None:
    process = subprocess.Popen(
        [sys.executable, str(HELD_SERVICE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert process.stdin is not None and process.stdout is not None
    stdin, stdout = process.stdin, process.stdout
    try:
        port = int(stdout.readline())

        def send(path: str = "/v1/translate", method: str = "POST") -> int:
            with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS) as connection:
                connection.sendall(raw_request(path, {"text": "a"}, method))
                return read_response(connection)[0]

        def n_admitted() -> int:
            stdin.write("admitted\n")
            return int(stdout.readline())

        with ThreadPoolExecutor(40) as pool:
            admitted = [pool.submit(send) for _ in range(30)]
            wait_until(lambda: n_admitted() == 30)
            os.kill(process.pid, signal.SIGTERM)
            wait_until(lambda: send("/readyz", "GET") == 503)
            assert send("/livez", "GET") == 200
            wait_until(lambda: send("/v1/models", "GET") == 503)
            assert [send() for _ in range(5)] == [503] * 5
            stdin.write("release\n")
            assert [future.result() for future in admitted] == [200] * 30
        assert process.wait(TIMEOUT_SECONDS) == 0
    finally:
        process.kill()
        process.wait()
        stdin.close()
        stdout.close()


def test_requests_that_wait_in_a_buffer_of_the_system_when_the_service_stops_get_their_response() -> None:
    with RunningServer(notice_seconds=0.0) as server:
        loop, sent = server.server._loop, threading.Event()
        assert loop is not None

        def stop_while_the_loop_is_busy() -> None:
            server.service.draining = True
            loop.create_task(server.server._drain())
            loop.call_soon(stall)

        def stall() -> None:  # as on a machine under heavy load: the loop reads nothing for longer than uvicorn's tick
            assert sent.wait(TIMEOUT_SECONDS)
            sleep(0.2)

        open_connections = [server.connect() for _ in range(30)]
        wait_until(lambda: len(server.server.server_state.connections) == 30)
        loop.call_soon_threadsafe(stop_while_the_loop_is_busy)
        new_connections = [server.connect() for _ in range(30)]
        for connection in (*open_connections, *new_connections):
            connection.sendall(raw_request("/v1/translate", {"text": "a"}))
        sent.set()
        for connection in (*open_connections, *new_connections):
            with connection:
                assert read_response(connection)[0] in (200, 503)  # whichever came first, but never a reset


def test_a_stopping_service_takes_no_new_connections_and_ends_when_requests_stop_coming(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service = SimpleNamespace(settings=Settings(notice_seconds=0.5), n_admitted=0, closed=False)
    server = Server(uvicorn.Config("app"), service, lambda: None)  # type: ignore[arg-type]
    backlogs: list[int] = []
    server._sockets = [SimpleNamespace(listen=backlogs.append)]  # type: ignore[list-item]
    arrivals, waits = iter([2, 1, 3, 1]), list[float]()

    async def sleep(seconds: float) -> None:
        assert not server.should_exit
        waits.append(seconds)
        server.server_state.total_requests += next(arrivals, 0)

    replaced = SimpleNamespace(**(vars(asyncio) | {"sleep": sleep}))  # other servers of this process go on sleeping
    monkeypatch.setattr("regard.serve.http.server.asyncio", replaced)
    asyncio.run(server._drain())
    assert server.should_exit and service.closed and backlogs == [0]
    assert next(arrivals, None) is None and len(waits) == 1 + 3 + 1  # notice, while they come, and once without any


def test_serve_command_prints_its_url_and_exits_with_0_on_sigterm() -> None:
    command = [sys.executable, "-c", "from regard.cli.app import app; app()", "serve", str(GOLDEN), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline().startswith("golden: http://127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=TIMEOUT_SECONDS)
        assert (process.returncode, output) == (0, "")
        lines = [line.split(" ", 2)[2] for line in errors.splitlines()]
        assert lines == ["started with golden", "stopping; requests in progress: 0", "stopped"]
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(("options", "warns"), [((), True), (("--keys", "KEYS"), False)])
def test_serve_command_warns_when_others_can_use_it_and_prints_an_address_that_opens(
    tmp_path: Path, options: tuple[str, ...], warns: bool
) -> None:
    keys = tmp_path / "keys"
    keys.write_text("a-key-of-some-length\n")
    options = tuple(str(keys) if option == "KEYS" else option for option in options)
    arguments = ["serve", str(GOLDEN), "--port", "0", "--host", "0.0.0.0", "--log-format", "json", *options]
    command = [sys.executable, "-c", "from regard.cli.app import app; app()", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline().startswith("golden: http://127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=TIMEOUT_SECONDS)
        messages = [json.loads(line)["message"] for line in errors.splitlines()]
        assert any("--keys FILE" in message for message in messages) == warns
    finally:
        process.kill()
        process.wait()
