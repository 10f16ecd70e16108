"""Labelled text: a label and one or two texts per line, in a TSV file; or the labels in one file, the texts in another.

Which column is the label, which are texts, and whether there is a header, is found out; it can also be given.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Literal, NamedTuple

from regard.errors import DataError
from regard.text.lines import ReadNotes, read_lines_or_none

OnBadLine = Literal["raise", "skip"]
Column = Literal["label", "text", "-"]  # "-" is not used

MAX_LABELS = 1_000  # different ones
_SAMPLE = 10_000  # lines that decide what a column is
_MIN_TEXT_SHARE = 0.1  # of different values; with fewer, a column is not text but another label, or a source
_FEW = 20  # lines: too few to count different values
_HEADER = {
    "label", "labels", "class", "category", "sentiment", "target", "gold", "gold_label", "score", "y", "text", "texts",
    "sentence", "sentence1", "sentence2", "question", "question1", "question2", "premise", "hypothesis", "id", "index",
}  # fmt: skip
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
_IDENTIFIER = re.compile(r"\S*\d\S*")
_LAYOUT_HINT = "each line must be a label, a tab and a text (or two texts with a tab between them)"
_COLUMNS_HINT = """name the columns, such as --set 'data.columns=["label", "text", "-"]'; "-" is not used"""


@dataclass(frozen=True)
class LabelledFile:
    """A TSV file `labels`; or the labels, and beside it a file with their texts, line by line."""

    labels: Path
    text: Path | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.labels,) if self.text is None else (self.labels, self.text)

    @property
    def name(self) -> str:
        return " + ".join(str(path) for path in self.files)

    def rows(self, on_bad: OnBadLine) -> Iterator[tuple[int, list[str]]]:
        """Line numbers and cells. Blank lines of a TSV file are left out; a line to skip has no cells."""
        notes = [ReadNotes() for _ in self.files]
        lines = [read_lines_or_none(path, notes=note) for path, note in zip(self.files, notes, strict=True)]
        for number, parts in enumerate(zip_longest(*lines, fillvalue=""), start=1):
            bad = next((i for i, part in enumerate(parts) if part is None), None)
            if bad is not None and on_bad == "raise":
                hint = "fix or remove the line, or skip such lines with --set data.on_bad=skip"
                raise DataError(f"{self.files[bad]}: {notes[bad].bad_examples[0]}", hint=hint)
            if bad is not None:
                yield number, []
            elif self.text is not None or parts[0]:
                yield number, "\t".join(part or "" for part in parts).split("\t")
        counts = [note.n_lines for note in notes]
        if len(set(counts)) > 1:
            raise DataError(
                f"{self.labels} has {counts[0]} lines, {self.text} has {counts[1]}",
                hint="line i of the labels is the label of line i of the texts",
            )


class Layout(NamedTuple):
    """What the columns of a file are."""

    columns: tuple[Column, ...]
    has_header: bool

    @property
    def n_texts(self) -> int:
        return self.columns.count("text")

    def describe(self) -> str:
        """Such as "label in column 1, text in column 2, no header"."""
        texts = [str(i) for i, column in enumerate(self.columns, start=1) if column == "text"]
        unused = [str(i) for i, column in enumerate(self.columns, start=1) if column == "-"]
        parts = [f"label in column {self.columns.index('label') + 1}"]
        parts.append(f"text in column {texts[0]}" if len(texts) == 1 else f"texts in columns {' and '.join(texts)}")
        if unused:
            parts.append(f"column {' and '.join(unused)} not used")
        return ", ".join([*parts, "a header" if self.has_header else "no header"])


class LabelledLines(NamedTuple):
    """All lines of a file, in order."""

    labels: list[str]
    texts: list[tuple[str, ...]]
    numbers: list[int]  # of the lines
    layout: Layout
    n_bad: int  # lines that were skipped


def read_labelled(
    file: LabelledFile,
    *,
    columns: Sequence[Column] | None = None,
    header: bool | None = None,
    known: Collection[str] | None = None,
    on_bad: OnBadLine = "raise",
) -> LabelledLines:
    """Reads a file. `columns` and `header` are found out where they are None, `known` are the only possible labels.

    `columns` that do not fit the first line are an error, unless `known` labels can replace them.
    """
    rows = list(file.rows(on_bad))
    readable = [cells for _, cells in rows if cells]
    if not readable:
        raise DataError(f"{file.name}: there is no labelled text in it", hint=_LAYOUT_HINT)
    layout = _find_layout(file, readable[:_SAMPLE], columns, header, known)
    where, texts_at = layout.columns.index("label"), [i for i, name in enumerate(layout.columns) if name == "text"]
    labels, texts, numbers = [], [], []
    for number, cells in rows[layout.has_header :]:
        problem = _problem(cells, layout, where, texts_at, known)
        if problem is not None and on_bad == "raise":
            hint = f"{_LAYOUT_HINT}; or skip such lines with --set data.on_bad=skip"
            raise DataError(f"{file.labels}:{number}: {problem}", hint=hint)
        if problem is None:
            labels.append(cells[where].strip())
            texts.append(tuple(cells[i] for i in texts_at))
            numbers.append(number)
    if not labels:
        raise DataError(f"{file.name}: there is no labelled text in it", hint=_LAYOUT_HINT)
    return LabelledLines(labels, texts, numbers, layout, len(rows) - layout.has_header - len(labels))


def sort_labels(labels: Collection[str]) -> list[str]:
    """Different labels in order: numbers by value, others by name."""
    different = sorted(set(labels))
    return sorted(different, key=float) if all(map(_NUMBER.fullmatch, different)) else different


def _problem(
    cells: Sequence[str], layout: Layout, where: int, texts_at: Sequence[int], known: Collection[str] | None
) -> str | None:
    """What is wrong with a line."""
    if len(cells) != len(layout.columns):
        return f"{len(cells)} columns instead of {len(layout.columns)}"
    label = cells[where].strip()
    if not label:
        return "no label"
    if known is not None and label not in known:
        shown = ", ".join(sort_labels(known)[:5]) + (", …" if len(known) > 5 else "")
        return f"label {label!r} is not one of {shown}"
    return None if all(cells[i].strip() for i in texts_at) else "no text"


def _find_layout(
    file: LabelledFile,
    rows: Sequence[Sequence[str]],
    columns: Sequence[Column] | None,
    header: bool | None,
    known: Collection[str] | None,
) -> Layout:
    n = len(rows[0])
    if n == 1:
        raise DataError(f"{file.labels}:1: no tab, so there is a label or a text, but not both", hint=_LAYOUT_HINT)
    if columns is not None and len(columns) != n and known is None:
        raise DataError(f"{file.labels}:1: {n} columns, but data.columns names {len(columns)}", hint=_COLUMNS_HINT)
    if columns is not None and len(columns) == n:
        found: tuple[Column, ...] = tuple(columns)
    elif file.text is not None:
        found = ("label", "text") if n == 2 else ("label", "text", "text")
    else:
        # a header may be among them; a line of another length is reported later
        body = [cells for cells in rows[len(rows) > 1 :] if len(cells) == n]
        found = _find_columns(file, list(zip(*(body or rows[:1]), strict=True)), known)
    if found.count("label") != 1 or found.count("text") not in (1, 2):
        raise DataError(
            f"{file.labels}: {found.count('text')} columns of text; there can be 1 or 2", hint=_COLUMNS_HINT
        )
    if header is None:
        where = found.index("label")
        header = _is_header(rows[0], {cells[where].strip() for cells in rows[1:] if len(cells) == n}, where, known)
    return Layout(found, header)


def _find_columns(
    file: LabelledFile, values: Sequence[Sequence[str]], known: Collection[str] | None
) -> tuple[Column, ...]:
    """The label is the column with the fewest different values, but more than one; texts are most of the others."""
    n_lines, counts = len(values[0]), [len({value.strip() for value in column}) for column in values]
    if known is None:
        most = min(MAX_LABELS, n_lines // 2) if n_lines > _FEW else n_lines
        plausible = [i for i, count in enumerate(counts) if count <= most]
        candidates = [i for i in plausible if counts[i] > 1] or plausible
    else:
        candidates = [i for i, column in enumerate(values) if any(value.strip() in known for value in column)]
    if not candidates:
        least = min(range(len(values)), key=counts.__getitem__)
        different = f"column {least + 1} has {counts[least]:,} different values in {n_lines:,} lines"
        problem = f"no column looks like labels: {different}"
        raise DataError(f"{file.labels}: {problem}", hint=_COLUMNS_HINT)
    label = min(candidates, key=lambda i: (counts[i], sum(map(len, values[i]))))
    others = [i for i in range(len(values)) if i != label]
    texts = others if len(others) == 1 else [i for i in others if _is_text(values[i], counts[i])]
    return tuple("label" if i == label else "text" if i in texts else "-" for i in range(len(values)))


def _is_text(column: Sequence[str], n_different: int) -> bool:
    """Neither numbers and identifiers, nor the same few values again and again."""
    return not all(map(_IDENTIFIER.fullmatch, column)) and (
        len(column) <= _FEW or n_different >= _MIN_TEXT_SHARE * len(column)
    )


def _is_header(first: Sequence[str], labels: set[str], where: int, known: Collection[str] | None) -> bool:
    """Whether the first line names the columns: its label is none of the others, and it looks like a name."""
    label = first[where].strip()
    if not labels or label in (labels if known is None else known):
        return False
    has_names = any(cell.strip().casefold() in _HEADER for cell in first)
    return has_names or (all(map(_NUMBER.fullmatch, labels)) and not _NUMBER.fullmatch(label))
