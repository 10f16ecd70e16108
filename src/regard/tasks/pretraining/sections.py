"""The [data] and [text] sections of a recipe for pre-training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field

from regard.tasks.vocabulary import VocabularyConfig
from regard.text.documents import check_pattern

FullPath = Annotated[Path, AfterValidator(Path.absolute)]


class TextFileConfig(BaseModel, frozen=True, extra="forbid"):
    """A file of running text."""

    text: FullPath

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.text,)


class PretrainingDataConfig(BaseModel, frozen=True, extra="forbid"):
    """Training and validation text."""

    train: tuple[TextFileConfig, ...] = Field(min_length=1, max_length=255)
    validation: tuple[TextFileConfig, ...] = ()
    held_out: float | None = Field(default=None, ge=0, lt=1)  # share of train, if there is no validation text
    # a regular expression: a document begins at every line that it matches; unset: after every blank line
    document: Annotated[str | None, AfterValidator(check_pattern)] = None
    on_bad: Literal["raise", "skip"] = "raise"  # for lines that are not valid text
    fingerprint: str | None = None  # SHA-256 of the files; set when a run begins, to detect changes


class PretrainingTextConfig(VocabularyConfig, frozen=True, extra="forbid"):
    """Sub-word vocabulary; neighbouring sentences are joined to examples of at most `max_length` sub-words."""

    max_length: int = Field(default=128, ge=8)
