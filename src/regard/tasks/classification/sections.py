"""The [data] and [text] sections of a recipe for classification."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field

from regard.tasks.vocabulary import VocabularyConfig
from regard.text import LabelledFile

FullPath = Annotated[Path, AfterValidator(Path.absolute)]


class LabelledConfig(BaseModel, frozen=True, extra="forbid"):
    """One TSV file `labels`, or the labels, and a file `text` with their texts."""

    labels: FullPath
    text: FullPath | None = None

    def file(self) -> LabelledFile:
        return LabelledFile(self.labels, self.text)


class ClassificationDataConfig(BaseModel, frozen=True, extra="forbid"):
    """Training and validation data."""

    train: tuple[LabelledConfig, ...] = Field(min_length=1, max_length=255)
    validation: tuple[LabelledConfig, ...] = ()
    held_out: float | None = Field(default=None, ge=0, lt=1)  # share of train, if there is no validation set
    # what the columns of the files are, "-" for one that is not used; unset: found out
    columns: tuple[Literal["label", "text", "-"], ...] | None = None
    header: bool | None = None  # whether the first line names the columns; unset: found out in each file
    on_bad: Literal["raise", "skip"] = "raise"  # for lines that cannot be used
    fingerprint: str | None = None  # SHA-256 of the files; set when a run begins, to detect changes


class ClassificationTextConfig(VocabularyConfig, frozen=True, extra="forbid"):
    """Sub-word vocabulary; what is longer than `max_length` is cut off."""

    max_length: int = Field(default=256, ge=1)  # tokens of an example
    # share of the sub-words that training hides; unset: 0.3, and 0 for fine-tuning
    word_dropout: float | None = Field(default=None, ge=0, lt=1)
