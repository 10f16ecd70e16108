"""A bar on stderr while a file is translated, where somebody sees it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_WORTH_A_BAR_BYTES = 50_000
_CHUNK_BYTES = 1 << 20


@contextmanager
def progress(source: Path | None, done: int) -> Iterator[Callable[[int], None]]:
    """Is told how many lines more are done."""
    if source is None or not sys.stderr.isatty() or source.stat().st_size < _WORTH_A_BAR_BYTES:
        yield lambda n_lines: None
        return
    with line_bar(_count_lines(source), done) as show:
        yield show


@contextmanager
def line_bar(total: int | None, done: int = 0) -> Iterator[Callable[[int], None]]:
    """A bar that goes again; nothing where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield lambda n_lines: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("translating"), BarColumn(), MofNCompleteColumn(), TextColumn("lines"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("translating", total=total, completed=done)
        yield lambda n_lines: bar.advance(task, n_lines)


def _count_lines(path: Path) -> int | None:
    """How many there are, where that is quick to know: not in a compressed file."""
    with path.open("rb") as file:
        if file.read(2) in (b"\x1f\x8b", b"\x28\xb5"):
            return None
        file.seek(0)
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(_CHUNK_BYTES), b""))
