"""What only shows on a real connection: the slow, the huge, those who leave, and the end."""

import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import pytest

from .fakes import Listening, Shout, answer, request, served

SLOW_SERVICE = Path(__file__).parent / "slow_service.py"
GOLDEN = Path(__file__).parents[1] / "golden" / "model"
HEAD = b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def server() -> Any:
    with Listening(header_seconds=0.4, body_seconds=0.5, max_header=8_192) as listening:
        yield listening


def test_a_head_that_comes_slowly_gets_408_and_others_are_served(server: Listening) -> None:
    with server.connect() as slow:
        slow.sendall(b"POST /v1/tr")
        for _ in range(3):
            assert server.ask()[0] == 200
            sleep(0.05)
            slow.sendall(b"a")
        status, body = answer(slow)
    assert (status, body["error"]["code"]) == (408, "slow")


def test_a_second_head_that_comes_slowly_gets_408_too(server: Listening) -> None:
    with server.connect() as slow:
        slow.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert slow.recv(65_536).startswith(b"HTTP/1.1 200")
        slow.sendall(b"GET /li")
        assert answer(slow)[0] == 408


def test_a_connection_may_idle_longer_than_a_head_may_take(server: Listening) -> None:
    with server.connect() as idle:
        for _ in range(2):
            idle.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert idle.recv(65_536).startswith(b"HTTP/1.1 200")
            idle.settimeout(0.8)
            with pytest.raises(TimeoutError):
                idle.recv(1)
            idle.settimeout(10)


def test_what_is_left_of_a_refused_body_does_not_end_the_next_request(
    server: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.serve.http.protocol._LINGER_SECONDS", 0.3)
    monkeypatch.setattr("regard.serve.http.protocol._LINGER_BYTES", 2_500_000)
    size = 1_200_000
    with server.connect() as connection:
        for _ in range(3):
            connection.sendall(HEAD + f"Content-Length: {size}\r\n\r\n".encode())
            assert connection.recv(65_536).startswith(b"HTTP/1.1 413")
            connection.sendall(b"a" * size)
        sleep(0.5)
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200")


def test_a_body_that_comes_slowly_gets_408(server: Listening) -> None:
    with server.connect() as slow:
        slow.sendall(HEAD + b"Content-Length: 100\r\nConnection: close\r\n\r\n{")
        assert server.ask()[0] == 200
        assert answer(slow)[0] == 408


def test_a_connection_that_says_nothing_is_closed_without_a_word(server: Listening) -> None:
    with server.connect() as silent:
        assert silent.recv(1) == b""


def test_a_huge_body_gets_413_without_being_read(server: Listening) -> None:
    with server.connect() as huge:
        huge.sendall(HEAD + b"Content-Length: 1073741824\r\n\r\n" + b"a" * 1_000)
        assert huge.recv(65_536).startswith(b"HTTP/1.1 413")
        huge.settimeout(5)
        with pytest.raises(OSError):  # and who goes on sending is hung up on
            for _ in range(1_000):
                huge.sendall(b"a" * 65_536)


def test_a_huge_body_of_untold_length_gets_413_as_soon_as_it_is_huge(server: Listening) -> None:
    with server.connect() as huge:
        huge.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        huge.sendall((b"10000\r\n" + b"a" * 65_536 + b"\r\n") * 32)
        assert huge.recv(65_536).startswith(b"HTTP/1.1 413")


def test_a_huge_head_gets_431(server: Listening) -> None:
    with server.connect() as huge:
        huge.sendall(HEAD + b"X-Long: " + b"a" * 40_000)
        assert answer(huge)[0] == 431


def test_what_is_no_http_gets_400(server: Listening) -> None:
    with server.connect() as odd:
        odd.sendall(b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n")
        assert answer(odd)[0] == 400


def test_who_leaves_is_noticed_and_its_work_is_dropped() -> None:
    shout = Shout()
    shout.free.clear()
    with Listening(served(shout)) as server:
        first = threading.Thread(target=server.ask, args=("first",))
        first.start()
        assert shout.begun.wait(10)
        [batcher] = server.service.batchers
        leavers = [server.connect() for _ in range(30)]
        for number, leaver in enumerate(leavers):
            leaver.sendall(request("/v1/translate", {"text": f"leaver {number}"}))
        until(lambda: batcher.n_waiting == 30)
        for leaver in leavers:
            leaver.close()
        until(lambda: batcher.n_waiting == 0)
        shout.free.set()
        first.join(10)
        assert server.ask("after")[1]["translations"][0]["text"] == "AFTER"
    assert shout.seen == ["first", "after"]


def test_who_leaves_a_stream_is_noticed() -> None:
    shout = Shout(0.02)
    with Listening(served(shout), max_streamed=2) as server:
        with server.connect() as leaver:
            text = " ".join(f"Number {i}." for i in range(1_000))
            leaver.sendall(request("/v1/translate?stream=1", {"text": text}))
            leaver.recv(10)
        [batcher] = server.service.batchers
        until(lambda: server.service.n_admitted == 0 and batcher.n_waiting == 0)
        assert len(shout.seen) < 500


def test_who_does_not_read_a_long_answer_is_hung_up_on() -> None:
    look = SimpleNamespace(to_dict=lambda arrays: {"rows": ["a" * 200_000] * 100})
    glass = SimpleNamespace(look=lambda *_, **__: look)
    with Listening(load=lambda _: glass, read_seconds=1.0) as server, server.connect() as deaf:
        deaf.sendall(request("/v1/look", {"text": "a"}))
        until(lambda: server.service.n_admitted == 1)
        until(lambda: server.service.n_admitted == 0)
        assert server.ask()[0] == 200
        with server.connect() as hears:
            hears.sendall(request("/v1/look", {"text": "a"}))
            status, told = answer(hears)
        assert status == 200 and len(told["rows"]) == 100


def test_an_error_in_the_middle_of_an_answer_is_not_told_to_the_log(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("a secret sentence")

    monkeypatch.setattr("regard.serve.api.streaming.translation_record", broken)
    with Listening() as server, server.connect() as connection:
        connection.sendall(request("/v1/translate?stream=1", {"text": "a secret sentence"}))
        while connection.recv(65_536):
            pass
    told = caplog.text + "".join(capfd.readouterr())
    assert "ValueError" in told and "secret" not in told


def test_told_to_stop_readiness_falls_all_that_was_let_in_is_answered_and_it_ends_well() -> None:
    process = subprocess.Popen([sys.executable, str(SLOW_SERVICE)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        port = int(process.stdout.readline())

        def ask(path: str = "/v1/translate", method: str = "POST") -> tuple[int, Any]:
            with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
                connection.sendall(request(path, {"text": "a"}, method))
                return answer(connection)

        with ThreadPoolExecutor(40) as pool:
            admitted = [pool.submit(ask) for _ in range(30)]
            sleep(0.5)
            os.kill(process.pid, signal.SIGTERM)
            sleep(0.1)
            assert ask("/readyz", "GET")[0] == 503 and ask("/livez", "GET")[0] == 200
            sleep(0.4)
            refused = [pool.submit(ask) for _ in range(5)]
            assert [future.result()[0] for future in refused] == [503] * 5
            assert [future.result()[0] for future in admitted] == [200] * 30
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_the_command_says_where_it_is_and_ends_well() -> None:
    command = [sys.executable, "-c", "from regard.cli.app import app; app()", "serve", str(GOLDEN), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline().startswith("golden: http://127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        told, errors = process.communicate(timeout=20)
        assert (process.returncode, told, errors) == (0, "", "")
    finally:
        process.kill()
        process.wait()


def until(holds: Any, seconds: float = 10.0) -> None:
    end = monotonic() + seconds
    while not holds():
        assert monotonic() < end, "it never came to be"
        sleep(0.01)
