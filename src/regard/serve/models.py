"""The models of a service: loading, naming, and the languages of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

from regard.artifact import Description, describe, search_options
from regard.artifact.directory import read_tensor_shapes
from regard.decoding.options import DecodingOptions
from regard.errors import ArtifactError
from regard.processes import n_cores
from regard.tasks.predictors import load_predictor, task_of
from regard.text.languages import Languages
from regard.translator import Translator
from regard.translator.splitting import Splitter

_INSIDE_A_RUN = ("model", "checkpoint-model")
_MAX_HEADER_BYTES = 10_000_000
_MAX_COUNTED_CHARACTERS = 1_000  # the number of tokens of longer texts is extrapolated


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A model with its predictors and, if it translates, its languages."""

    name: str
    predictors: Sequence[Any]  # translators: one per core; of another task: one; none while the model trains
    task: str | None = Translator.task  # None: not known yet, because the model trains
    source: str | None = None
    targets: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)  # more fields for GET /v1/models
    description: Description | None = None
    run: Path | None = None  # the run directory, if available
    tags: tuple[str, ...] = ()  # target languages of a multilingual model, which needs one as input
    load: Callable[[], ServedModel] | None = None  # for a run that still trains: loads the finished model

    @property
    def ready(self) -> bool:
        return bool(self.predictors)

    @property
    def translates(self) -> bool:
        return self.task in (Translator.task, None)

    @cached_property
    def reads_files(self) -> bool:
        """Whether inputs are files in base64, such as images."""
        if self.translates or self.description is None:
            return False
        return task_of(self.description).reads_files

    @property
    def options(self) -> DecodingOptions:
        """The model's default search options."""
        return DecodingOptions() if self.description is None else search_options(self.description.facts)

    @cached_property
    def splitter(self) -> Splitter:
        return Splitter({} if self.description is None else self.description.facts)

    def count_tokens(self, text: str) -> int:
        """The number of tokens of a text; an estimate for long texts, so that counting is always fast."""
        if self.description is None or not self.description.has_tokenizers:
            return 1 + len(text) // 4
        start = text[:_MAX_COUNTED_CHARACTERS]
        n_tokens = len(self.description.tokenizers.source.encode(start))
        return max(1, round(n_tokens * len(text) / max(1, len(start))))

    def target_tag(self, target: str | None) -> str | None:
        """The target language to pass to the Translator; None if the model has only one."""
        if not self.tags:
            return None
        return target or self.tags[0]

    def supports(self, source: str | None, target: str | None) -> bool:
        """Whether the model translates this pair; a model with unknown languages supports any."""
        return (source is None or self.source in (None, source)) and (
            target is None or not self.targets or target in self.targets
        )


def load_models(paths: Sequence[str | Path], *, n_engines: int | None = None) -> list[ServedModel]:
    """Loads models; a run that still trains gets a ServedModel that is not ready. Names are unique."""
    names = _unique_names([Path(path).resolve() for path in paths])
    return [_load_or_wait(Path(path), name, n_engines) for path, name in zip(paths, names, strict=True)]


def has_model(path: Path) -> bool:
    return any((directory / "config.json").exists() for directory in (path, path / "model"))


def _load_or_wait(path: Path, name: str, n_engines: int | None) -> ServedModel:
    if has_model(path) or not (path / "recipe.toml").is_file():
        return _load(path, name, n_engines)
    return ServedModel(name=name, predictors=(), task=None, run=path, load=lambda: _load(path, name, n_engines))


def _load(path: Path, name: str, n_engines: int | None) -> ServedModel:
    description = describe(path)
    run = description.directory.parent
    translates = description.task == Translator.task
    predictors: list[Any] = _load_translators(description, n_engines) if translates else [load_predictor(description)]
    tags = description.tokenizers.source.tags if translates else ()
    languages = Languages.from_facts(description.facts)  # validated: the file may come from anywhere
    return ServedModel(
        name=name,
        predictors=predictors,
        task=description.task,
        source=languages.source,
        targets=languages.targets or tags,
        facts={
            "architecture": description.architecture,
            "size": description.size,
            "config": description.model,
            "n_parameters": _count_parameters(description.directory),
            "engine": predictors[0].engine.name if translates else None,
            "image": getattr(predictors[0], "image_size", None),
            "is_one_input": getattr(predictors[0], "is_one_input", False),
        },
        description=description,
        run=run if (run / "journal.jsonl").is_file() else None,
        tags=tags,
    )


def _load_translators(description: Description, n_engines: int | None) -> list[Translator]:
    translators = [Translator.load(description, threads=1)]
    if translators[0].engine.name == "ctranslate2":
        translators += [Translator.load(description, threads=1) for _ in range((n_engines or n_cores()) - 1)]
    tags = description.tokenizers.source.tags
    for translator in translators:  # warm up: the first call allocates memory and is slow
        translator.translate(["."], target=tags[0] if tags else None)
    return translators


def _unique_names(paths: Sequence[Path]) -> list[str]:
    """The directory's name, or the run's for a model inside a run, with a number if two are equal."""
    names: list[str] = []
    for path in paths:
        base = path.parent.name if path.name in _INSIDE_A_RUN and path.parent.name else path.name
        name, number = base, 2
        while name in names:
            name, number = f"{base}-{number}", number + 1
        names.append(name)
    return names


def _count_parameters(directory: Path) -> int | None:
    """Reads the header of the weights; None if it cannot be read."""
    try:
        shapes = read_tensor_shapes(directory / "model.safetensors", _MAX_HEADER_BYTES)
    except ArtifactError:
        return None
    return sum(prod(shape) for _, shape in shapes.values())
