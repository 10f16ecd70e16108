"""The [data] section of tasks that learn from running text, and its split into training and validation text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from regard.errors import DataError
from regard.tasks.sections import DataSection, FullPath, changed_error
from regard.tasks.vocabulary import digest
from regard.text import fingerprint
from regard.text.running_text import RunningText, TextCounts, default_held_out, held_out_blocks, split_lines


class RunningTextConfig(DataSection[FullPath], frozen=True, extra="forbid"):
    """Training and validation text, as files whose lines follow one another."""

    on_bad: Literal["raise", "skip"] = "raise"  # for lines that are not valid text


@dataclass(frozen=True)
class TextSplit:
    """The text of a run."""

    train: RunningText
    validation: RunningText | None  # None: some blocks of train
    held_out: float
    counts: TextCounts  # of all training files, with what is held out
    fingerprint: str

    @property
    def key(self) -> str:
        """Changes with any line, and with whether it is for training or validation."""
        return digest(self.fingerprint, self.held_out, self.train.on_bad, len(self.train.files))

    @property
    def values(self) -> dict[str, Any]:
        """Those of [data] that depend on the files."""
        return {"held_out": self.held_out, "fingerprint": self.fingerprint}

    @property
    def reports(self) -> list[dict[str, Any]]:
        """What was found out about the text; shown when a training begins."""
        counts, names = self.counts, ", ".join(str(path) for path in self.train.files)
        message = f"{names}: {counts.n_lines:,} lines, {counts.n_words:,} words, {counts.n_characters:,} characters"
        return [{"name": names, "findings": [{"severity": "found", "kind": "text", "message": message}]}]

    def training_lines(self) -> Iterator[str]:
        return self._lines(held_out=False)

    def validation_lines(self) -> Iterator[str]:
        return self._lines(held_out=True) if self.validation is None else self.validation.lines()

    def _lines(self, held_out: bool) -> Iterator[str]:
        blocks = held_out_blocks(self.counts.n_lines, 0.0 if self.validation is not None else self.held_out)
        return split_lines(self.train.lines(), blocks, held_out)

    def require_unchanged(self) -> None:
        """Raises RunError if a file was changed since it was read first."""
        if _fingerprint(self.train, self.validation) != self.fingerprint:
            raise changed_error("the training text was changed while it was being prepared")


def read_split(data: RunningTextConfig) -> TextSplit:
    """Reads all text once, so that errors in it are found; raises RunError if it has changed since the run began."""
    train = RunningText(data.train, data.on_bad)
    validation = RunningText(data.validation, data.on_bad) if data.validation else None
    current = _fingerprint(train, validation)
    data.require_unchanged(current)
    counts = TextCounts.of(train.lines())
    names = ", ".join(str(path) for path in data.train)
    if not counts.n_words:
        raise DataError(f"{names}: there is no text in it", hint="name a file of text")
    held_out = 0.0 if validation else default_held_out(counts) if data.held_out is None else data.held_out
    if validation is None and (not held_out or counts.n_lines < 2):
        problem = f"the validation text is empty ({counts.n_lines:,} lines, data.held_out is {held_out:g})"
        raise DataError(f"{names}: {problem}", hint="give a validation text with --valid-text")
    if validation is not None and not TextCounts.of(validation.lines()).n_words:
        raise DataError(f"{', '.join(map(str, data.validation))}: there is no text in it", hint="name a file of text")
    return TextSplit(train, validation, held_out, counts, current)


def _fingerprint(train: RunningText, validation: RunningText | None) -> str:
    return digest(fingerprint(train), "" if validation is None else fingerprint(validation))
