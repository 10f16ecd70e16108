"""The options of `regard train` and `regard plan`, as values of a recipe."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from regard.errors import RecipeError

if TYPE_CHECKING:
    from regard.run import Raw

_N_STREET = 40_000  # pairs of the built-in corpus
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

Files = Sequence[Path]
Generated = Literal["street", "addition", "addition-in-columns"]


@dataclass(frozen=True)
class TrainingOptions:
    """What was given on the command line: data, and values of the recipe."""

    source: Files = ()
    target: Files = ()
    tsv: Files = ()
    store: Path | None = None
    corpus: Generated | None = None
    valid_source: Path | None = None
    valid_target: Path | None = None
    labels: Files = ()
    text: Files = ()
    valid_labels: Path | None = None
    valid_text: Path | None = None
    stories: Files = ()
    valid_stories: Files = ()
    images: Files = ()
    valid_images: Files = ()
    architecture: str | None = None
    budget: str | None = None
    recipe: Path | None = None
    setting: Sequence[str] = ()
    start_from: Path | None = None
    keep: Files = ()

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Self:
        """Those of a command that are options of a training, and were given."""
        names = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in arguments.items() if name in names and value is not None})

    @property
    def has_parallel_text(self) -> bool:
        return any((self.source, self.target, self.tsv, self.valid_source, self.valid_target, self.store))


def read_settings(given: TrainingOptions, out: Path) -> "Raw":
    """The values of a recipe that the options give. A generated corpus is written to `out`."""
    from regard.cli.model_path import model_path
    from regard.run import merge, parse_setting, read_recipe

    recipe = read_recipe(given.recipe) if given.recipe is not None else {}
    start_from, architecture, budget = given.start_from, given.architecture, given.budget
    return merge(
        recipe,
        _data(given, recipe),
        _generated(given.corpus, out) if given.corpus is not None else {},
        {"data": {"keep": [{"tsv": str(file)} for file in given.keep]}} if given.keep else {},
        {"start_from": str(model_path(start_from))} if start_from is not None else {},
        {"model": {"architecture": architecture}} if architecture is not None else {},
        {"training": {"budget_seconds": parse_time(budget), "schedule": "cooldown"}} if budget is not None else {},
        *(parse_setting(text) for text in given.setting),
    )


def no_data() -> RecipeError:
    hint = "use --source and --target, --tsv, --labels, --text, --stories or --images, or --corpus street"
    return RecipeError("no training data", hint=hint)


def parse_time(text: str) -> float:
    """`20m` → 1200 seconds; also 90s, 1.5h, 2d, 1h30m."""
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise RecipeError(f"{text!r} is not a duration", hint="write for example 90s, 20m, 2h or 1h30m")
    return float(sum(float(number) * _UNITS[unit] for number, unit in parts))


def _data(given: TrainingOptions, recipe: "Raw") -> "Raw":
    """The task, and the [data] section with the files. Only one kind of data can be given."""
    has_labels, has_text = bool(given.labels or given.valid_labels), bool(given.text or given.valid_text)
    is_parallel = given.has_parallel_text or given.corpus is not None
    if given.images or given.valid_images:
        if is_parallel or has_text or given.stories or given.valid_stories or given.valid_labels:
            raise RecipeError("--images needs no text", hint="drop one of them")
        return _images(given)
    if (has_labels or has_text) and is_parallel:
        raise RecipeError("--labels and --text need no parallel text", hint="drop one of them")
    if given.stories or given.valid_stories:
        if is_parallel or has_labels or has_text:
            raise RecipeError("--stories needs no other text", hint="drop one of them")
        return _stories(given)
    if given.corpus is not None and given.has_parallel_text:
        either = f"use either --corpus {given.corpus} or your own files"
        raise RecipeError(f"--corpus {given.corpus} cannot be combined with files", hint=either)
    if has_labels:
        return _labelled(given)
    return _running_text(given, recipe) if has_text else parallel_data(given)


def parallel_data(given: TrainingOptions) -> "Raw":
    """The [data] section with files of sentences and their translations; empty if there are none."""
    if len(given.source) != len(given.target):
        raise RecipeError(
            f"{len(given.source)} --source and {len(given.target)} --target",
            hint="each source file needs a target file",
        )
    if (given.valid_source is None) != (given.valid_target is None):
        raise RecipeError("a validation set needs both --valid-source and --valid-target")
    train = [{"source": str(a), "target": str(b)} for a, b in zip(given.source, given.target, strict=True)]
    train += [{"tsv": str(file)} for file in given.tsv]
    data: dict[str, object] = {"train": train} if train else {}
    if given.valid_source is not None:
        data["validation"] = [{"source": str(given.valid_source), "target": str(given.valid_target)}]
    if given.store is not None:
        data["store"] = str(given.store)
    return {"data": data} if data else {}


def _labelled(given: TrainingOptions) -> "Raw":
    """A text and its label on a line, or the texts in files of their own."""
    if given.text and len(given.text) != len(given.labels):
        raise RecipeError(
            f"{len(given.labels)} --labels and {len(given.text)} --text", hint="each file of texts needs one of labels"
        )
    if given.valid_text is not None and given.valid_labels is None:
        raise RecipeError("--valid-text needs --valid-labels if there are --labels", hint="add their labels")

    def entry(labels: Path, text: Path | None) -> dict[str, str]:
        return {"labels": str(labels)} | ({} if text is None else {"text": str(text)})

    data: dict[str, object] = {}
    if given.labels:
        texts: Sequence[Path | None] = given.text or [None] * len(given.labels)
        data["train"] = [entry(*pair) for pair in zip(given.labels, texts, strict=True)]
    if given.valid_labels is not None:
        data["validation"] = [entry(given.valid_labels, given.valid_text)]
    return {"task": "classification", "data": data}


def _running_text(given: TrainingOptions, recipe: "Raw") -> "Raw":
    data: dict[str, object] = {"train": list(map(str, given.text))} if given.text else {}
    if given.valid_text is not None:
        data["validation"] = [str(given.valid_text)]
    return {"task": _task_of_text(given, recipe), "data": data}


def _task_of_text(given: TrainingOptions, recipe: "Raw") -> str:
    """What is learned from running text: what the recipe says, or else what the architecture is for."""
    from regard.artifact import describe
    from regard.models import ARCHITECTURES

    if "task" in recipe:
        return str(recipe["task"])
    if given.architecture is None and given.start_from is not None:
        return describe(given.start_from).task
    tasks = ARCHITECTURES[given.architecture].models if given.architecture in ARCHITECTURES else {}
    return "pretraining" if "pretraining" in tasks else "language"


def _stories(given: TrainingOptions) -> "Raw":
    if not given.stories:
        raise RecipeError("--valid-stories needs --stories", hint="add the files to train on")
    sets = {"train": given.stories, "validation": given.valid_stories}
    return {"task": "answering", "data": {name: [str(path) for path in paths] for name, paths in sets.items() if paths}}


def _images(given: TrainingOptions) -> "Raw":
    """--labels are those of IDX files, which can also be found beside them."""
    if not given.images:
        raise RecipeError("--valid-images needs --images", hint="add the images to train on")
    if given.labels and len(given.labels) != len(given.images):
        raise RecipeError(
            f"{len(given.images)} --images and {len(given.labels)} --labels", hint="give each file its labels"
        )
    train = [{"images": str(path)} for path in given.images]
    for entry, path in zip(train, given.labels, strict=False):
        entry["labels"] = str(path)
    validation = [{"images": str(path)} for path in given.valid_images]
    return {"task": "images", "data": {"train": train} | ({"validation": validation} if validation else {})}


def _generated(name: Generated, out: Path) -> "Raw":
    """A built-in corpus, written to `data/` in the run directory."""
    if name == "street":
        from regard.demo.first_run import street_text

        text, suffixes = street_text(out, _N_STREET), ("en", "de")
    else:
        from regard.demo.addition import addition_text

        text, suffixes = addition_text(out, name), ("sum", "result")

    def files(part: str) -> list[dict[str, str]]:
        source, target = (str(text / f"{part}.{suffix}") for suffix in suffixes)
        return [{"source": source, "target": target}]

    return {"data": {"train": files("train"), "validation": files("validation")}}
