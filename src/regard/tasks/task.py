"""The interface of a task: everything that differs between translating, classifying and so on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel

from regard.artifact import Description, LoadedModel
from regard.data import Batch, Collator, Examples, fixed_order
from regard.errors import UserError
from regard.evaluate.significance import Interval
from regard.metrics import Measure
from regard.models import Defaults, Sizes
from regard.training import TrainingConfig, Validation

Raw = dict[str, Any]  # the values of a recipe, or of part of one, as read from TOML


class OnProgress(Protocol):
    """Called with the progress of a stage of the preparation; `total` is None where it is unknown."""

    def __call__(self, stage: str, done: int, total: int | None) -> None: ...


class Examined(NamedTuple):
    """The values of the recipe that depend on the data, and reports about the data for the journal."""

    values: Raw
    reports: Sequence[Raw] = ()


class Inherited(NamedTuple):
    """What fine-tuning takes from the model it starts from."""

    values: Raw  # become part of the recipe
    fixed: Raw  # may be given too, but not differ


@dataclass(frozen=True, kw_only=True)
class Data:
    """Prepared training and validation data."""

    train: Examples
    validation: Examples
    collate: Collator  # of the training examples
    collate_validation: Collator
    n_targets: int  # of the training examples, for example target tokens
    sizes: Sizes
    assets: Mapping[str, bytes]  # files of the model directory
    facts: Mapping[str, Any]  # about the data, stored with the model
    tokenizers: Any = None  # a TokenizerPair, for models that read text
    weights: NDArray[np.floating] | None = None  # how often each training example occurs in an epoch; None: once
    counts: Mapping[str, int] = field(default_factory=dict)  # shown with the plan

    @property
    def n_shown(self) -> tuple[int, int]:
        """The size of the training and of the validation data, in what `Task.examples` says."""
        return len(self.train), len(self.validation)

    @property
    def cost_lengths(self) -> tuple[NDArray[np.integer], ...]:
        """(n_examples,) for each side of the training examples: what `Model.cost` is asked for."""
        return tuple(side + 1 for side in self.train.lengths)

    def validation_batches(self, max_tokens: int) -> Iterator[Batch]:
        """The validation examples in batches of similar length, the same every time."""
        return fixed_order(self.validation, self.collate_validation, max_tokens)


class Prediction(Protocol):
    """What a model says about one input."""

    @property
    def text(self) -> str:
        """On one line."""
        ...

    def to_dict(self) -> dict[str, Any]: ...


class Predictor(Protocol):
    """A loaded model: inputs in, as many predictions out. An input is a line of text, or a JSON value.

    `regard serve` calls it from one thread, other than the one that loaded it.
    """

    def predict(self, inputs: Sequence[Any]) -> Sequence[Prediction]:
        """Raises UserError for an input that the model cannot read."""
        ...

    def close(self) -> None: ...


class Evaluation(NamedTuple):
    """The measures of a predictor on test files."""

    metrics: Mapping[str, float]
    n_examples: int
    intervals: Mapping[str, Interval] = {}  # of some measures, 95%
    details: Mapping[str, Any] = {}  # more results, for JSON
    unit: str = "examples"
    text: str = ""  # more results, for the terminal
    draw: Callable[[], Any] | None = None  # a Picture


D = TypeVar("D", bound=Data)

_N_SAMPLES = 3  # validation examples that the report shows


def sample_places(n_examples: int) -> list[int]:
    """Evenly spaced, because files are often sorted."""
    n = min(_N_SAMPLES, n_examples)
    return [(2 * i + 1) * n_examples // (2 * n) for i in range(n)]


def finding(severity: str, kind: str, message: str) -> dict[str, str]:
    """Something that was found out about the data: part of a report."""
    return {"severity": severity, "kind": kind, "message": message}


class Task(ABC, Generic[D]):
    """One kind of problem, with its own data, measures and predictions.

    `recipe` is a Recipe with the sections of this task.
    """

    name: ClassVar[str]
    title: ClassVar[str]  # of the model card
    usage: ClassVar[str]  # a command, for the model card
    sections: ClassVar[Mapping[str, type[BaseModel]]]  # of a recipe, besides [model] and [training]
    architecture: ClassVar[str]  # the default
    measures: ClassVar[tuple[Measure, ...]]  # in the order in which they are shown; "loss" is one of them
    test_measures: ClassVar[tuple[Measure, ...]] = ()  # more of them, which only `evaluate` has
    examples: ClassVar[str] = "examples"  # what the training data consists of
    unit: ClassVar[str] = "tokens"  # what training processes per second
    defaults: ClassVar[Defaults | None] = None  # in place of the architecture's
    reads_files: ClassVar[bool] = False  # on the command line, an input is the path of a file
    evaluated_with: ClassVar[frozenset[str]] = frozenset()  # attributes of a predictor to set: memory, on_progress
    stand_in: ClassVar[Mapping[str, Any]] = {}  # a [data] section for a text that is not at hand; see `stated`
    starts_from: ClassVar[tuple[str, ...]] = ()  # the tasks whose models can be fine-tuned; without any, only its own

    def check(self, recipe: Any) -> None:
        """Raises ValueError for values of a recipe that do not go together."""

    def inherit(self, parent: Description) -> Inherited:
        """For fine-tuning: values of the sections that follow from the model to start from."""
        return Inherited({}, {})

    def continues(self, parent: Description, data: D) -> bool:
        """Whether the outputs are those of the model to start from; if not, `Model.own_parts` are new."""
        return parent.task == self.name

    def stated(self, recipe: Any, n_examples: int, lengths: Sequence[int]) -> D:
        """Random tokens in place of a text that is not at hand: so many examples of these lengths, for a plan."""
        raise NotImplementedError

    @abstractmethod
    def examine(self, recipe: Any, on_progress: OnProgress) -> Examined:
        """Reads all data once, so that errors in it are found before any time is spent on training."""

    @abstractmethod
    def prepare(self, recipe: Any, parent: Description | None, cache: Path, on_progress: OnProgress) -> D:
        """Data as numbers, built where it is missing in the directory `cache` or belongs to other files."""

    @abstractmethod
    def describe_data(self, recipe: Any, data: D) -> str:
        """One line for the model card; it names files and quotes none."""

    @abstractmethod
    def validate(self, model: Any, data: D, config: TrainingConfig, device: torch.device) -> Validation:
        """The measures of a model on the validation data."""

    def finish(self, loaded: LoadedModel, data: D, config: TrainingConfig, device: torch.device) -> Raw:
        """Facts about a trained model, such as its best decoding options; stored with the model."""
        return {}

    def export(self, loaded: LoadedModel, directory: Path) -> None:
        """Adds files to a new model directory, such as the weights in another format."""

    def measure_export(
        self, loaded: LoadedModel, directory: Path, data: D, config: TrainingConfig, parent: Description | None
    ) -> Raw:
        """Facts about the files that `export` wrote, and about the difference to the model to start from."""
        return {}

    @abstractmethod
    def predictor(self, described: Description) -> Predictor:
        """Loads a model."""

    @abstractmethod
    def evaluate(self, predictor: Any, files: Sequence[Path]) -> Evaluation:
        """Measures a model on test files; their meaning depends on the task."""

    def join(self, evaluations: Sequence[Evaluation]) -> Evaluation:
        """One result from those of several models, each on files of its own."""
        raise UserError(f"models of the task {self.name} are evaluated one by one", hint="give one of them")

    @abstractmethod
    def look(self, described: Description, value: Any) -> Any:
        """Everything that a model computes for one input: a Look of a translator, or a SiteLook."""
