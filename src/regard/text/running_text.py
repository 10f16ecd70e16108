"""Running text: files whose lines follow one another, for language models and for encoders that are pre-trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from regard.errors import DataError
from regard.text.lines import ReadNotes, read_lines_or_none, require_file
from regard.text.normalise import normalise

_N_BLOCKS = 100  # of neighbouring lines, some of which are held out
_MAX_HELD_OUT = 0.05
_MAX_HELD_OUT_CHARACTERS = 1_000_000


@dataclass(frozen=True)
class RunningText:
    """Some files, one after the other, as one text."""

    files: tuple[Path, ...]
    on_bad: Literal["raise", "skip"] = "raise"  # for lines that are not valid text

    def lines(self) -> Iterator[str]:
        """All lines, blank ones too, normalised."""
        for path in self.files:
            require_file(path)
            notes = ReadNotes()
            for line in read_lines_or_none(path, notes=notes):
                if line is not None:
                    yield normalise(line)
                elif self.on_bad == "raise":
                    hint = "fix or remove the line, or skip such lines with --set data.on_bad=skip"
                    raise DataError(f"{path}: {notes.bad_examples[0]}", hint=hint)


@dataclass(frozen=True)
class TextCounts:
    """The size of a normalised text."""

    n_lines: int = 0
    n_words: int = 0  # separated by white space
    n_characters: int = 0  # without the ends of lines

    @classmethod
    def of(cls, lines: Iterator[str]) -> TextCounts:
        n_lines = n_words = n_characters = 0
        for line in lines:
            n_lines += 1
            n_words += len(line.split())
            n_characters += len(line)
        return cls(n_lines, n_words, n_characters)


def held_out_blocks(n_lines: int, share: float) -> Callable[[int], bool]:
    """Which lines, counted from 0, are for validation: blocks of neighbouring lines, spread evenly over the text.

    So both parts are running text, and of every kind that is in it.
    """
    n_blocks = min(_N_BLOCKS, max(2, n_lines))
    n_held_out = min(n_blocks - 1, max(1, round(share * n_blocks))) if share else 0
    middles = {(2 * i + 1) * n_blocks // (2 * n_held_out) for i in range(n_held_out)}
    return lambda number: number * n_blocks // max(1, n_lines) in middles


def default_held_out(counts: TextCounts) -> float:
    """5% of a text, but of a large one at most about a million characters."""
    return min(_MAX_HELD_OUT, _MAX_HELD_OUT_CHARACTERS / max(1, counts.n_characters))


def split_lines(lines: Iterator[str], is_held_out: Callable[[int], bool], held_out: bool) -> Iterator[str]:
    """The lines for validation, or the others."""
    return (line for number, line in enumerate(lines) if is_held_out(number) == held_out)
