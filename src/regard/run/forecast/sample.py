"""Parts of a text, for a plan of a large corpus in seconds, and for the learning curve."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.run.recipe import merge
from regard.tasks import Raw
from regard.text.lines import read_lines_or_none, require_file

MAX_BYTES = 16_000_000  # of a text that is planned as a whole; of a larger one, every n-th block of lines
_LINES_PER_BLOCK = {True: 1, False: 50}  # running text has neighbours that belong together
_COMPRESSED = {".gz", ".zst"}
_RATIO = 3  # of text to its compressed form

Accepts = Callable[[int], bool]  # whether a block belongs to a part


def text_bytes(given: Raw) -> int:
    """Size of the training files that have lines, about."""
    sizes: list[int] = []
    for path in [] if given.get("task") in _NOT_LINES else _files(given):
        require_file(path)
        sizes.append(path.stat().st_size * (_RATIO if path.suffix in _COMPRESSED else 1) if path.exists() else 0)
    return sum(sizes)


def sample_text(given: Raw, directory: Path, parts: Mapping[str, Accepts]) -> tuple[Raw, dict[str, int]]:
    """The recipe with other files: for each part ("train", "validation") the blocks whose numbers it accepts.

    Also the number of lines of each part and, as "all", of the whole text. Raises UserError for stories, whose lines
    cannot be told apart.
    """
    entries = given["data"]["train"]
    counts = dict.fromkeys((*parts, "all"), 0)
    written: dict[str, list[Any]] = {name: [] for name in parts}
    for number, entry in enumerate(entries):
        named = {key: Path(entry[key]) for key in _PATHS if key in entry} if isinstance(entry, dict) else None
        if given.get("task") in _NOT_LINES:
            raise UserError(f"the text of the task {given['task']} cannot be divided", hint="give fewer files")
        files = {"": Path(entry)} if named is None else named
        targets = {
            name: {
                key: directory / f"{name}-{number}{key and '.' + key}{_language(path)}" for key, path in files.items()
            }
            for name in parts
        }
        block = _LINES_PER_BLOCK[named is not None]
        for name, count in _divide(list(files.values()), parts, targets, block).items():
            counts[name] += count
        for name, paths in targets.items():
            as_text = {key: str(path) for key, path in paths.items()}
            written[name].append(as_text[""] if named is None else {**entry, **as_text})
    return merge(given, {"data": written}), counts


_NOT_LINES = ("answering", "images")  # their files are not made of lines that can be left out
_PATHS = ("source", "target", "tsv", "labels", "text")


def _language(path: Path) -> str:
    """`.de` of `train.de.gz`: languages are recognised by file names."""
    return Path(path.stem).suffix if path.suffix in _COMPRESSED else path.suffix


def _divide(
    files: list[Path], parts: Mapping[str, Accepts], targets: dict[str, dict[str, Path]], block: int
) -> dict[str, int]:
    """Copies the lines of files that belong together; returns how many each part got, and all of them."""
    counts = dict.fromkeys((*parts, "all"), 0)
    with ExitStack() as stack:
        outputs = {
            name: [stack.enter_context(path.open("w", encoding="utf-8", newline="\n")) for path in paths.values()]
            for name, paths in targets.items()
        }
        for number, lines in enumerate(_together([read_lines_or_none(path) for path in files])):
            counts["all"] += 1
            for name, accepts in parts.items():
                if accepts(number // block):
                    counts[name] += 1
                    for output, line in zip(outputs[name], lines, strict=True):
                        output.write(f"{line}\n")
    return counts


def _together(sides: list[Iterable[str | None]]) -> Iterable[tuple[str | None, ...]]:
    """Lines of several files without those that are not valid text; what is longer than the others is left out."""
    return (lines for lines in zip(*sides, strict=False) if None not in lines)


def _files(given: Raw) -> list[Path]:
    """The training files of a recipe."""
    entries = given.get("data", {}).get("train", ())
    return [
        Path(value)
        for entry in entries
        for value in ([entry[key] for key in _PATHS if entry.get(key)] if isinstance(entry, dict) else [entry])
    ]
