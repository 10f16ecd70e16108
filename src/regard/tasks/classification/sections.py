"""The [data] and [text] sections of a recipe for classification."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from regard.tasks.sections import DataSection, FullPath
from regard.tasks.vocabulary import VocabularyConfig
from regard.text import LabelledFile


class LabelledConfig(BaseModel, frozen=True, extra="forbid"):
    """One TSV file `labels`, or the labels, and a file `text` with their texts."""

    labels: FullPath
    text: FullPath | None = None

    def file(self) -> LabelledFile:
        return LabelledFile(self.labels, self.text)


class ClassificationDataConfig(DataSection[LabelledConfig], frozen=True, extra="forbid"):
    """Training and validation data."""

    # what the columns of the files are, "-" for one that is not used; unset: found out
    columns: tuple[Literal["label", "text", "-"], ...] | None = None
    header: bool | None = None  # whether the first line names the columns; unset: found out in each file
    on_bad: Literal["raise", "skip"] = "raise"  # for lines that cannot be used


class ClassificationTextConfig(VocabularyConfig, frozen=True, extra="forbid"):
    """Sub-word vocabulary; what is longer than `max_length` is cut off."""

    max_length: int = Field(default=256, ge=1)  # tokens of an example
    # share of the sub-words that training hides; unset: 0.3, and 0 for fine-tuning
    word_dropout: float | None = Field(default=None, ge=0, lt=1)
