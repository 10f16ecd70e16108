"""The vocabulary of a task that reads text: its settings for one side, and a cache of what was trained."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, Field, model_validator

from regard.artifact import Description
from regard.durable import commit_directory, read_regular_file, verify_directory
from regard.errors import ArtifactError
from regard.tasks.task import Inherited, OnProgress
from regard.text import Tokenizer, TokenizerPair, read_tokenizers, train_tokenizer
from regard.text.vocabulary import MAX_SIZE, TokenizerKind, check_vocabulary


class VocabularyConfig(BaseModel, frozen=True, extra="forbid"):
    """One vocabulary: the [text] section of a task with text on one side only."""

    kind: TokenizerKind = "bpe"
    vocabulary: int | None = Field(default=None, ge=1, le=MAX_SIZE)  # its size; unset: from the size of the text

    @model_validator(mode="after")
    def _vocabulary_suits_the_kind(self) -> Self:
        check_vocabulary(self.kind, self.vocabulary, 0.0)
        return self


def inherit_vocabulary(parent: Description, **values: Any) -> Inherited:
    """The vocabulary is the parent's, and so are more values of [text]."""
    tokenizer = parent.tokenizers.source
    section = {"text": {"kind": tokenizer.kind, "vocabulary": tokenizer.size} | values}
    return Inherited(section, section)


def make_tokenizer(
    parent: Description | None,
    directory: Path,
    key: str,
    lines: Callable[[], Iterable[str]],
    text: VocabularyConfig,
    on_progress: OnProgress,
    *,
    mask: bool = False,
) -> TokenizerPair:
    """One vocabulary, as both sides of a pair: the parent's, or a new one, cached in `directory`.

    `key` changes with any of the lines. With `mask`, the vocabulary has a piece for hidden words.
    """
    if parent is not None:
        tokenizers: TokenizerPair = parent.tokenizers
        return tokenizers

    def train() -> TokenizerPair:
        on_progress("building the vocabulary", 0, None)
        tokenizer = Tokenizer(train_tokenizer(lines(), size=text.vocabulary, kind=text.kind, mask=mask))
        return TokenizerPair(tokenizer, tokenizer)

    return cached_tokenizers(directory, digest(key, text.kind, text.vocabulary, *(["mask"] if mask else [])), train)


def cached_tokenizers(directory: Path, key: str, train: Callable[[], TokenizerPair]) -> TokenizerPair:
    """The tokenizers in `directory`, if they were stored there with this key and are not damaged; else new ones."""
    try:
        verify_directory(directory)
        if json.loads(read_regular_file(directory / "key.json", 10_000)) == {"key": key}:
            return read_tokenizers(directory)
    except (ArtifactError, ValueError, OSError):
        pass
    tokenizers = train()

    def write(temporary: Path) -> None:
        for name, content in tokenizers.files().items():
            (temporary / name).write_bytes(content)
        (temporary / "key.json").write_text(json.dumps({"key": key}), encoding="utf-8")

    commit_directory(directory, write)
    return tokenizers


def digest(*parts: Any) -> str:
    """SHA-256 of values, for keys of what is cached."""
    sha = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        sha.update(len(data).to_bytes(8, "big") + data)
    return sha.hexdigest()
