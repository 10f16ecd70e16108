"""The [data] and [text] sections of a recipe for answering."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field

from regard.tasks.sections import DataSection, FullPath


class StoryDataConfig(DataSection[FullPath], frozen=True, extra="forbid"):
    """Files in the format of bAbI."""

    held_out: float = Field(default=0.1, ge=0, lt=1)  # share of the stories, if there is no validation set

    @property
    def files(self) -> tuple[Path, ...]:
        return (*self.train, *self.validation)


class StoryTextConfig(BaseModel, frozen=True, extra="forbid"):
    """What of a story the model sees."""

    # sentences before the question, the last ones; unset: as many as the longest training story has, but at most 50
    memory: int | None = Field(default=None, ge=1, le=10_000)
    time_noise: float = Field(default=0.1, ge=0, le=10)  # empty sentences in training, as a share of the others
