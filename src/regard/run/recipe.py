"""The recipe: every value of an experiment, typed, in one TOML file. Unknown keys are errors."""

from __future__ import annotations

import hashlib
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import tomli_w
from pydantic import AfterValidator, BaseModel, Field, ValidationError, model_validator

from regard.errors import DataError, RecipeError
from regard.models import PRESETS, TransformerConfig
from regard.text import Corpus
from regard.text.languages import is_language_code
from regard.training import TrainingConfig

Raw = dict[str, Any]  # the values of a recipe, or of part of one, as read from TOML
FullPath = Annotated[Path, AfterValidator(Path.absolute)]


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

    train: tuple[CorpusConfig, ...] = Field(min_length=1, max_length=255)
    validation: tuple[CorpusConfig, ...] = ()
    held_out: float | None = Field(default=None, ge=0, lt=1)  # share of train, if there is no validation set
    on_bad: Literal["raise", "skip"] = "raise"  # for lines that are not valid text
    doctor: bool = True  # refuse text with errors that would make the training useless
    fingerprint: str | None = None  # SHA-256 of the files; set when a run begins, to detect changes


class TextConfig(BaseModel, frozen=True, extra="forbid"):
    """Sub-word vocabulary (section 5.1)."""

    kind: Literal["bpe", "unigram"] = "bpe"
    joint: bool = True  # one vocabulary for both languages
    # size of the vocabulary, or of each of two; unset: from the corpus size
    vocabulary: int | None = Field(default=None, ge=270, le=1_000_000)
    sampling: float = Field(default=0.0, ge=0, le=1)  # BPE-dropout, or the exponent of unigram sampling; 0 is off
    max_length: int = Field(default=256, ge=1)  # sub-words; longer pairs are skipped
    source_language: Language | None = None  # unset: from the file names, such as train.en
    target_language: Language | None = None  # unset: from the tags of the corpora, or the file names


class ModelConfig(TransformerConfig, frozen=True, extra="forbid"):
    """The configuration of an architecture; `preset` provides the values that are not given."""

    architecture: Literal["transformer"] = "transformer"
    preset: Literal["tiny", "small", "base", "big"] = "base"

    @model_validator(mode="before")
    @classmethod
    def _apply_preset(cls, given: Any) -> Any:
        if isinstance(given, dict) and isinstance(given.get("preset"), str) and given["preset"] in PRESETS:
            return PRESETS[given["preset"]].model_dump() | given
        return given

    def config(self) -> TransformerConfig:
        return TransformerConfig.model_validate(self.model_dump(exclude={"architecture", "preset"}))


class Recipe(BaseModel, frozen=True, extra="forbid"):
    """Data, text, model and training. The defaults are the paper's base model (sections 5 and 6)."""

    start_from: FullPath | None = None  # fine-tuning: the model directory to start from
    start_fingerprint: str | None = None  # of that model; set when a run begins, to detect changes
    data: DataConfig
    text: TextConfig = TextConfig()
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()

    @model_validator(mode="after")
    def _tied_embeddings_need_a_joint_vocabulary(self) -> Self:
        if self.model.tie == "all" and not self.text.joint:
            raise ValueError("text.joint = false needs model.tie = 'target' or 'none'")
        return self

    @model_validator(mode="after")
    def _positions_cover_max_length(self) -> Self:
        needed = self.text.max_length + 1  # the end token of the source, or the begin token of the target
        if self.model.positions == "learned" and self.model.max_positions < needed:
            raise ValueError(
                f"text.max_length = {self.text.max_length} needs model.max_positions = {needed} or more: "
                f"one more for the begin or end token (it is {self.model.max_positions})"
            )
        return self

    @classmethod
    def build(cls, raw: Raw) -> Recipe:
        """Builds a recipe from TOML values; raises RecipeError with a readable message."""
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            raise RecipeError(_error_message(error)) from error

    def raw(self) -> Raw:
        """All values, for TOML."""
        return self.model_dump(mode="json", exclude_none=True)

    def explicit(self) -> Raw:
        """Only the values that were given explicitly, for TOML."""
        return self.model_dump(mode="json", exclude_none=True, exclude_unset=True)

    def to_toml(self) -> str:
        return tomli_w.dumps(self.raw())

    def digest(self) -> str:
        """Changes with any value."""
        return hashlib.sha256(self.to_toml().encode()).hexdigest()


def read_recipe(path: Path) -> Raw:
    """The values of a TOML file, not yet validated."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecipeError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path} is not TOML: {error}") from error


def parse_setting(text: str) -> Raw:
    """`training.steps=300` → {"training": {"steps": 300}}. A value that is not TOML is a string."""
    key, equals, value = text.partition("=")
    names = key.strip().split(".")
    if not equals or not all(names):
        raise RecipeError(f"{text!r} is not a setting", hint="write it as training.steps=300")
    try:
        parsed: Any = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    for name in reversed(names):
        parsed = {name: parsed}
    assert isinstance(parsed, dict)
    return parsed


def merge(*parts: Raw) -> Raw:
    """Merges nested values; later parts override earlier ones."""
    merged: Raw = {}
    for part in parts:
        for key, value in part.items():
            both = isinstance(value, dict) and isinstance(merged.get(key), dict)
            merged[key] = merge(merged[key], value) if both else value
    return merged


def differences(old: Raw, new: Raw, prefix: str = "") -> list[str]:
    """The changed values, such as `model.dropout was 0.1 and is 0.3`."""
    changes = []
    for key in sorted(old.keys() | new.keys()):
        before, after = old.get(key), new.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            changes += differences(before, after, f"{prefix}{key}.")
        elif before != after:
            changes.append(f"{prefix}{key} was {_format(before)} and is {_format(after)}")
    return changes


def _format(value: Any) -> str:
    return "not set" if value is None else repr(value)


def _error_message(error: ValidationError) -> str:
    """The first error; for an unknown key, with the most similar known one."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        near = get_close_matches(str(first["loc"][-1]), _known_keys(first["loc"][:-1]), n=1, cutoff=0.5)
        return f"unknown key {where!r}" + (f"; did you mean {near[0]!r}?" if near else "")
    if first["type"] == "missing":
        return f"{where} is missing"
    if first["type"] == "model_type":
        return (
            f"{where} is a section of the recipe: set one of its values, such as {where}.{_known_keys(first['loc'])[0]}"
        )
    message = first["msg"].removeprefix("Value error, ")
    value = first.get("input")
    shown = f" (it is {value!r})" if isinstance(value, str | int | float) else ""
    return f"{where}: {message}{shown}" if where else message


def _known_keys(loc: tuple[int | str, ...]) -> list[str]:
    """The valid keys of a section, by its location in the recipe."""
    section: Any = Recipe
    for part in loc:
        if isinstance(part, int):
            section = CorpusConfig
        else:
            kind = section.model_fields[part].annotation
            section = kind if isinstance(kind, type) else CorpusConfig
    return list(section.model_fields)
