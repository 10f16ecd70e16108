"""The models of a service: loaded, named after their directories, and which languages each is for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from regard.artifact import Description, search_options
from regard.artifact.directory import read_tensor_shapes
from regard.decoding.options import DecodingOptions
from regard.engines.engine import n_cores
from regard.errors import ArtifactError
from regard.serve.batching.batcher import Translates
from regard.text.languages import Languages
from regard.translator import Translator

_MAX_HEADER_BYTES = 10_000_000
_COUNTED_CHARACTERS = 1_000  # of a longer text, the tokens are estimated from so many


@dataclass(frozen=True, eq=False)
class ServedModel:
    """One model: what translates, and what is known of it."""

    name: str
    translators: Sequence[Translates]  # one a core, alike
    source: str | None = None
    targets: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)  # what GET /v1/models says besides
    described: Description | None = None
    run: Path | None = None  # the run directory, when it is there
    tags: tuple[str, ...] = ()  # target languages that the model itself is told
    load: Callable[[], ServedModel] | None = None  # of a run that trains: the model, once it is there

    @property
    def ready(self) -> bool:
        return bool(self.translators)

    @property
    def options(self) -> DecodingOptions:
        """How it searches, unless a request says otherwise."""
        return DecodingOptions() if self.described is None else search_options(self.described.facts)

    def count_tokens(self, text: str) -> int:
        """Sub-words of a text; of a long one an estimate, so that counting never takes long."""
        if self.described is None:
            return 1 + len(text) // 4
        start = text[:_COUNTED_CHARACTERS]
        n_tokens = len(self.described.tokenizers.source.encode(start))
        return max(1, round(n_tokens * len(text) / max(1, len(start))))

    def tag_of(self, target: str | None) -> str | None:
        """What the Translator has to be told of the language: nothing, unless the model knows several."""
        if not self.tags:
            return None
        return target or self.tags[0]

    def suits(self, source: str | None, target: str | None) -> bool:
        """Whether it can be asked for this pair; a model that does not say its languages is for any."""
        return (source is None or self.source in (None, source)) and (
            target is None or not self.targets or target in self.targets
        )


def load_models(paths: Sequence[str | Path], *, n_engines: int | None = None) -> list[ServedModel]:
    """Every model, ready to translate, or a run that will have one; named after the directories, made different."""
    names = _names([Path(path).resolve() for path in paths])
    return [_load_or_expect(Path(path), name, n_engines) for path, name in zip(paths, names, strict=True)]


def has_model(path: Path) -> bool:
    return any((one / "config.json").exists() for one in (path, path / "model"))


def _load_or_expect(path: Path, name: str, n_engines: int | None) -> ServedModel:
    if has_model(path) or not (path / "recipe.toml").is_file():
        return _load(path, name, n_engines)
    return ServedModel(name=name, translators=(), run=path, load=lambda: _load(path, name, n_engines))


def _load(path: Path, name: str, n_engines: int | None) -> ServedModel:
    first = Translator.load(path, threads=1)
    described = first.described
    translators = [first]
    if first.engine.name == "ctranslate2":
        n_engines = n_engines or n_cores()
        translators += [Translator.load(path, threads=1) for _ in range(n_engines - 1)]
    tags = described.tokenizers.source.tags
    for translator in translators:  # the first call takes memory and time: not a client's
        translator.translate(["."], target=tags[0] if tags else None)
    spoken = Languages.from_facts(described.facts)  # a stranger's model may say anything there
    sizes = {key: described.model.get(key) for key in ("d_model", "n_encoder_layers", "n_decoder_layers", "n_heads")}
    facts = {"engine": first.engine.name, "n_parameters": _count_parameters(described.directory), **sizes}
    run = described.directory.parent
    return ServedModel(
        name=name,
        translators=translators,
        source=spoken.source,
        targets=spoken.targets or tags,
        facts=facts,
        described=described,
        run=run if (run / "journal.jsonl").is_file() else None,
        tags=tags,
    )


def _names(paths: Sequence[Path]) -> list[str]:
    """The run's name (`model` says nothing), with a number behind when two are alike."""
    names: list[str] = []
    for path in paths:
        base = path.parent.name if path.name == "model" and path.parent.name else path.name
        name, number = base, 2
        while name in names:
            name, number = f"{base}-{number}", number + 1
        names.append(name)
    return names


def _count_parameters(directory: Path) -> int | None:
    """From the header of the weights; None if it cannot be read."""
    try:
        shapes = read_tensor_shapes(directory / "model.safetensors", _MAX_HEADER_BYTES)
    except ArtifactError:
        return None
    return sum(prod(shape) for _, shape in shapes.values())
