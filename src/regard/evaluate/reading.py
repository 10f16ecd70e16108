"""Test sets and outputs from files, line for line."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.errors import DataError
from regard.text.lines import read_lines


@dataclass(frozen=True)
class TestSet:
    """References, and where they were given the sources, of the same lines."""

    __test__ = False  # for pytest, which would take it for a class of tests

    references: tuple[list[str], ...]
    sources: list[str] | None
    named_after: Path
    """The file whose number of lines the others must have."""

    def read_outputs(self, path: Path) -> list[str]:
        """Translations of this set, from a file."""
        return _read_as_long_as(path, len(self.references[0]), self.named_after)


def read_test_set(references: Sequence[Path], source: Path | None) -> TestSet:
    """Read the files; a DataError names both files and their lines where the numbers differ."""
    if not references:
        raise DataError("there is nothing to score against", hint="give --reference FILE")
    first = list(read_lines(references[0]))
    if not first:
        raise DataError(f"{references[0]}: the file is empty", hint="a reference has one translation on each line")
    others = [_read_as_long_as(path, len(first), references[0]) for path in references[1:]]
    sources = None if source is None else _read_as_long_as(source, len(first), references[0])
    return TestSet((first, *others), sources, references[0])


def _read_as_long_as(path: Path, n_lines: int, other: Path) -> list[str]:
    lines = list(read_lines(path))
    if len(lines) != n_lines:
        raise DataError(
            f"{path} has {len(lines)} lines, but {other} has {n_lines}",
            hint="line i of each file must belong to the same sentence; a blank line must stay a line",
        )
    return lines
