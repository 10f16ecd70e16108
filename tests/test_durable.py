"""Atomic writes, leftovers of killed processes, and locks."""

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.durable import (
    atomic,
    check_writable,
    commit_directory,
    lock_directory,
    remove_directory,
    remove_leftovers,
    verify_directory,
    write_file,
)
from regard.errors import RunError

SOURCE = Path(atomic.__file__).parents[2]


def fill(content: str) -> Callable[[Path], None]:
    def write(directory: Path) -> None:
        (directory / "a.txt").write_text(content)
        (directory / "inner").mkdir()
        (directory / "inner" / "b.bin").write_bytes(content.encode() * 10)

    return write


def names(parent: Path) -> list[str]:
    return sorted(entry.name for entry in parent.iterdir())


def no_exchange(first: Path, second: Path) -> bool:
    return False


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    commit_directory(path, fill("old"))
    return path


# Writing


def test_a_committed_directory_verifies_and_leaves_no_temporary_files(good: Path) -> None:
    assert set(verify_directory(good)) == {"a.txt", "inner/b.bin"}
    assert names(good.parent) == ["model"]


@pytest.mark.parametrize("atomically", [True, False], ids=["renameat2", "three-renames"])
def test_a_directory_is_replaced_as_a_whole(good: Path, atomically: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not atomically:
        monkeypatch.setattr(atomic, "_exchange_atomically", no_exchange)
    before = verify_directory(good)
    commit_directory(good, fill("new"))
    assert verify_directory(good) != before
    assert (good / "a.txt").read_text() == "new"
    assert names(good.parent) == ["model"]


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("atomically", [True, False], ids=["renameat2", "three-renames"])
def test_the_old_state_remains_if_any_flush_fails(
    good: Path, code: int, atomically: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not atomically:
        monkeypatch.setattr(atomic, "_exchange_atomically", no_exchange)
    fsync_before, before = os.fsync, verify_directory(good)
    for failing in range(1, 50):
        calls = 0

        def fsync(descriptor: int, failing: int = failing) -> None:
            nonlocal calls
            calls += 1
            if calls == failing:
                raise OSError(code, os.strerror(code))
            fsync_before(descriptor)

        monkeypatch.setattr(os, "fsync", fsync)
        try:
            commit_directory(good, fill("new"))
        except RunError as error:
            assert os.strerror(code).lower() in str(error).lower()
            assert str(good) in error.message
            assert verify_directory(good) == before
            assert names(good.parent) == ["model"]
            with pytest.raises(RunError, match="could not save"):
                calls = 0
                commit_directory(good.parent / "fresh", fill("new"))
            assert names(good.parent) == ["model"]
        else:
            break
    assert failing > 5, "no flush was tested"


def test_the_old_state_remains_if_the_writer_raises(good: Path) -> None:
    def write(directory: Path) -> None:
        (directory / "half").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        commit_directory(good, write)
    verify_directory(good)
    assert names(good.parent) == ["model"]


def test_a_file_is_replaced_completely_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "recipe.toml"
    write_file(path, b"old")

    def fsync(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fsync)
        with pytest.raises(RunError, match=r"could not save .*recipe.toml: no space left on device; hint: free"):
            write_file(path, b"new")
    assert path.read_bytes() == b"old"
    write_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["recipe.toml"]


def test_a_removed_directory_is_gone(good: Path) -> None:
    remove_directory(good)
    assert names(good.parent) == []
    with pytest.raises(RunError, match="could not remove"):
        remove_directory(good)


def test_a_removal_is_undone_if_the_flush_fails(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fsync)
        with pytest.raises(RunError, match=r"could not remove .*model: input/output error"):
            remove_directory(good)
    verify_directory(good)
    assert names(good.parent) == ["model"]


# Leftovers


def test_only_leftovers_are_removed(good: Path) -> None:
    (good.parent / ".model.writing-0123abcd").mkdir()
    (good.parent / ".model.writing-0123abcd" / "half").write_text("half")
    (good.parent / ".recipe.toml.writing-0123abcd").write_text("half")
    (good.parent / ".hidden").write_text("mine")
    assert len(remove_leftovers(good.parent)) == 2
    assert names(good.parent) == [".hidden", "model"]
    assert remove_leftovers(good.parent / "nowhere") == []


def test_the_temporary_directory_of_a_running_process_is_kept(tmp_path: Path) -> None:
    def write(directory: Path) -> None:
        (directory / "a").write_text("a")
        assert remove_leftovers(tmp_path) == []

    commit_directory(tmp_path / "model", write)
    verify_directory(tmp_path / "model")


def test_an_exchange_that_was_killed_halfway_is_recovered(good: Path) -> None:
    good.rename(good.parent / ".model.replaced-0123abcd")
    verify_directory(good)
    good.rename(good.parent / ".model.replaced-0123abcd")
    remove_leftovers(good.parent)
    verify_directory(good)


# Locks

HOLD = """
import sys, time; sys.path.insert(0, sys.argv[1])
from pathlib import Path
from regard.durable import lock_directory
import os
with lock_directory(Path(sys.argv[2])):
    worker = os.fork()
    if worker == 0:
        time.sleep(30)
        os._exit(0)
    print(worker, flush=True)
    time.sleep(30)
"""


def test_a_second_process_cannot_lock_until_the_first_has_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(SOURCE), str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        worker = int(holder.stdout.readline())
        try:
            with pytest.raises(RunError, match=rf"run is being trained by process {holder.pid}; hint"):
                lock_directory(tmp_path / "run").__enter__()
            holder.kill()
            holder.wait()
            with lock_directory(tmp_path / "run"):  # although a worker of the first process is still running
                pass
        finally:
            holder.kill()
            os.kill(worker, signal.SIGKILL)


def test_a_process_cannot_lock_a_directory_twice(tmp_path: Path) -> None:
    with lock_directory(tmp_path), pytest.raises(RunError, match=f"process {os.getpid()}"):
        lock_directory(tmp_path).__enter__()
    with lock_directory(tmp_path):
        pass


def test_locking_fails_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pwrite(descriptor: int, data: bytes, offset: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", pwrite)
        with pytest.raises(RunError, match=r"cannot write in .*: no space left on device; hint"):
            lock_directory(tmp_path).__enter__()
    with lock_directory(tmp_path):
        pass


def test_too_small_a_disk_raises_an_error_with_both_sizes(tmp_path: Path) -> None:
    check_writable(tmp_path / "new" / "run", 1000)
    assert names(tmp_path / "new" / "run") == []
    with pytest.raises(RunError, match=r"need 1000000000\.0 GB, and its disk has [\d.]+ [GM]B free; hint"):
        check_writable(tmp_path, 10**18)


def test_a_read_only_directory_raises_run_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_bytes(self: Path, data: bytes) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    with pytest.raises(RunError, match=r"cannot write in .*: read-only file system; hint"):
        check_writable(tmp_path, 0)


def test_a_file_in_place_of_the_directory_raises_run_error(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(RunError, match="cannot write in"):
        check_writable(tmp_path / "run", 0)
    with pytest.raises(RunError, match="cannot write in"):
        lock_directory(tmp_path / "run").__enter__()


# Kills at every system call

SAVE = """
import sys; sys.path.insert(0, sys.argv[1])
import os
from pathlib import Path
from regard.durable import atomic, commit_directory
if sys.argv[3] == "three-renames":
    atomic._exchange_atomically = lambda first, second: False
def write(directory):
    (directory / "a.txt").write_text("new")
os.access("/begin", 0)
commit_directory(Path(sys.argv[2]), write)
os.access("/end", 0)
"""
# The disk changes only at these calls, so a kill anywhere else has the effect of a kill at the next of them.
CHANGING = ("mkdir", "open", "openat", "write", "fsync", "flock", "rename", "renameat2", "unlink", "unlinkat", "rmdir")


def strace(*options: str, final: Path, how: str) -> subprocess.CompletedProcess[str]:
    python = [sys.executable, "-IBS", "-c", SAVE, str(SOURCE), str(final), how]
    return subprocess.run(["strace", "-qq", *options, *python], capture_output=True, text=True, check=False)


def system_calls(final: Path, how: str) -> list[tuple[str, int]]:
    """The system calls of a save that change the disk: (name, number among the calls of that name)."""
    log = final.parent / "strace.log"
    process = strace("-o", str(log), final=final, how=how)
    if process.returncode != 0:
        pytest.skip(f"strace does not work here: {process.stderr[:100]}")
    counts: dict[str, int] = {}
    calls, inside = [], False
    for line in log.read_text().splitlines():
        name = line.split("(")[0]
        counts[name] = counts.get(name, 0) + 1
        inside = (inside or '"/begin"' in line) and '"/end"' not in line
        if inside and name in CHANGING and ("open" not in name or "O_CREAT" in line):
            calls.append((name, counts[name]))
    log.unlink()
    return calls


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.parametrize("how", ["fresh", "renameat2", "three-renames"])
def test_a_kill_at_any_system_call_leaves_the_old_or_the_new_state(tmp_path: Path, how: str) -> None:
    final, old = tmp_path / "model", tmp_path / "old"
    commit_directory(old, fill("old"))
    expected = [None if how == "fresh" else verify_directory(old)]
    if how != "fresh":
        shutil.copytree(old, final)
    calls = system_calls(final, how)
    expected.append(verify_directory(final))
    states: list[object] = []
    assert len(calls) > 10
    for name, count in calls:
        shutil.rmtree(final, ignore_errors=True)
        if how != "fresh":
            shutil.copytree(old, final)
        process = strace("-e", f"inject={name}:signal=KILL:when={count}", "-e", f"trace={name}", final=final, how=how)
        assert process.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), (name, count, process)
        remove_leftovers(tmp_path)
        states.append(verify_directory(final) if final.exists() else None)
        assert states[-1] in expected, (name, count)
        assert set(names(tmp_path)) <= {"model", "old"}
    assert all(state in states for state in expected), "one of the two states never occurred"
