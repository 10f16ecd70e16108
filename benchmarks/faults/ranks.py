"""Rows 2, 42 and 43: trainings with several processes that are killed, resumed, and cut off from one another.

The processes are forked from this one, which saves importing torch, with the environment that torchrun sets.
"""

import ctypes
import fcntl
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from faults.harness import STEPS, Figure, Harness, NotAllowed, last_step, weights_of
from regard.cli import main
from regard.training import Checkpoints

ONE_PROCESS = ("training.two_processes=off",)
EXACT = ("training.exact=true", "training.accumulate=8", "training.max_tokens=64")
MAX_SECONDS_TO_EXIT = 10.0
LIMIT_SECONDS = 300.0
_HOSTS = ("regard-a", "regard-b")
_INTERFACE = "cable"
_NEW_NETWORK, _NEW_MOUNTS, _PRIVATE = 0x40000000, 0x00020000, (1 << 14) | (1 << 18)
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Ranks:
    """The processes of a training, by rank."""

    pids: tuple[int, ...]
    run: Path
    stderr: tuple[Path, ...]

    def wait(self) -> list[int]:
        """The exit codes; a negative one is a signal. Processes that hang are killed."""
        until, codes = time.monotonic() + LIMIT_SECONDS, {}
        while len(codes) < len(self.pids):
            for pid in self.pids:
                if pid not in codes and (ended := os.waitpid(pid, os.WNOHANG))[0]:
                    codes[pid] = os.waitstatus_to_exitcode(ended[1])
            if time.monotonic() > until:
                for pid in self.pids:
                    if pid not in codes:
                        os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        return [codes[pid] for pid in self.pids]

    def reach(self, step: int) -> None:
        """Waits for this step."""
        until = time.monotonic() + LIMIT_SECONDS
        while last_step(self.run) < step:
            if time.monotonic() > until:
                raise RuntimeError(f"no step {step}: {self.stderr[0].read_text()[-300:]}")
            time.sleep(0.002)

    def errors(self) -> list[str]:
        return [path.read_text() for path in self.stderr]


def start(harness: Harness, run: Path, n: int, *settings: str, hosts: Sequence[str] = ()) -> Ranks:
    """Train the digits with n processes, as torchrun would start them.

    With `hosts`, each is in the network of its host, and the second does not see the files.
    """
    command = harness.command(run, *ONE_PROCESS, *settings)[3:]
    return start_command(run, n, command, hosts=hosts, hidden=harness.folder)


def start_command(
    run: Path, n: int, command: Sequence[str], *, hosts: Sequence[str] = (), hidden: Path | None = None
) -> Ranks:
    """Start n processes of this command."""
    port, folder = _free_port(), run.parent / f"{run.name}-stderr"
    folder.mkdir(exist_ok=True)
    paths = tuple(folder / f"{port}-{rank}" for rank in range(n))
    pids = []
    for rank in range(n):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                if hosts:
                    _enter(hosts[rank], hide=hidden if rank else None, log=paths[rank])
                else:
                    _redirect(paths[rank])
                local = "0" if hosts else str(rank)
                os.environ |= {
                    "RANK": str(rank), "WORLD_SIZE": str(n), "LOCAL_RANK": local,
                    "LOCAL_WORLD_SIZE": "1" if hosts else str(n),
                    "MASTER_ADDR": "10.9.0.1" if hosts else "127.0.0.1", "MASTER_PORT": str(port),
                    "GLOO_SOCKET_IFNAME": _INTERFACE if hosts else "lo", "OMP_NUM_THREADS": "1",
                }  # fmt: skip
                sys.argv = ["regard", *command]
                main()
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 0
            finally:
                os._exit(code)
        pids.append(pid)
    return Ranks(tuple(pids), run, paths)


def _free_port() -> int:
    with socket.create_server(("", 0)) as server:
        return int(server.getsockname()[1])


def _redirect(log: Path) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)


def _trained(harness: Harness, n: int, *settings: str) -> dict[str, str]:
    """The weights of a training without interruption."""
    ranks = start(harness, harness.fresh(), n, *settings)
    codes = ranks.wait()
    assert codes == [0] * n, ranks.errors()
    return weights_of(ranks.run)


def killed_ranks(harness: Harness) -> Figure:
    """Row 2: kill -9 of any of 3 or 4 ranks at a random moment, then again to the end."""
    numbers, n_equal, slowest_seconds, named = harness.numbers(20, 2), 0, 0.0, 0
    expected = {n: _trained(harness, n) for n in (3, 4)}
    same_again, same_weights = _same_without_kills(harness, expected) if harness.share[0] == 1 else (True, True)
    for number in numbers:
        is_equal, is_named, seconds = kill_and_restart(harness, number, expected)
        n_equal, named, slowest_seconds = n_equal + is_equal, named + is_named, max(slowest_seconds, seconds)
    text = (
        f"{n_equal}/{len(numbers)} equal after a kill, the others ended in ≤ {slowest_seconds:.1f} s, named {named}; "
        f"run again {_verdict(same_again)}; 2 ranks = accumulate 2, Adam and Muon: {_verdict(same_weights)}"
    )
    if harness.share[0] > 1:
        text = text.partition("; ")[0]
    passed = n_equal == named == len(numbers) and slowest_seconds <= MAX_SECONDS_TO_EXIT and same_again and same_weights
    return Figure(text, passed)


def kill_and_restart(harness: Harness, number: int, expected: dict[int, dict[str, str]]) -> tuple[bool, bool, float]:
    """Whether the weights are equal and the others ended with the name of the killed rank; and after how long."""
    rng, n, run = random.Random(number), 3 + number % 2, harness.fresh()
    ranks, victim = start(harness, run, n), rng.randrange(n)
    ranks.reach(rng.randint(1, STEPS - 2))
    time.sleep(rng.uniform(0, 0.05))
    killed_at = time.perf_counter()
    os.kill(ranks.pids[victim], signal.SIGKILL)
    codes = ranks.wait()
    seconds = time.perf_counter() - killed_at
    lines = [line for text in ranks.errors() for line in text.splitlines() if line.startswith("error: ")]
    is_named = len(lines) == 1 and f"rank {victim}" in lines[0] and codes.count(2) == n - 1
    again = start(harness, run, n)
    return again.wait() == [0] * n and weights_of(run) == expected[n], is_named, seconds


def _same_without_kills(harness: Harness, expected: dict[int, dict[str, str]]) -> tuple[bool, bool]:
    """Whether trainings with these numbers of ranks repeat, and whether 2 ranks equal 1 with two batches."""
    same_again = all(_trained(harness, n) == expected[n] for n in expected)
    two = {name: _trained(harness, 2, f"training.optimizer={name}") for name in ("adam", "muon")}
    one = {name: _trained(harness, 1, f"training.optimizer={name}", "training.accumulate=2") for name in two}
    return same_again, all(_model(two[name]) == _model(one[name]) for name in two)


def exact_ranks(harness: Harness) -> Figure:
    """Row 42: training.exact with 1, 2, 3, 4 and 7 ranks; 3, then 2, then 4 with kills; 4 ranks against 1 × 4."""
    numbers = (1, 2, 3, 4, 7)
    weights = [_trained(harness, n, *EXACT) for n in numbers]
    n_equal = sum(each == weights[0] for each in weights)
    run = harness.fresh()
    for n, step in ((3, 15), (2, 35)):
        ranks = start(harness, run, n, *EXACT)
        ranks.reach(step)
        os.kill(ranks.pids[-1], signal.SIGKILL)
        ranks.wait()
    last = start(harness, run, 4, *EXACT)
    changed = last.wait() == [0] * 4 and weights_of(run) == weights[0]
    first_step = ("training.steps=1", "training.save_every=1", "training.optimizer=adam", "training.precision=float32")
    averages = []
    for n, accumulate in ((4, 1), (1, 4)):
        ranks = start(harness, harness.fresh(), n, *first_step, f"training.accumulate={accumulate}")
        assert ranks.wait() == [0] * n, ranks.errors()
        tensors = Checkpoints(ranks.run / "checkpoints", keep_last=1, keep_best=0).open(1).tensors("optimizer")
        averages.append(torch.cat([tensors[name].flatten() for name in sorted(tensors) if "exp_avg/" in name]).double())
    difference = float((averages[0] - averages[1]).norm() / averages[1].norm())  # Adam's first average is the gradient
    text = (
        f"{n_equal}/{len(numbers)} equal with {', '.join(map(str, numbers))} ranks; 3 → 2 → 4 with kills: "
        f"{_verdict(changed)}; gradient of 4 ranks against 1 × 4: {difference:.1e}"
    )
    return Figure(text, n_equal == len(numbers) and changed and difference <= 1e-5)


def cut_off_ranks(harness: Harness) -> Figure:
    """Row 43: two hosts as network namespaces, without files on the second; delay, loss, and a cable that is cut."""
    texts, all_passed = [], True
    with _two_hosts():
        expected = _over_cable(harness)
        run = harness.fresh()
        ranks = start(harness, run, 2, hosts=_HOSTS)
        ranks.reach(25)
        cut_at = time.perf_counter()
        _ip("-n", _HOSTS[1], "link", "set", _INTERFACE, "down")
        codes = ranks.wait()
        seconds = time.perf_counter() - cut_at
        named = "error: rank 1 (" in ranks.errors()[0] and codes == [2, 2]
        _ip("-n", _HOSTS[1], "link", "set", _INTERFACE, "up")
        again = start(harness, run, 2, hosts=_HOSTS)
        same = again.wait() == [0, 0] and weights_of(run) == expected
        texts.append(f"cable cut: both ended in {seconds:.0f} s, named {_verdict(named)}, resumed {_verdict(same)}")
    for name, delay_seconds, loss in (("100 ms", 0.1, 0.0), ("5% loss", 0.001, 0.05)):
        with _two_hosts(relay=(delay_seconds, loss)):
            started_at = time.perf_counter()
            is_equal = _over_cable(harness) == expected
            texts.append(f"{name}: {_verdict(is_equal)} in {time.perf_counter() - started_at:.0f} s")
            all_passed &= is_equal
    return Figure("; ".join(texts), all_passed and named and same)


def _over_cable(harness: Harness) -> dict[str, str]:
    ranks = start(harness, harness.fresh(), 2, hosts=_HOSTS)
    codes = ranks.wait()
    assert codes == [0, 0], (codes, ranks.errors())
    return weights_of(ranks.run)


def _model(weights: dict[str, str]) -> str:
    """The final model without the state of the run, which has another recipe."""
    return next(digest for name, digest in weights.items() if name.startswith("model/"))


def _verdict(value: bool) -> str:
    return "pass" if value else "FAILED"


@contextmanager
def _two_hosts(relay: tuple[float, float] | None = None) -> Iterator[None]:
    """Two network namespaces, joined by a cable; or by a process that delays packets by seconds, and drops a share."""
    _remove_hosts()
    pid = None
    try:
        for host in _HOSTS:
            _ip("netns", "add", host)
        if relay is None:
            peer = ("type", "veth", "peer", "name", _INTERFACE, "netns", _HOSTS[1])
            _ip("-n", _HOSTS[0], "link", "add", _INTERFACE, *peer)
        else:
            pid = _start_relay(*relay)
        for number, host in enumerate(_HOSTS, start=1):
            _ip("-n", host, "addr", "add", f"10.9.0.{number}/24", "dev", _INTERFACE)
            for name in ("lo", _INTERFACE):
                _ip("-n", host, "link", "set", name, "up")
        yield
    finally:
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        _remove_hosts()


def _start_relay(delay_seconds: float, loss: float) -> int:
    """Returns the process when both of its interfaces are there."""
    ready_out, ready_in = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            ends = [_tunnel(host) for host in _HOSTS]
            os.write(ready_in, b"!")
            _relay(ends, delay_seconds, loss, random.Random(1))
        finally:
            os._exit(1)
    os.close(ready_in)
    is_ready = os.read(ready_out, 1)
    os.close(ready_out)
    if not is_ready:
        os.waitpid(pid, 0)
        raise NotAllowed("no /dev/net/tun")
    return pid


def _tunnel(host: str) -> int:
    """A network interface in the host, whose packets this process reads and writes."""
    _join(host)
    descriptor = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", _INTERFACE.encode(), _IFF_TUN | _IFF_NO_PI))
    return descriptor


def _relay(ends: list[int], delay_seconds: float, loss: float, rng: random.Random) -> None:
    waiting: deque[tuple[float, int, bytes]] = deque()  # all have the same delay, so they stay in order
    while True:
        left = waiting[0][0] - time.monotonic() if waiting else None
        ready, _, _ = select.select(ends, [], [], None if left is None else max(0.0, left))
        for end in ready:
            packet = os.read(end, 65_536)
            if rng.random() >= loss:
                waiting.append((time.monotonic() + delay_seconds, ends[1 - ends.index(end)], packet))
        while waiting and waiting[0][0] <= time.monotonic():
            _, end, packet = waiting.popleft()
            with suppress(OSError):  # the other interface is not up yet
                os.write(end, packet)


def _remove_hosts() -> None:
    for host in _HOSTS:
        subprocess.run(["ip", "netns", "del", host], capture_output=True, check=False)


def _ip(*arguments: str) -> None:
    _run("ip", *arguments)


def _run(*command: str) -> None:
    try:
        process = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise NotAllowed(f"{command[0]} is not installed") from error
    if process.returncode:
        raise NotAllowed(f"{' '.join(command[:4])}: {process.stderr.strip()}")


def _enter(host: str, *, hide: Path | None, log: Path) -> None:
    """Move this process into the network of a host, with an empty folder in place of the files of the training."""
    _redirect(log)
    _join(host)
    if hide is not None:
        failed = _LIBC.unshare(_NEW_MOUNTS) or _LIBC.mount(b"none", b"/", None, _PRIVATE, None)
        if failed or _LIBC.mount(b"tmpfs", os.fsencode(hide), b"tmpfs", 0, None):
            raise OSError(ctypes.get_errno(), "mount")


def _join(host: str) -> None:
    descriptor = os.open(f"/run/netns/{host}", os.O_RDONLY)
    if _LIBC.setns(descriptor, _NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "setns")
    os.close(descriptor)
