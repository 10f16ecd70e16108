"""What reaches the disk is whole or not there, and what is read from it is what was written, or refused in words."""

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
    Manifest,
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
    def write(aside: Path) -> None:
        (aside / "a.txt").write_text(content)
        (aside / "inner").mkdir()
        (aside / "inner" / "b.bin").write_bytes(content.encode() * 10)

    return write


def names(parent: Path) -> list[str]:
    return sorted(entry.name for entry in parent.iterdir())


def no_exchange(one: Path, other: Path) -> bool:
    return False


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    commit_directory(path, fill("old"))
    return path


# Writing


def test_a_committed_directory_verifies_and_leaves_nothing_beside_it(good: Path) -> None:
    assert set(verify_directory(good).files) == {"a.txt", "inner/b.bin"}
    assert names(good.parent) == ["model"]


@pytest.mark.parametrize("at_once", [True, False], ids=["renameat2", "three-renames"])
def test_a_directory_is_replaced_as_a_whole(good: Path, at_once: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not at_once:
        monkeypatch.setattr(atomic, "_exchange_at_once", no_exchange)
    before = verify_directory(good)
    commit_directory(good, fill("new"))
    assert verify_directory(good) != before
    assert (good / "a.txt").read_text() == "new"
    assert names(good.parent) == ["model"]


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("at_once", [True, False], ids=["renameat2", "three-renames"])
def test_whichever_flush_fails_the_old_state_stays(
    good: Path, code: int, at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not at_once:
        monkeypatch.setattr(atomic, "_exchange_at_once", no_exchange)
    real, before = os.fsync, verify_directory(good)
    for failing in range(1, 50):
        calls = 0

        def fsync(descriptor: int, failing: int = failing) -> None:
            nonlocal calls
            calls += 1
            if calls == failing:
                raise OSError(code, os.strerror(code))
            real(descriptor)

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
    assert failing > 5, "the test never met a flush"


def test_an_error_of_the_writer_leaves_the_old_state(good: Path) -> None:
    def write(aside: Path) -> None:
        (aside / "half").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        commit_directory(good, write)
    verify_directory(good)
    assert names(good.parent) == ["model"]


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_removal_that_the_disk_does_not_confirm_is_taken_back(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fsync)
        with pytest.raises(RunError, match=r"could not remove .*model: input/output error"):
            remove_directory(good)
    verify_directory(good)
    assert names(good.parent) == ["model"]


# Debris


def test_debris_of_the_dead_goes_and_everything_else_stays(good: Path) -> None:
    (good.parent / ".model.writing-0123abcd").mkdir()
    (good.parent / ".model.writing-0123abcd" / "half").write_text("half")
    (good.parent / ".recipe.toml.writing-0123abcd").write_text("half")
    (good.parent / ".hidden").write_text("mine")
    assert len(remove_leftovers(good.parent)) == 2
    assert names(good.parent) == [".hidden", "model"]
    assert remove_leftovers(good.parent / "nowhere") == []


def test_what_a_living_writer_holds_is_no_debris(tmp_path: Path) -> None:
    def write(aside: Path) -> None:
        (aside / "a").write_text("a")
        assert remove_leftovers(tmp_path) == []

    commit_directory(tmp_path / "model", write)
    verify_directory(tmp_path / "model")


def test_a_reader_puts_back_what_a_killed_exchange_had_moved(good: Path) -> None:
    good.rename(good.parent / ".model.replaced-0123abcd")
    verify_directory(good)
    good.rename(good.parent / ".model.replaced-0123abcd")
    remove_leftovers(good.parent)
    verify_directory(good)


# Guards

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


def test_a_second_trainer_is_refused_until_the_first_is_dead(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(SOURCE), str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        worker = int(holder.stdout.readline())
        try:
            with pytest.raises(RunError, match=rf"run is being trained by process {holder.pid}; hint"):
                lock_directory(tmp_path / "run").__enter__()
            holder.kill()
            holder.wait()
            with lock_directory(tmp_path / "run"):  # although a worker of the dead trainer still lives
                pass
        finally:
            holder.kill()
            os.kill(worker, signal.SIGKILL)


def test_the_same_process_does_not_train_twice_in_one_directory(tmp_path: Path) -> None:
    with lock_directory(tmp_path), pytest.raises(RunError, match=f"process {os.getpid()}"):
        lock_directory(tmp_path).__enter__()
    with lock_directory(tmp_path):
        pass


def test_a_full_disk_that_takes_no_lock_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pwrite(descriptor: int, data: bytes, offset: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", pwrite)
        with pytest.raises(RunError, match=r"can not write in .*: no space left on device; hint"):
            lock_directory(tmp_path).__enter__()
    with lock_directory(tmp_path):
        pass


def test_a_disk_without_room_is_refused_with_both_numbers(tmp_path: Path) -> None:
    check_writable(tmp_path / "new" / "run", 1000)
    assert names(tmp_path / "new" / "run") == []
    with pytest.raises(RunError, match=r"need 1000000000\.0 GB, and its disk has [\d.]+ [GM]B free; hint"):
        check_writable(tmp_path, 10**18)


def test_a_directory_that_can_not_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, data: bytes) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "write_bytes", refuse)
    with pytest.raises(RunError, match=r"can not write in .*: read-only file system; hint"):
        check_writable(tmp_path, 0)


def test_a_file_in_the_way_of_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(RunError, match="can not write in"):
        check_writable(tmp_path / "run", 0)
    with pytest.raises(RunError, match="can not write in"):
        lock_directory(tmp_path / "run").__enter__()


# Killed at every system call

SAVE = """
import sys; sys.path.insert(0, sys.argv[1])
import os
from pathlib import Path
from regard.durable import atomic, commit_directory
if sys.argv[3] == "three-renames":
    atomic._exchange_at_once = lambda one, other: False
def write(aside):
    (aside / "a.txt").write_text("new")
os.access("/begin", 0)
commit_directory(Path(sys.argv[2]), write)
os.access("/end", 0)
"""
# between two of these nothing changes on the disk, so that a kill elsewhere is a kill at the next one of them
CHANGING = ("mkdir", "open", "openat", "write", "fsync", "flock", "rename", "renameat2", "unlink", "unlinkat", "rmdir")


def strace(*options: str, final: Path, how: str) -> subprocess.CompletedProcess[str]:
    python = [sys.executable, "-IBS", "-c", SAVE, str(SOURCE), str(final), how]
    return subprocess.run(["strace", "-qq", *options, *python], capture_output=True, text=True, check=False)


def calls_of_a_save(final: Path, how: str) -> list[tuple[str, int]]:
    """Each call of a save that changes the disk: its name, and how many of that name the process has made by then."""
    log = final.parent / "strace.log"
    done = strace("-o", str(log), final=final, how=how)
    if done.returncode != 0:
        pytest.skip(f"strace does not work here: {done.stderr[:100]}")
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
def test_a_kill_at_any_system_call_leaves_the_old_state_or_the_new(tmp_path: Path, how: str) -> None:
    final, old = tmp_path / "model", tmp_path / "old"
    commit_directory(old, fill("old"))
    known = [None if how == "fresh" else verify_directory(old)]
    if how != "fresh":
        shutil.copytree(old, final)
    calls = calls_of_a_save(final, how)
    known.append(verify_directory(final))
    seen: list[Manifest | None] = []
    assert len(calls) > 10
    for name, count in calls:
        shutil.rmtree(final, ignore_errors=True)
        if how != "fresh":
            shutil.copytree(old, final)
        done = strace("-e", f"inject={name}:signal=KILL:when={count}", "-e", f"trace={name}", final=final, how=how)
        assert done.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), (name, count, done)
        remove_leftovers(tmp_path)
        seen.append(verify_directory(final) if final.exists() else None)
        assert seen[-1] in known, (name, count)
        assert set(names(tmp_path)) <= {"model", "old"}
    assert all(state in seen for state in known), "the kills never met one of the two states"
