"""What a training will cost, before anything is spent. Everything is prepared in a temporary directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

import torch

from regard.errors import RecipeError, UserError
from regard.models import Model
from regard.run.build import PreparedRun, describe_parent, prepare_run
from regard.run.callbacks import Callbacks
from regard.run.defaults import default_intervals, drop_step_counts
from regard.run.forecast.clusters import SECONDS_PER_KERNEL, Cluster, utilisation
from regard.run.forecast.sample import MAX_BYTES, sample_text, text_bytes
from regard.run.forecast.storage import Probe, directory_bytes, disk_bytes, model_bytes, probe
from regard.run.forecast.trial import Trial, run_trial
from regard.run.forecast.work import Work, is_sequential, measure_work
from regard.run.plan import TRIAL_STEPS, Speed, complete, examine_and_prepare
from regard.run.recipe import Recipe, merge, read_recipe
from regard.tasks import TASKS, Raw
from regard.training import check_precision, fast_matmul, has_fast_bfloat16, keep_freed_memory
from regard.training.budget import RESERVED_SECONDS, VALIDATIONS_AT_END
from regard.training.optimizers import declared_matrices

_FORWARD_AND_BACKWARD, _KERNELS_OF_MUON = 3, 10
MAX_STATED = 20_000  # examples of random tokens; more are not needed to know the batches


class Stated(NamedTuple):
    """A text that is not at hand."""

    n_examples: int
    lengths: tuple[int, ...]  # tokens of an example, per side


@dataclass(frozen=True, kw_only=True)
class Question:
    """What to plan."""

    given: Raw  # values of a recipe
    fill_defaults: bool = False  # as for `regard.train`
    run: Path | None = None  # the directory of a run, whose prepared text is read
    stated: Stated | None = None
    cluster: Cluster | None = None  # in place of this machine
    device: torch.device
    took: float | None = None  # seconds that the training took on the cluster, if that is known
    price: float | None = None  # per hour, of the machine or of the whole cluster
    spent_seconds: float = 0.0  # before this: a training imports the same libraries


class Range(NamedTuple):
    """From the best case to the worst; equal where it was measured."""

    low: float
    high: float

    def times(self, factor: float) -> Range:
        return Range(self.low * factor, self.high * factor)


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What a training will cost."""

    task: str
    architecture: str
    size: str
    model: Raw  # that section of the recipe
    precision: str
    parameters: int
    examples: dict[str, Any]  # their number and unit, and where they come from: "text", "sample" or "stated"
    steps: int
    epochs: float
    work: Work
    memory: dict[str, int]  # bytes by part, of one GPU if there is a cluster
    memory_source: str
    disk: dict[str, int]  # bytes by part
    step_seconds: Range | None  # None if it does not fit into the memory of this machine
    seconds: dict[str, Range]  # of the whole training, by part
    budget_seconds: float | None
    where: str
    n_gpus: int = 0
    hardware_flops: Range | None = None  # as the paper counts: time × GPUs × their peak
    utilisation: Range | None = None
    notes: tuple[str, ...] = ()
    cost: Range | None = None

    @property
    def total_seconds(self) -> Range | None:
        """Of the whole training. One with a budget takes as long as it is given."""
        if self.step_seconds is None:
            return None
        parts = self.seconds.values()
        low, high = sum(part.low for part in parts), sum(part.high for part in parts)
        return Range(low, high) if self.budget_seconds is None else Range(self.budget_seconds, self.budget_seconds)

    @property
    def flops(self) -> dict[str, float]:
        """Of the whole training."""
        work = self.work
        return {
            "without_padding": self.steps * work.flops,
            "with_padding": self.steps * work.padded_flops,
            "optimizer": float(self.steps * work.optimizer_flops),
            "per_token": work.flops / work.n_tokens,
            "per_step": work.computed_flops,
        }

    def to_dict(self) -> dict[str, Any]:
        total = self.total_seconds
        fields = {name: _plain(getattr(self, name)) for name in asdict(self) if name not in ("work", "examples")}
        step = {"tokens": self.work.n_tokens, "examples": self.work.n_examples}
        return fields | {
            "examples": self.examples,
            "step": step | {"padding_share": 1 - self.work.flops / self.work.padded_flops},
            "flops": self.flops,
            "memory_total": sum(self.memory.values()),
            "disk_total": sum(self.disk.values()),
            "total_seconds": _plain(total),
        }


def _plain(value: Any) -> Any:
    if isinstance(value, Range):
        return list(value)
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return list(value) if isinstance(value, tuple) else value


def forecast(question: Question, callbacks: Callbacks | None = None) -> Forecast:
    """Plans a training. What has to be written for it is written to a temporary directory."""
    callbacks = callbacks or Callbacks()
    with TemporaryDirectory(prefix="regard-plan-") as directory, fast_matmul():
        keep_freed_memory()
        return _Planning(question, Path(directory), callbacks).forecast()


class _Planning:
    """The state of a plan: where it is prepared, and what was measured on the way."""

    def __init__(self, question: Question, out: Path, callbacks: Callbacks) -> None:
        self._question, self._out, self._callbacks = question, out, callbacks
        self._notes: list[str] = []
        self._trial: Trial | None = None
        self._probed: tuple[Any, Probe] | None = None
        self._scale = 1.0
        self._source = "text"

    def forecast(self) -> Forecast:
        question, device = self._question, self._question.device
        started_at = perf_counter()
        prepared, values, fill_defaults = self._prepare()
        prepared_seconds = (perf_counter() - started_at) * self._scale
        fast_bfloat16 = has_fast_bfloat16(device)
        if question.cluster is not None:
            fast_bfloat16 = question.cluster.gpu.bfloat16 is not None
        now = perf_counter() - (0.0 if question.cluster is not None else prepared_seconds)
        prepared, speed = complete(
            prepared, values, fill_defaults, self._measure, fast_bfloat16, now, scale=self._scale
        )
        return self._result(prepared, speed, prepared_seconds)

    def _prepare(self) -> tuple[PreparedRun, Raw, bool]:
        """The data, the values that were given or follow from it, and whether others are filled in."""
        question, out, callbacks = self._question, self._out, self._callbacks
        if question.run is not None:
            if not (question.run / "recipe.toml").exists():
                hint = "give a recipe, or the directory of a run"
                raise UserError(f"{question.run} is not a run directory", hint=hint)
            stored = Recipe.build(merge(read_recipe(question.run / "recipe.toml"), question.given))
            with _borrowed_data(question.run, out):
                return prepare_run(stored, describe_parent(stored), out, callbacks), stored.raw(), False
        given = question.given
        if question.fill_defaults:
            given, _ = drop_step_counts(given)
            given = merge(default_intervals(given), given)
        if question.stated is not None:
            return *self._stated(given, question.stated), question.fill_defaults
        if question.cluster is None:
            check_precision(Recipe.build(given).training.precision, question.device)
        if text_bytes(given) > MAX_BYTES:
            given = self._sampled(given)
        return *examine_and_prepare(given, out, callbacks), question.fill_defaults

    def _stated(self, given: Raw, stated: Stated) -> tuple[PreparedRun, Raw]:
        task = TASKS.get(given.get("task", "translation"), TASKS["translation"])
        if not task.stand_in:
            raise UserError(f"models of the task {task.name} cannot be planned without a text", hint="give its files")
        values = merge({"data": dict(task.stand_in)}, given)
        recipe = Recipe.build(values)
        enough = 20 * recipe.training.max_tokens // max(stated.lengths, default=1)  # for so many batches
        n = min(stated.n_examples, max(MAX_STATED, enough))
        data = task.stated(recipe, n, stated.lengths)
        self._scale, self._source = stated.n_examples / n, "stated"
        return PreparedRun(recipe, describe_parent(recipe), data), values

    def _sampled(self, given: Raw) -> Raw:
        """The recipe with every n-th line of its text."""
        self._callbacks.on_progress("taking a sample of the text", 0, None)
        every = -(-text_bytes(given) // MAX_BYTES)
        sample, counts = sample_text(given, self._out, {"train": lambda number: number % every == 0})
        if given["data"].get("validation"):
            sample = merge(sample, {"data": {"validation": given["data"]["validation"]}})
        self._scale, self._source = counts["all"] / max(1, counts["train"]), "sample"
        self._notes.append(
            f"planned from {counts['train']:,} of the {counts['all']:,} lines of the text: the vocabulary, lengths and "
            "the time of preparation are estimates"
        )
        return merge(sample, _default_vocabulary(given, counts["all"]))

    def _measure(self, prepared: PreparedRun) -> Speed:
        """The time of a step: by trial steps here, or of the cluster."""
        self._callbacks.on_progress("measuring the training speed", 0, None)
        work = measure_work(prepared, self._scale)
        if self._question.cluster is not None:
            seconds = self._cluster_step(prepared, work)
            return Speed((seconds.low + seconds.high) / 2, 1)
        try:
            self._trial = run_trial(prepared, work, self._out, self._question.device, self._source != "stated")
        except RecipeError as error:  # it does not fit into the memory of this machine
            self._trial = None
            self._notes.append(f"here: {error.message}")
            return Speed(1.0, 1)
        return Speed(self._trial.seconds_per_step, self._trial.n_processes)

    def _cluster_step(self, prepared: PreparedRun, work: Work) -> Range:
        """From the share of the peak that such a model reaches; and the exchange of gradients."""
        cluster = self._question.cluster
        assert cluster is not None
        model = prepared.spec.outline()
        network = cluster.network_seconds(4 * model.n_parameters)
        peak = cluster.peak(prepared.recipe.training.precision)
        low, high = self._utilisation(prepared, model)
        n_kernels = self._n_kernels(prepared, work)
        fastest, slowest = (n_kernels * seconds for seconds in SECONDS_PER_KERNEL)
        return Range(
            max(work.computed_flops / (peak * high), fastest) + network,
            max(work.computed_flops / (peak * low), slowest) + network,
        )

    def _n_kernels(self, prepared: PreparedRun, work: Work) -> int:
        """That a GPU starts in a step: a backward pass has about twice as many operations as the forward pass."""
        config, cluster = prepared.recipe.training, self._question.cluster
        assert cluster is not None
        per_batch = _FORWARD_AND_BACKWARD * self._probe(prepared, work).n_operations * (2 if config.r_drop else 1)
        n_muon = len(declared_matrices(prepared.spec.outline())) if config.optimizer == "muon" else 0
        return per_batch * -(-config.n_batches // cluster.n) + _KERNELS_OF_MUON * n_muon

    def _probe(self, prepared: PreparedRun, work: Work) -> Probe:
        key = (prepared.spec, prepared.recipe.training.precision, work.heaviest.tobytes())
        if self._probed is None or self._probed[0] != key:
            self._probed = key, probe(prepared, work)
        return self._probed[1]

    def _utilisation(self, prepared: PreparedRun, model: Model) -> Range:
        shape = model.cost_lengths or tuple(max(1, int(side.mean())) for side in prepared.data.cost_lengths)
        return Range(*utilisation(prepared.recipe.config.width, is_sequential(model, shape)))

    def _result(self, prepared: PreparedRun, speed: Speed, prepared_seconds: float) -> Forecast:
        question, recipe, data = self._question, prepared.recipe, prepared.data
        config, cluster, trial = recipe.training, question.cluster, self._trial
        work, model = measure_work(prepared, self._scale), prepared.spec.outline()
        if cluster is not None:
            step: Range | None = self._cluster_step(prepared, work)
        else:
            step = None if trial is None else Range(speed.seconds_per_step, speed.seconds_per_step)
        n_shown = round(self._scale * data.n_shown[0])
        result = Forecast(
            task=recipe.task,
            architecture=recipe.model.architecture,
            size=recipe.config.describe(),
            model=recipe.raw()["model"],
            precision=config.precision,
            parameters=model.n_parameters,
            examples={"n": n_shown, "unit": prepared.task.examples, "from": self._source},
            steps=config.steps,
            epochs=config.steps / work.steps_per_epoch,
            work=work,
            memory=self._memory(prepared, model, work),
            memory_source="measured" if trial is not None and trial.memory else "calculated",
            disk=disk_bytes(prepared, model, self._data_bytes()),
            step_seconds=step,
            seconds=self._seconds(prepared, step, prepared_seconds),
            budget_seconds=config.budget_seconds,
            where="here" if cluster is None else cluster.name,
            n_gpus=0 if cluster is None else cluster.n,
            notes=tuple(dict.fromkeys([*self._notes, *self._cluster_notes(prepared)])),
        )
        return self._with_hardware(result, prepared, model)

    def _data_bytes(self) -> int:
        run = self._question.run
        path = (self._out if run is None else run) / "data"
        return round(self._scale * directory_bytes(path)) if path.exists() else 0

    def _memory(self, prepared: PreparedRun, model: Model, work: Work) -> dict[str, int]:
        cluster, parts = self._question.cluster, model_bytes(model, prepared.recipe.training)
        if self._trial is not None and self._trial.memory:
            return self._trial.memory_parts(parts)
        activations = self._probe(prepared, work).activation_bytes
        if cluster is None:
            return parts | {"activations": activations}
        summed = {"sum over the GPUs": parts["gradients"]} if cluster.n > 1 else {}  # a copy, in one piece
        return parts | summed | {"activations": activations // min(cluster.n, len(work.heaviest))}

    def _seconds(self, prepared: PreparedRun, step: Range | None, prepared_seconds: float) -> dict[str, Range]:
        config, trial = prepared.recipe.training, self._trial
        if step is None:
            return {}
        training = {"training": step.times(config.steps)}
        if trial is None or self._source == "stated":
            return training
        n = -(-config.steps // config.validate_every) + len(config.validate_at)
        saves = -(-config.steps // config.save_every) * trial.save_seconds
        end = RESERVED_SECONDS + VALIDATIONS_AT_END * trial.validation_seconds
        # a training has trial steps as well, and then starts again
        start = self._question.spent_seconds + 2 * trial.setup_seconds + TRIAL_STEPS * trial.seconds_per_step
        parts = {
            "preparation": prepared_seconds + start,
            "validations": n * trial.validation_seconds,
            "checkpoints": saves,
        }
        parts["final model"] = end
        return training | {name: Range(seconds, seconds) for name, seconds in parts.items()}

    def _cluster_notes(self, prepared: PreparedRun) -> Iterator[str]:
        cluster, config = self._question.cluster, prepared.recipe.training
        if cluster is None:
            return
        if cluster.n > 1:
            share = config.max_tokens / cluster.n
            yield (
                f"{cluster.n} GPUs share the batch of the recipe: {share:,.0f} tokens each "
                f"(training.max_tokens = {max(8, round(share))} there)"
            )
        if config.precision == "bfloat16" and cluster.gpu.bfloat16 is None:
            yield f"{cluster.name} has no bfloat16: planned in float32"
        elif config.precision == "float32" and cluster.gpu.bfloat16 is not None:
            factor = cluster.gpu.bfloat16 / cluster.gpu.float32
            yield f"in bfloat16 the peak is {factor:.0f} times as high: --set training.precision=bfloat16"
        if cluster.n_hosts > 1:
            yield f"{cluster.n_hosts} hosts, with {cluster.network_gbits:g} Gbit/s between them (--network)"

    def _with_hardware(self, result: Forecast, prepared: PreparedRun, model: Model) -> Forecast:
        """With the figures that need the peak of the cluster, and the price."""
        cluster, question = self._question.cluster, self._question
        if cluster is not None:
            memory = sum(result.memory.values())
            if memory > cluster.gpu.memory:
                note = f"does not fit: {memory / 1e9:.1f} GB, and a GPU has {cluster.gpu.memory / 1e9:.0f} GB"
                result = replace(result, notes=(*result.notes, note))
            peak, total = cluster.peak(prepared.recipe.training.precision), result.total_seconds
            assert total is not None
            if question.took is not None:
                total = Range(question.took, question.took)
            counted = result.flops["without_padding"]
            hardware = total.times(peak)
            used = Range(counted / hardware.high, counted / hardware.low)
            result = replace(result, hardware_flops=hardware, utilisation=used)
        total = result.total_seconds if question.took is None else Range(question.took, question.took)
        if question.price is not None and total is not None:
            result = replace(result, cost=total.times(question.price / 3600))
        return result


def _default_vocabulary(given: Raw, n_lines: int) -> Raw:
    """The vocabulary that the whole text would get; a sample alone would get a smaller one."""
    from regard.text.vocabulary import default_vocab_size

    text = given.get("text", {})
    if given.get("task", "translation") != "translation" or given.get("start_from") or "vocabulary" in text:
        return {}
    if text.get("kind", "bpe") not in ("bpe", "unigram"):
        return {}
    return {"text": {"vocabulary": default_vocab_size(n_lines * (2 if text.get("joint", True) else 1))}}


@contextmanager
def _borrowed_data(run: Path, out: Path) -> Iterator[None]:
    """The prepared data of a run, by links: what is missing or damaged there is made anew in `out` alone."""
    (out / "data").mkdir()
    for entry in (run / "data").iterdir() if (run / "data").is_dir() else ():
        if entry.is_dir():
            (out / "data" / entry.name).symlink_to(entry.resolve(), target_is_directory=True)
    yield
