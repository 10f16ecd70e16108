"""The recipe: every value of an experiment, typed, in one TOML file. Unknown keys are errors."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, get_args

import tomli_w
from pydantic import BaseModel, ValidationError, create_model, model_validator

from regard.errors import RecipeError
from regard.metrics import Measure
from regard.models import ARCHITECTURES, Architecture, ModelConfig, ModelSpec, Sizes
from regard.tasks import TASKS, Raw, Task
from regard.tasks.sections import FullPath
from regard.training import TrainingConfig


class Recipe(BaseModel, frozen=True, extra="forbid"):
    """Data, model and training. The defaults are the paper's base model (sections 5 and 6).

    `build` makes a recipe with the sections of its task, such as [data] and [text], and the [model] section of its
    architecture.
    """

    task: str = "translation"
    start_from: FullPath | None = None  # fine-tuning: the model directory to start from
    start_fingerprint: str | None = None  # of that model; set when a run begins, to detect changes
    data: Any
    model: Any = None
    training: TrainingConfig = TrainingConfig()

    @model_validator(mode="after")
    def _check_task(self) -> Self:
        measures = [measure.name for measure in self.measures]
        if self.training.best_by not in measures:
            raise ValueError(f"training.best_by = '{self.training.best_by}' is not one of {', '.join(measures)}")
        self.architecture.models[self.task].check(self.config)
        TASKS[self.task].check(self)
        return self

    @property
    def measures(self) -> tuple[Measure, ...]:
        return TASKS[self.task].measures

    @property
    def architecture(self) -> Architecture:
        return ARCHITECTURES[self.model.architecture]

    @property
    def config(self) -> ModelConfig:
        """The configuration of the model: the [model] section without the names."""
        return self.architecture.config.model_validate(self.model.model_dump(exclude={"architecture", "preset"}))

    def spec(self, sizes: Sizes) -> ModelSpec:
        return ModelSpec(self.task, self.model.architecture, self.config, sizes)

    @classmethod
    def build(cls, raw: Raw) -> Recipe:
        """Builds a recipe from TOML values; raises RecipeError with a readable message."""
        task_name = raw.get("task", cls.model_fields["task"].default)
        task = _chosen(TASKS, "task", task_name)
        section = raw.get("model", {})
        name = section.get("architecture", task.architecture) if isinstance(section, dict) else task.architecture
        architecture = _chosen(ARCHITECTURES, "model.architecture", name)
        if task_name not in architecture.models:
            able = [name for name, entry in ARCHITECTURES.items() if task_name in entry.models]
            raise RecipeError(f"{name} has no model for the task {task_name}", hint=f"use one of: {', '.join(able)}")
        recipe_type = _recipe_type(task, name, architecture.config)
        try:
            return recipe_type.model_validate(raw)
        except ValidationError as error:
            raise RecipeError(_error_message(error, recipe_type)) from error

    def raw(self) -> Raw:
        """All values, for TOML."""
        return self.model_dump(mode="json", exclude_none=True)

    def explicit(self) -> Raw:
        """Only the values that were given explicitly, for TOML."""
        return self.model_dump(mode="json", exclude_none=True, exclude_unset=True)

    def to_toml(self) -> str:
        return tomli_w.dumps(self.raw())


class _WithPreset(BaseModel):
    """The values of a [model] section that are not given are those of `preset`, with the `variant` of its task."""

    variant: ClassVar[Mapping[str, Any]] = {}

    @model_validator(mode="before")
    @classmethod
    def _apply_preset(cls, given: Any) -> Any:
        fields: Any = cls.model_fields
        presets = ARCHITECTURES[fields["architecture"].default].presets
        if not isinstance(given, dict):
            return given
        if isinstance(given.get("preset"), str) and given["preset"] in presets:
            return {**presets[given["preset"]].model_dump(), **cls.variant, **given}
        return {**cls.variant, **given}


@lru_cache
def _recipe_type(task: Task[Any], name: str, config: type[ModelConfig]) -> type[Recipe]:
    """A recipe with the sections of a task and of an architecture."""
    presets = ARCHITECTURES[name].presets
    default = ARCHITECTURES[name].preset_of(config()) or next(iter(presets))
    fields: dict[str, Any] = {
        "architecture": (Literal[name], name),
        "preset": (Literal[tuple(presets)], default),
    }
    section: Any = create_model("ModelSection", __base__=(_WithPreset, config), **fields)
    section.variant = ARCHITECTURES[name].models[task.name].variant
    sections: dict[str, Any] = {
        key: (kind, ... if any(field.is_required() for field in kind.model_fields.values()) else kind())
        for key, kind in task.sections.items()
    }
    return create_model("Recipe", __base__=Recipe, **sections, model=(section, section(preset=default)))


def _chosen(table: Mapping[str, Any], key: str, name: Any) -> Any:
    if isinstance(name, str) and name in table:
        return table[name]
    near = get_close_matches(str(name), table, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"use one of: {', '.join(table)}"
    raise RecipeError(f"{key}: there is no {name!r}", hint=hint)


def identity(recipe_file: bytes) -> str:
    """The digest of a recipe.toml as it was written: it identifies the run in checkpoints and in the final model.

    It does not change when a later version of regard adds fields to recipes.
    """
    return hashlib.sha256(recipe_file).hexdigest()


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
    if isinstance(parsed, dict) and len(names) == 1:
        hint = f"set one of its values, such as {key.strip()}.{next(iter(parsed), 'NAME')}=VALUE"
        raise RecipeError(f"{key.strip()} is a section of the recipe", hint=hint)
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


def _error_message(error: ValidationError, recipe_type: type[Recipe]) -> str:
    """The first error; for an unknown key, with the most similar known one."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        near = get_close_matches(str(first["loc"][-1]), _known_keys(recipe_type, first["loc"][:-1]), n=1, cutoff=0.5)
        return f"unknown key {where!r}" + (f"; did you mean {near[0]!r}?" if near else "")
    if first["type"] == "missing":
        return f"{where} is missing"
    if first["type"] == "model_type":
        example = f"{where}.{_known_keys(recipe_type, first['loc'])[0]}"
        return f"{where} is a section of the recipe: set one of its values, such as {example}"
    message = first["msg"].removeprefix("Value error, ")
    value = first.get("input")
    shown = f" (it is {value!r})" if isinstance(value, str | int | float) else ""
    return f"{where}: {message}{shown}" if where else message


def _known_keys(recipe_type: type[BaseModel], loc: tuple[int | str, ...]) -> list[str]:
    """The valid keys of a section, by its location in the recipe."""
    section: Any = recipe_type
    for part in loc:
        if isinstance(part, str):
            kind = section.model_fields[part].annotation
            section = kind if hasattr(kind, "model_fields") else next(iter(get_args(kind)), kind)
    return list(section.model_fields)
