"""The [text] section of a recipe for language models; [data] is that of all running text."""

from __future__ import annotations

from pydantic import Field

from regard.tasks.vocabulary import VocabularyConfig


class LanguageTextConfig(VocabularyConfig, frozen=True, extra="forbid"):
    """Vocabulary, and how much of the text is read at once."""

    segment: int | None = Field(default=None, ge=1, le=65_536)  # tokens; unset: by architecture and kind
    # consecutive segments of a training example; memory is carried from each to the next. Unset: by architecture
    n_segments: int | None = Field(default=None, ge=1, le=65_536)
