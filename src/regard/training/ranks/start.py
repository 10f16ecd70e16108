"""Starts the ranks of a training: those of torchrun, or several processes on this machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from regard.errors import RunError, TrainingStopped, UserError
from regard.training.device import rank_device
from regard.training.ranks.follow import ForwardedStop, follow
from regard.training.ranks.group import MainRank, OtherRank
from regard.training.ranks.links import TOKEN_BYTES, Verdict, accept, connect, listen
from regard.training.ranks.workers import Workers

_C10D: Any = torch.distributed  # its stores are not declared as public names
_SECONDS_TO_START = 600.0
_SECONDS_TO_END = 15.0  # in good order
_SECONDS_AFTER_ERROR = 0.5
_BLOCKED = {signal.SIGINT, signal.SIGTERM}


class Identity(NamedTuple):
    """Which of the ranks this process is; the names are those of torchrun's environment variables."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    host: str  # of rank 0
    store: Any = None  # without one, torchrun's


def torchrun_identity() -> Identity | None:
    """If torchrun has started several processes; None if this one is alone."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2 or "RANK" not in os.environ:
        return None
    rank, world_size, local, n_local = (
        int(os.environ.get(name, default))
        for name, default in (("RANK", ""), ("WORLD_SIZE", ""), ("LOCAL_RANK", "0"), ("LOCAL_WORLD_SIZE", "1"))
    )
    return Identity(rank, world_size, local, n_local, os.environ.get("MASTER_ADDR", "127.0.0.1"))


@contextmanager
def open_workers(n_processes: int | None = None, device: str | None = None) -> Iterator[Workers]:
    """The ranks of a training: `n_processes` on this machine, those that torchrun has started, or one.

    In the other ranks it serves rank 0 and raises SystemExit at the end: the `with` block is only run by rank 0.
    """
    identity = torchrun_identity()
    if identity is not None:
        if n_processes not in (None, identity.world_size):
            raise RunError(
                f"torchrun has started {identity.world_size} processes, and --processes is {n_processes}",
                hint="drop --processes",
            )
        follow_torchrun(device)
        with _lead(identity, device) as main:
            yield main
    elif n_processes is not None and n_processes > 1:
        with _started(n_processes, device) as identity, _lead(identity, device) as main:
            yield main
    else:
        yield Workers()


def follow_torchrun(device: str | None = None) -> None:
    """In all of torchrun's processes but the first: serves that one, and raises SystemExit at the end."""
    if (identity := torchrun_identity()) is not None and identity.rank:
        with ForwardedStop() as stop:
            raise SystemExit(_follow(identity, device, stop))


@contextmanager
def _started(n: int, device: str | None) -> Iterator[Identity]:
    """The other ranks as processes of this machine, which are reached through a file and the loopback interface."""
    with tempfile.TemporaryDirectory(prefix="regard-ranks-") as directory:
        path = str(Path(directory) / "store")
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)  # until they can handle signals
        try:
            children = [_start(rank, n, path, device) for rank in range(1, n)]
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        seconds = _SECONDS_AFTER_ERROR
        try:
            yield Identity(0, n, 0, n, "127.0.0.1", _C10D.FileStore(path, n))
            seconds = _SECONDS_TO_END
        finally:
            for child in children:
                with suppress(subprocess.TimeoutExpired):
                    child.wait(seconds)
                child.kill()
                child.wait()


def _start(rank: int, n: int, path: str, device: str | None) -> subprocess.Popen[bytes]:
    code = "from regard.training.ranks.start import main; main()"
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code, str(rank), str(n), path, device or ""],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if isinstance(path, str))},
    )


def main() -> None:
    """Entry point of the processes of `_start`."""
    rank, n, path, device = sys.argv[1:]
    with ForwardedStop() as stop:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _BLOCKED)
        identity = Identity(int(rank), int(n), int(rank), int(n), "127.0.0.1", _C10D.FileStore(path, int(n)))
        sys.exit(_follow(identity, device or None, stop))


@contextmanager
def _lead(identity: Identity, device: str | None) -> Iterator[MainRank]:
    own_device = rank_device(device, identity.local_rank)
    n_threads = _connect_group(identity, own_device)
    before = torch.get_num_threads()
    token = os.urandom(TOKEN_BYTES)
    with listen(identity.host) as server:
        _announce([server.getsockname()[1], *token])
        links = accept(server, token, identity.world_size - 1)
    main = MainRank(links, Verdict(says_it=True), n_threads, own_device, identity.local_world_size)
    torch.set_num_threads(n_threads)
    exit_code = 1
    try:
        yield main
        exit_code = 0
    except BaseException as error:
        exit_code = _exit_code(error)
        raise
    finally:
        main.close(exit_code)
        torch.set_num_threads(before)
        if main.verdict.error is None:
            dist.destroy_process_group()


def _follow(identity: Identity, device: str | None, stop: ForwardedStop) -> int:
    own_device = rank_device(device, identity.local_rank)
    n_threads = _connect_group(identity, own_device)
    port, *token = _announce([0] * (1 + TOKEN_BYTES))
    link = connect(identity.host, port, bytes(token), identity.rank)
    is_on_another_machine = identity.rank != identity.local_rank
    verdict = Verdict(says_it=is_on_another_machine and identity.local_rank == 0)
    rank = OtherRank(identity.rank, identity.world_size, link, verdict, n_threads, own_device)
    try:
        return follow(rank, stop)
    except UserError:  # of another rank
        return 2
    finally:
        verdict.say()


def _connect_group(identity: Identity, device: torch.device) -> int:
    """Connects torch.distributed; returns the number of threads for this rank."""
    store: dict[str, Any] = {}
    if identity.store is not None:
        store = {"store": identity.store, "rank": identity.rank, "world_size": identity.world_size}
        os.environ.setdefault("GLOO_SOCKET_IFNAME", _loopback())
    else:  # torchrun's store still has the addresses of processes from before a restart
        [found] = islice(_C10D.rendezvous("env://"), 1)
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        store = {
            "store": _C10D.PrefixStore(f"regard-{attempt}", found[0]),
            "rank": identity.rank,
            "world_size": identity.world_size,
        }
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    try:
        dist.init_process_group(backend, timeout=timedelta(seconds=_SECONDS_TO_START), **store)
    except (RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise RunError(
            f"the processes cannot connect: {reason}",
            hint="with several network interfaces, set GLOO_SOCKET_IFNAME to that of the private network",
        ) from error
    return _n_threads(identity)


def _announce(numbers: list[int]) -> list[int]:
    """The numbers of rank 0."""
    tensor = torch.tensor(numbers)
    dist.broadcast(tensor, 0)
    return [int(number) for number in tensor]


def _n_threads(identity: Identity) -> int:
    """This rank's share of the cores, or OMP_NUM_THREADS, unless torchrun has set it: always to 1."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdecimal() and (identity.store is not None or given != "1"):
        return max(1, int(given))
    n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, n_cores // identity.local_world_size)


def _loopback() -> str:
    names = [name for _, name in socket.if_nameindex()]
    return next((name for name in ("lo", "lo0") if name in names), names[0])


def _exit_code(error: BaseException) -> int:
    """That of the command when it ends with this error."""
    if isinstance(error, TrainingStopped):
        return 128 + error.signal_number
    return int(getattr(error, "exit_code", 2 if isinstance(error, UserError) else 1))
