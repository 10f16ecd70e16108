"""What the [data] sections of several tasks have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Generic, TypeVar

from pydantic import AfterValidator, BaseModel, Field

from regard.errors import RunError

FullPath = Annotated[Path, AfterValidator(Path.absolute)]
F = TypeVar("F")


class DataSection(BaseModel, Generic[F], frozen=True, extra="forbid"):
    """Files of training and validation examples; F names one of them, or a few that belong together."""

    train: tuple[F, ...] = Field(min_length=1, max_length=1000)
    validation: tuple[F, ...] = ()
    held_out: float | None = Field(default=None, ge=0, lt=1)  # share of train, if there is no validation set
    fingerprint: str | None = None  # SHA-256 of the files; set when a run begins, to detect changes

    def require_unchanged(self, current: str, what: str = "the training text has") -> None:
        """Raises RunError if the files have another fingerprint than when the run began."""
        if self.fingerprint not in (None, current):
            raise changed_error(f"{what} changed since this run began")


def changed_error(message: str) -> RunError:
    return RunError(message, hint="restore the original files, or train in another directory")
