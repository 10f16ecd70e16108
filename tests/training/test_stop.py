"""Stopping a training on SIGINT and SIGTERM."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from regard.training import Stop
from regard.training import stop as stop_module

# runs the file itself: importing the package would take seconds, for torch
PROGRAM = """
import os, runpy, signal
Stop = runpy.run_path({file!r})["Stop"]
with Stop():
    os.kill(os.getpid(), signal.{first})
    print("noted", flush=True)
    os.kill(os.getpid(), signal.{second})
    print("still here", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_first_signal_only_sets_signal_number(number: int) -> None:
    with Stop() as stop:
        assert stop.signal_number is None
        os.kill(os.getpid(), number)
        assert stop.signal_number == number


def test_signal_handlers_are_restored() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    with Stop():
        assert all(signal.getsignal(number) != handler for number, handler in before.items())
    assert {number: signal.getsignal(number) for number in before} == before


@pytest.mark.parametrize(("first", "second", "code"), [("SIGINT", "SIGINT", 130), ("SIGINT", "SIGTERM", 143)])
def test_second_signal_ends_the_process_at_once(first: str, second: str, code: int) -> None:
    program = PROGRAM.format(file=stop_module.__file__, first=first, second=second)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (code, "noted\n", "")


def test_second_signal_does_not_wait_for_a_long_call() -> None:
    """A Python signal handler would: it runs between two bytecode instructions, and a call into C is one of them."""
    program = f"""
import hashlib, runpy
with runpy.run_path({stop_module.__file__!r})["Stop"]():
    print("inside", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "inside\n"
        try:
            time.sleep(0.2)  # by now the call has very likely begun
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGTERM)  # another one: the kernel would merge two equal pending signals
            assert process.wait(60) in (130, 143)  # by whichever handler ran last
        finally:
            process.kill()


def test_no_signal_is_handled_outside_the_main_thread() -> None:
    failed: list[BaseException] = []

    def enter() -> None:
        try:
            with Stop() as stop:
                assert stop.signal_number is None
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join(10)
    assert failed == []
