"""The recipe: every value of an experiment, typed, in one TOML file. Unknown keys are refused."""

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

Raw = dict[str, Any]  # a recipe, or part of one, as TOML has it
FullPath = Annotated[Path, AfterValidator(Path.absolute)]


def _a_language(code: str) -> str:
    if not is_language_code(code):
        raise ValueError("is not the code of a language, as de, pt-BR or zh-Hans")
    return code


Language = Annotated[str, AfterValidator(_a_language)]


class CorpusConfig(BaseModel, frozen=True, extra="forbid"):
    """Two files, or one TSV; see `regard.text.Corpus`."""

    source: FullPath | None = None
    target: FullPath | None = None
    tsv: FullPath | None = None
    weight: float = Field(default=1.0, gt=0)
    tag: str | None = None  # the target language, where one model has several

    @model_validator(mode="after")
    def _is_a_corpus(self) -> Self:
        try:
            self.corpus()
        except DataError as error:
            raise ValueError(error.message) from error
        return self

    def corpus(self) -> Corpus:
        return Corpus(source=self.source, target=self.target, tsv=self.tsv, weight=self.weight, tag=self.tag)


class DataConfig(BaseModel, frozen=True, extra="forbid"):
    """What is learned from, and what is held against it."""

    train: tuple[CorpusConfig, ...] = Field(min_length=1, max_length=255)
    validation: tuple[CorpusConfig, ...] = ()
    held_out: float | None = Field(default=None, ge=0, lt=1)  # share of train that validates, when no set is given
    on_bad: Literal["raise", "skip"] = "raise"  # a line that is not text
    doctor: bool = True  # refuse what would spoil the training
    fingerprint: str | None = None  # SHA-256 of the files; written down when a run begins, then they must not change


class TextConfig(BaseModel, frozen=True, extra="forbid"):
    """Sub-words (section 5.1)."""

    kind: Literal["bpe", "unigram"] = "bpe"
    joint: bool = True  # one vocabulary for both languages
    vocabulary: int | None = Field(default=None, ge=270, le=1_000_000)  # a side, or both; unset: from the corpus
    sampling: float = Field(default=0.0, ge=0, le=1)  # BPE-dropout, or the exponent of unigram sampling; 0 is off
    max_length: int = Field(default=256, ge=1)  # sub-words; longer pairs are left out
    source_language: Language | None = None  # unset: by the names of the files, as train.en
    target_language: Language | None = None  # unset: the tags of the corpora, or by the names of the files


class ModelConfig(TransformerConfig, frozen=True, extra="forbid"):
    """An architecture's own configuration; a preset gives what is not said."""

    architecture: Literal["transformer"] = "transformer"
    preset: Literal["tiny", "small", "base", "big"] = "base"

    @model_validator(mode="before")
    @classmethod
    def _start_from_the_preset(cls, given: Any) -> Any:
        if isinstance(given, dict) and isinstance(given.get("preset"), str) and given["preset"] in PRESETS:
            return PRESETS[given["preset"]].model_dump() | given
        return given

    def config(self) -> TransformerConfig:
        return TransformerConfig.model_validate(self.model_dump(exclude={"architecture", "preset"}))


class Recipe(BaseModel, frozen=True, extra="forbid"):
    """Data + text + model + training. What is not given is the paper's base model (sections 5 and 6)."""

    start_from: FullPath | None = None  # fine-tuning: a model directory, whose vocabulary and weights go on
    start_fingerprint: str | None = None  # of its files; written down when a run begins, then they must not change
    data: DataConfig
    text: TextConfig = TextConfig()
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()

    @model_validator(mode="after")
    def _shared_matrices_need_a_shared_vocabulary(self) -> Self:
        if self.model.tie == "all" and not self.text.joint:
            raise ValueError("text.joint = false needs model.tie = 'target' or 'none'")
        return self

    @model_validator(mode="after")
    def _every_text_has_its_positions(self) -> Self:
        needed = self.text.max_length + 1  # the end symbol of the source, or the begin symbol of the target
        if self.model.positions == "learned" and self.model.max_positions < needed:
            raise ValueError(
                f"text.max_length = {self.text.max_length} needs model.max_positions = {needed} or more: "
                f"one for the begin or end symbol (it is {self.model.max_positions})"
            )
        return self

    @classmethod
    def build(cls, raw: Raw) -> Recipe:
        """From TOML's values; a RecipeError says in words what is wrong with them."""
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            raise RecipeError(_in_words(error)) from error

    def raw(self) -> Raw:
        """TOML's values, every one of them."""
        return self.model_dump(mode="json", exclude_none=True)

    def asked(self) -> Raw:
        """TOML's values, those alone that somebody gave."""
        return self.model_dump(mode="json", exclude_none=True, exclude_unset=True)

    def to_toml(self) -> str:
        return tomli_w.dumps(self.raw())

    def digest(self) -> str:
        """Changes when any value does."""
        return hashlib.sha256(self.to_toml().encode()).hexdigest()


def read_recipe(path: Path) -> Raw:
    """The values in a TOML file, not yet checked."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecipeError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path} is not TOML: {error}") from error


def parse_setting(text: str) -> Raw:
    """`training.steps=300` → {"training": {"steps": 300}}. What is not a TOML value is taken as a string."""
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
    """Nested values, later parts over earlier ones."""
    merged: Raw = {}
    for part in parts:
        for key, value in part.items():
            both = isinstance(value, dict) and isinstance(merged.get(key), dict)
            merged[key] = merge(merged[key], value) if both else value
    return merged


def differences(was: Raw, now: Raw, prefix: str = "") -> list[str]:
    """What changed, in words: `model.dropout was 0.1 and is 0.3`."""
    found = []
    for key in sorted(was.keys() | now.keys()):
        one, two = was.get(key), now.get(key)
        if isinstance(one, dict) and isinstance(two, dict):
            found += differences(one, two, f"{prefix}{key}.")
        elif one != two:
            found.append(f"{prefix}{key} was {_said(one)} and is {_said(two)}")
    return found


def _said(value: Any) -> str:
    return "not set" if value is None else repr(value)


def _in_words(error: ValidationError) -> str:
    """The first thing that is wrong; an unknown key with the nearest known one."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        near = get_close_matches(str(first["loc"][-1]), _known(first["loc"][:-1]), n=1, cutoff=0.5)
        return f"unknown key {where!r}" + (f"; did you mean {near[0]!r}?" if near else "")
    if first["type"] == "missing":
        return f"{where} is not given"
    if first["type"] == "model_type":
        return f"{where} is a section of the recipe: give one of its values, as {where}.{_known(first['loc'])[0]}"
    message = first["msg"].removeprefix("Value error, ")
    value = first.get("input")
    shown = f" (it is {value!r})" if isinstance(value, str | int | float) else ""
    return f"{where}: {message}{shown}" if where else message


def _known(loc: tuple[int | str, ...]) -> list[str]:
    """The keys that exist at a place in a recipe."""
    section: Any = Recipe
    for part in loc:
        if isinstance(part, int):
            section = CorpusConfig
        else:
            kind = section.model_fields[part].annotation
            section = kind if isinstance(kind, type) else CorpusConfig
    return list(section.model_fields)
