"""The [data] and [text] sections of a recipe for translation."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from regard.errors import DataError
from regard.tasks.sections import FullPath
from regard.text import Corpus
from regard.text.languages import is_language_code
from regard.text.vocabulary import MAX_SIZE, TokenizerKind, check_vocabulary


def _language_code(code: str) -> str:
    if not is_language_code(code):
        raise ValueError("is not a language code such as de, pt-BR or zh-Hans")
    return code


Language = Annotated[str, AfterValidator(_language_code)]


class CorpusConfig(BaseModel, frozen=True, extra="forbid"):
    """Two text files, or one TSV file; see `regard.text.Corpus`."""

    source: FullPath | None = None
    target: FullPath | None = None
    tsv: FullPath | None = None
    weight: float = Field(default=1.0, gt=0)
    tag: str | None = None  # the target language, for a model with several

    @model_validator(mode="after")
    def _is_valid_corpus(self) -> Self:
        try:
            self.corpus()
        except DataError as error:
            raise ValueError(error.message) from error
        return self

    def corpus(self) -> Corpus:
        return Corpus(source=self.source, target=self.target, tsv=self.tsv, weight=self.weight, tag=self.tag)


class DataConfig(BaseModel, frozen=True, extra="forbid"):
    """Training and validation data."""

    train: tuple[CorpusConfig, ...] = Field(default=(), max_length=255)
    store: FullPath | None = None  # in place of train: a token store that `regard encode` has built
    validation: tuple[CorpusConfig, ...] = ()
    keep: tuple[CorpusConfig, ...] = Field(default=(), max_length=100)  # fine-tuning: general text, against forgetting
    held_out: float | None = Field(default=None, ge=0, lt=1)  # share of train, if there is no validation set
    on_bad: Literal["raise", "skip"] = "raise"  # for lines that are not valid text
    doctor: bool = True  # refuse text with errors that would make the training useless
    fingerprint: str | None = None  # SHA-256 of the files; set when a run begins, to detect changes

    @property
    def learned(self) -> tuple[CorpusConfig, ...]:
        """What is trained on, in the order of the numbers of the corpora."""
        return (*self.train, *self.keep)


class TextConfig(BaseModel, frozen=True, extra="forbid"):
    """The vocabulary: of sub-words (section 5.1), of characters or of words."""

    kind: TokenizerKind = "bpe"
    joint: bool = True  # one vocabulary for both languages
    # size of the vocabulary, or of each of two; unset: from the corpus size
    vocabulary: int | None = Field(default=None, ge=1, le=MAX_SIZE)
    sampling: float = Field(default=0.0, ge=0, le=1)  # BPE-dropout, or the exponent of unigram sampling; 0 is off
    max_length: int = Field(default=256, ge=1)  # tokens; longer pairs are skipped
    source_language: Language | None = None  # unset: from the file names, such as train.en
    target_language: Language | None = None  # unset: from the tags of the corpora, or the file names

    @model_validator(mode="after")
    def _vocabulary_suits_the_kind(self) -> Self:
        check_vocabulary(self.kind, self.vocabulary, self.sampling)
        return self
