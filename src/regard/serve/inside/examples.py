"""Sentences that a run suggests to look at: `examples.json` in its directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field, ValidationError

from regard.durable import read_regular_file
from regard.errors import ArtifactError

_MAX_BYTES = 100_000
_Index = Annotated[int, Field(ge=0, le=1_000)]


class ExampleHead(BaseModel, frozen=True):
    """The attention head to look at, counted from 0."""

    attention: Literal["encoder", "decoder", "cross"]
    layer: _Index
    head: _Index


class Examples(BaseModel, frozen=True):
    """Sentences that differ in a word, and the head in which their pronouns attend to different words."""

    texts: Annotated[tuple[str, ...], Field(min_length=1, max_length=10)]
    head: ExampleHead


def read_examples(run: Path | None) -> Examples | None:
    """The examples of a run; None if there are none, or the file is not valid."""
    if run is None:
        return None
    try:
        return Examples.model_validate_json(read_regular_file(run / "examples.json", _MAX_BYTES))
    except (OSError, ArtifactError, ValidationError):
        return None
