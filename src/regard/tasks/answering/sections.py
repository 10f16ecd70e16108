"""The [data] and [text] sections of a recipe for answering."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field

FullPath = Annotated[Path, AfterValidator(Path.absolute)]


class StoryDataConfig(BaseModel, frozen=True, extra="forbid"):
    """Files in the format of bAbI."""

    train: tuple[FullPath, ...] = Field(min_length=1, max_length=1000)
    validation: tuple[FullPath, ...] = ()
    held_out: float = Field(default=0.1, ge=0, lt=1)  # share of the stories, if there is no validation set
    fingerprint: str | None = None  # SHA-256 of the files; set when a run begins, to detect changes

    @property
    def files(self) -> tuple[Path, ...]:
        return (*self.train, *self.validation)


class StoryTextConfig(BaseModel, frozen=True, extra="forbid"):
    """What of a story the model sees."""

    # sentences before the question, the last ones; unset: as many as the longest training story has, but at most 50
    memory: int | None = Field(default=None, ge=1, le=10_000)
    time_noise: float = Field(default=0.1, ge=0, le=10)  # empty sentences in training, as a share of the others
