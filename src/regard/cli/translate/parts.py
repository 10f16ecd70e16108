"""A large file in parts, which can be translated anywhere, and are joined when all are there."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zstandard

from regard.cli.translate.sink import state_path
from regard.errors import RunError, UserError
from regard.text.blocks import count_lines

_CHUNK_BYTES = 1 << 20


def part_path(out: Path, part: tuple[int, int]) -> Path:
    """`OUT.part-3-of-8`; a compressed file keeps its suffix: `OUT.part-3-of-8.gz`."""
    suffix = out.suffix if out.suffix in (".gz", ".zst") else ""
    return out.with_name(f"{out.name}.part-{part[0]}-of-{part[1]}{suffix}")


def part_lines(source: Path, part: tuple[int, int]) -> range:
    """The lines of a part, counted from 0."""
    n, (i, n_parts) = count_lines(source), part
    return range(n * (i - 1) // n_parts, n * i // n_parts)


def join_parts(source: Path, out: Path) -> int:
    """Writes the translations of all parts into one file and removes the parts; returns the number of lines.

    Raises RunError if a part is missing, is not finished, has another number of lines than its source, or was made
    from another source, or with another model or other options than the first.
    """
    n_parts = _n_parts(out)
    paths = [part_path(out, (i, n_parts)) for i in range(1, n_parts + 1)]
    status, identities = source.stat(), set()
    for i, path in enumerate(paths, start=1):
        again = f"run it again with --part {i}/{n_parts}"
        state = _state(path)
        if state is None:
            raise RunError(f"part {i} of {n_parts} is not finished", hint=again)
        _, *size_and_time, identity = json.loads(state["identity"])
        if size_and_time != [status.st_size, status.st_mtime_ns]:
            raise RunError(f"{path} was made from another version of {source}", hint=again)
        identities.add(identity)
        n_lines, n_expected = _n_lines(path), len(part_lines(source, (i, n_parts)))
        if n_lines != n_expected:
            raise RunError(f"{path} has {n_lines:,} lines, not {n_expected:,} as its source", hint=again)
    if len(identities) > 1:
        raise RunError(
            "the parts were made with different models or options", hint="translate them all in the same way"
        )
    unfinished = out.with_name(f".{out.name}.joining")
    with unfinished.open("wb") as file:
        for path in paths:
            for chunk in _chunks(path):
                file.write(chunk)
    unfinished.replace(out)
    for path in paths:
        path.unlink()
        state_path(path).unlink(missing_ok=True)
    return count_lines(source)


def _n_parts(out: Path) -> int:
    """In how many parts the file was translated."""
    names = [path.name.removeprefix(f"{out.name}.part-") for path in out.parent.glob(f"{out.name}.part-*-of-*")]
    numbers = {name.partition("-of-")[2].removesuffix(".gz").removesuffix(".zst") for name in names}
    if len(numbers) != 1 or not (number := numbers.pop()).isdigit():
        found = "no parts" if not names else f"parts of different divisions: {', '.join(sorted(numbers))}"
        raise UserError(f"{out}: there are {found}", hint="translate every part, from --part 1/N to --part N/N")
    return int(number)


def _state(path: Path) -> dict[str, Any] | None:
    """The state of a finished part."""
    try:
        state: dict[str, Any] = json.loads(state_path(path).read_text(encoding="utf-8"))
        finished = state["done"] is True and path.stat().st_size == state["n_bytes"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return state if finished else None


def _n_lines(path: Path) -> int:
    """The number of line feeds, decompressed."""
    if path.suffix == ".gz":
        with gzip.open(path) as file:
            return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(_CHUNK_BYTES), b""))
    if path.suffix == ".zst":
        with path.open("rb") as raw, zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True) as stream:
            return sum(chunk.count(b"\n") for chunk in iter(lambda: stream.read(_CHUNK_BYTES), b""))
    return sum(chunk.count(b"\n") for chunk in _chunks(path))


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from iter(lambda: file.read(_CHUNK_BYTES), b"")
