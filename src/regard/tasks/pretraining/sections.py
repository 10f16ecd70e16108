"""The [data] and [text] sections of a recipe for pre-training."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from regard.tasks.running_text import RunningTextConfig
from regard.tasks.vocabulary import VocabularyConfig
from regard.text.documents import check_pattern


class PretrainingDataConfig(RunningTextConfig, frozen=True, extra="forbid"):
    """Training and validation text, and where its documents begin."""

    # a regular expression: a document begins at every line that it matches; unset: after every blank line
    document: Annotated[str | None, AfterValidator(check_pattern)] = None


class PretrainingTextConfig(VocabularyConfig, frozen=True, extra="forbid"):
    """Sub-word vocabulary; neighbouring sentences are joined to examples of at most `max_length` sub-words."""

    max_length: int = Field(default=128, ge=8)
