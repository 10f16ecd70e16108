"""What `regard plan` calculates, measures and leaves behind."""

import json
import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.artifact import describe
from regard.errors import UserError
from regard.models.transformer import Transformer, TransformerConfig
from regard.run import Raw, Recipe, merge, read_recipe, train
from regard.run.build import PreparedRun
from regard.run.forecast import curve as curve_module
from regard.run.forecast import work as work_module
from regard.run.forecast.clusters import Cluster
from regard.run.forecast.curve import measure_curve
from regard.run.forecast.forecast import Forecast, Question, Stated, forecast
from regard.run.forecast.sample import sample_text
from regard.run.forecast.storage import Probe, probe
from regard.run.forecast.table import explained, shown
from regard.run.forecast.work import measure_work, muon_flops
from regard.tasks import TASKS
from regard.training.config import TrainingConfig
from regard.training.optimizers import make_optimizer

RECIPES = Path(__file__).parents[2] / "recipes"
CPU = torch.device("cpu")
PAPER_TEXT = Stated(4_500_000, (25, 25))
TINY = {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 16, "d_ff": 32, "n_heads": 2, "norm": "pre"}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Raw:
    """A recipe with a text of 400 short pairs."""
    folder = tmp_path_factory.mktemp("text")
    for side in ("en", "de"):
        lines = [f"{side} " * (i % 7) + f"sentence number {i * 7919 % 1000}" for i in range(400)]
        (folder / f"train.{side}").write_text("".join(f"{line}\n" for line in lines))
    data = {"train": [{"source": str(folder / "train.en"), "target": str(folder / "train.de")}]}
    training = {"steps": 6, "max_tokens": 256, "optimizer": "muon", "save_every": 3, "validate_every": 3, "average": 1}
    return {"data": data, "text": {"vocabulary": 300}, "model": TINY, "training": training | {"translated": 5}}


@pytest.fixture(scope="module")
def planned(text: Raw) -> Forecast:
    return forecast(Question(given=text, device=CPU))


def paper(name: str, hours: float) -> Forecast:
    given = read_recipe(RECIPES / f"wmt14-{name}.toml")
    cluster = Cluster.parse("8xP100")
    return forecast(Question(given=given, stated=PAPER_TEXT, cluster=cluster, took=3600 * hours, device=CPU))


@pytest.mark.parametrize(
    ("name", "hours", "parameters", "counted", "as_the_paper"),
    [("en-de-base", 12, 63_082_496, "9.5e+17", "3.3e+18"), ("en-de-big", 84, 214_245_376, "9.7e+18", "2.3e+19")],
)
def test_the_models_of_the_paper(
    name: str, hours: float, parameters: int, counted: str, as_the_paper: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.run.forecast.forecast.probe", lambda *_: Probe(0, 0))  # which builds the weights
    result = paper(name, hours)
    assert result.parameters == parameters
    assert result.hardware_flops is not None
    assert [f"{result.flops['without_padding']:.1e}", f"{result.hardware_flops.low:.1e}"] == [counted, as_the_paper]
    table = shown(result)
    assert f"as counted {counted}" in table and f"as the paper counts {as_the_paper}" in table


def prepared_of(lengths: tuple[int, int], n: int = 64, **training: Any) -> PreparedRun:
    raw = {"data": {"train": [{"tsv": "stated"}]}, "text": {"vocabulary": 300}, "model": TINY, "training": training}
    recipe = Recipe.build(raw)
    return PreparedRun(recipe, None, TASKS["translation"].stated(recipe, n, lengths))


def test_work_is_the_sum_over_the_batches_of_an_epoch() -> None:
    prepared = prepared_of((9, 4), max_tokens=100, accumulate=2, r_drop=1.0)
    source = np.array([3 + i % 9 for i in range(64)])
    prepared.data.train.__dict__["lengths"] = (source, source // 2 + 1)
    model, work = prepared.spec.build(), measure_work(prepared)
    order = prepared.loader.epoch_order(0)
    real = padded = 0
    for batch in (order[i] for i in range(len(order))):
        pairs = [(int(source[i]) + 1, int(source[i]) // 2 + 2) for i in batch]
        real += sum(3 * model.cost(*pair).flops for pair in pairs)
        widest = model.cost(max(s for s, _ in pairs), max(t for _, t in pairs))
        outputs = sum(model.cost(*pair).output for pair in pairs)
        padded += 3 * (len(batch) * (widest.flops - widest.output) + outputs)
    per_step = 2 * 2 / len(order)  # two passes of two batches
    assert work.flops == pytest.approx(per_step * real)
    assert work.padded_flops == pytest.approx(per_step * padded)
    assert real < padded
    assert work.steps_per_epoch == len(order) // 2


def test_many_lengths_are_interpolated_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = prepared_of((9, 4), n=200, max_tokens=500)
    rng = np.random.default_rng(1)
    prepared.data.train.__dict__["lengths"] = (rng.integers(1, 60, 200), rng.integers(1, 60, 200))
    computed = measure_work(prepared)
    monkeypatch.setattr(work_module, "MAX_LENGTHS", 20)
    assert measure_work(prepared)[:4] == pytest.approx(computed[:4])


def test_products_of_muon_are_those_that_are_counted() -> None:
    model = Transformer(TransformerConfig(**TINY), n_src_symbols=50, n_tgt_symbols=50)
    optimizer = make_optimizer(TrainingConfig(optimizer="muon"), model)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    with FlopCounterMode(display=False) as counter:
        optimizer.step()
    assert muon_flops(model) == counter.get_total_flops()


def test_activations_grow_with_the_batch() -> None:
    sizes = []
    for n in (100, 200, 400):
        prepared = prepared_of((9, 9), n=n, max_tokens=10 * n)
        work = measure_work(prepared)
        sizes.append(probe(prepared, work._replace(heaviest=np.arange(n))).activation_bytes)
    assert sizes[2] - sizes[1] == 2 * (sizes[1] - sizes[0]) > 0


def test_a_plan_has_every_part(planned: Forecast) -> None:
    values = json.loads(json.dumps(planned.to_dict()))
    assert values["task"] == "translation" and values["examples"]["unit"] == "pairs"
    assert values["flops"]["with_padding"] > values["flops"]["without_padding"] > 0 < values["flops"]["optimizer"]
    assert values["memory"]["weights"] == values["memory"]["gradients"] == 4 * values["parameters"]
    assert values["memory_total"] == sum(values["memory"].values()) and values["memory_source"] == "measured"
    assert {"training", "preparation", "validations", "checkpoints", "final model"} == set(values["seconds"])
    assert values["total_seconds"][0] == pytest.approx(sum(low for low, _ in values["seconds"].values()))
    assert {"weights", "gradients", "optimizer", "program and text"} < set(values["memory"])
    table = shown(planned)
    labels = [line.split(" ")[0] for line in table.splitlines() if not line.startswith(" ")]
    assert labels == ["model", "text", "steps", "FLOPs", "memory", "disk", "time"]
    assert "trial steps" in explained(planned, None)


def test_a_gpu_has_to_start_every_operation(text: Raw) -> None:
    """However fast it computes them."""
    device, cluster = CPU, Cluster.parse("2xB200")
    small, deep = (
        forecast(Question(given=merge(text, {"model": {"n_encoder_layers": n}}), device=device, cluster=cluster))
        for n in (1, 3)
    )
    assert small.step_seconds is not None and deep.step_seconds is not None and small.utilisation is not None
    assert 1e-3 < small.step_seconds.low < deep.step_seconds.low < small.step_seconds.high
    assert small.utilisation.high < 0.001
    assert small.memory["sum over the GPUs"] == small.memory["gradients"]


def test_disk_is_that_of_the_finished_run(text: Raw, planned: Forecast, tmp_path: Path) -> None:
    train(text, tmp_path / "run", device="cpu")
    sizes = [file.stat().st_size for file in (tmp_path / "run" / "checkpoints").rglob("*.safetensors")]
    assert describe(tmp_path / "run").facts["n_parameters"] == planned.parameters
    n_kept = len(list((tmp_path / "run" / "checkpoints").glob("step-*")))
    assert sum(sizes) / n_kept == pytest.approx(planned.disk["checkpoints"] / 2, rel=0.15)
    model = [file.stat().st_size for file in (tmp_path / "run" / "model").rglob("*") if "model" in file.name]
    assert sum(model) == pytest.approx(planned.disk["model"], rel=0.15)


def test_nothing_is_written(text: Raw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for a recipe, nor for a run, whose text is read where it is."""
    run, temporary = tmp_path / "run", tmp_path / "temporary"
    train(text, run, device="cpu")
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.chdir(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path != temporary}
    encoded: list[str] = []
    monkeypatch.setattr("regard.tasks.translation.prepare.write_store", lambda *_, **__: encoded.append("a store"))
    result = forecast(Question(given={}, run=run, device=CPU))
    assert result.steps == 6 and not encoded
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path != temporary}
    assert list(temporary.iterdir()) == []


def test_a_large_text_is_planned_from_a_sample(text: Raw, planned: Forecast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.run.forecast.forecast.MAX_BYTES", 8_000)
    result = forecast(Question(given=text, cluster=Cluster.parse("T4"), device=CPU))
    assert result.examples["from"] == "sample"
    assert result.examples["n"] == pytest.approx(planned.examples["n"], rel=0.05)
    assert result.work.n_tokens == pytest.approx(planned.work.n_tokens, rel=0.1)
    assert "of the 400 lines" in result.notes[0]


def test_parts_of_a_text_are_whole_pairs(text: Raw, tmp_path: Path) -> None:
    parts: dict[str, Callable[[int], bool]] = {"train": lambda n: n % 4 == 0, "validation": lambda n: n % 4 == 1}
    sample, counts = sample_text(text, tmp_path, parts)
    assert counts == {"train": 100, "validation": 100, "all": 400}
    [pair] = sample["data"]["train"]
    source, target = (Path(pair[side]).read_text().splitlines() for side in ("source", "target"))
    assert [line.split()[-1] for line in source] == [line.split()[-1] for line in target]
    assert Path(pair["target"]).suffix == ".de"


@pytest.mark.parametrize(
    ("task", "architecture", "n", "lengths"),
    [("language", "language", 50_000, ()), ("language", "lstm", 50_000, ()), ("translation", "gru", 5_000, (12, 9))],
)
def test_a_text_that_is_not_at_hand(task: str, architecture: str, n: int, lengths: tuple[int, ...]) -> None:
    given: Raw = {"task": task, "model": {"architecture": architecture, "preset": "tiny"}, "text": {"vocabulary": 500}}
    question = Question(given=given, fill_defaults=True, stated=Stated(n, lengths), device=CPU)
    result = forecast(Question(**{**vars(question), "cluster": Cluster.parse("2xA100")}))
    assert result.examples == {"n": n, "unit": TASKS[task].examples, "from": "stated"}
    assert result.step_seconds is not None and 0 < result.step_seconds.low < result.step_seconds.high
    assert result.precision == "bfloat16"


def test_clusters() -> None:
    eight = Cluster.parse("8xa100")
    assert eight.peak("bfloat16") == 8 * 312e12 and eight.peak("float32") == 8 * 19.5e12
    assert Cluster.parse("V100").peak("bfloat16") == 15.7e12  # it has none
    assert Cluster.parse("H200").network_seconds(10**9) == 0
    assert eight.network_seconds(10**9) == pytest.approx(2 * 7 / 8 * 1e9 / 300e9)
    two_hosts = Cluster.parse("16xA100", network_gbits=80)
    assert two_hosts.network_seconds(10**9) - eight.network_seconds(10**9) == pytest.approx(1e9 / 10e9)


@pytest.mark.parametrize("name", ["8xA10O", "0xA100", "", "x", "8x", "eight"])
def test_unknown_clusters_are_refused(name: str) -> None:
    with pytest.raises(UserError, match="is not a number of GPUs, such as 8xA100"):
        Cluster.parse(name)


def test_what_does_not_fit_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.run.forecast.forecast.probe", lambda *_: Probe(100 * 10**9, 100))
    given: Raw = {"model": TINY, "text": {"vocabulary": 300}}
    result = forecast(Question(given=given, stated=Stated(1000, (5, 5)), cluster=Cluster.parse("T4"), device=CPU))
    assert "does not fit: 100.0 GB, and a GPU has 16 GB" in result.notes


def test_a_budget_is_the_time_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    given: Raw = {"model": {"preset": "tiny"}, "training": {"budget_seconds": 3600.0, "schedule": "cooldown"}}
    question = Question(given=given, fill_defaults=True, stated=Stated(10_000, (20, 20)), device=CPU, price=4.0)
    result = forecast(Question(**{**vars(question), "cluster": Cluster.parse("A100")}))
    assert result.total_seconds is not None and result.step_seconds is not None
    assert result.total_seconds.low == result.total_seconds.high == 3600
    middle = (result.step_seconds.low + result.step_seconds.high) / 2
    assert result.steps == pytest.approx(3600 / middle, rel=0.02)
    assert result.cost == (4.0, 4.0)


def test_the_curve_trains_on_more_and_more_of_the_text(
    text: Raw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[set[str], float]] = []
    held_out: set[str] = set()

    def lines(pairs: list[dict[str, str]]) -> set[str]:
        return set(Path(pairs[0]["source"]).read_text().splitlines())

    def trained(values: Raw, out: Path, **_: Any) -> None:
        seen.append((lines(values["data"]["train"]), values["training"]["budget_seconds"]))
        held_out.update(lines(values["data"]["validation"]))

    scores = iter([10.0, 14.0, 16.0, 13.0, 10.0])  # 1/8, 1/4, 1/2 of the text; then half and a quarter of the time
    monkeypatch.setattr(curve_module, "train", trained)
    monkeypatch.setattr(
        curve_module,
        "_measured",
        lambda *_: {"steps": 1, "metrics": {"bleu": next(scores)}, "intervals": {}},
    )
    curve = measure_curve(Question(given=text, device=CPU), TINY, 375.0, tmp_path, curve_module.Callbacks())
    (eighth, _), (quarter, _), (half, _) = seen[:3]
    assert eighth < quarter < half and not half & held_out and held_out
    assert [len(part) for part in (eighth, quarter, half)] == [50, 100, 200]
    assert [seconds for _, seconds in seen] == [101, 101, 101, 51, 26]
    assert curve["gains"]["text"] == {"value": 3.0, "interval": None, "doublings": [4.0, 2.0], "changes": False}
    assert curve["gains"]["time"] == {"value": 3.0, "interval": None, "doublings": [3.0, 3.0], "changes": False}
    assert [Fraction(run["share"]) for run in curve["runs"]][:3] == [Fraction(1, 8), Fraction(1, 4), Fraction(1, 2)]


def test_the_interval_of_a_gain_follows_from_those_of_the_scores() -> None:
    runs = [{"value": value, "interval": [value - 3, value + 3]} for value in (10.0, 12.0, 16.0)]
    runs[0]["interval"] = [6.0, 14.0]
    gain = curve_module._gain(runs)
    assert gain["value"] == 3.0
    assert gain["interval"] == pytest.approx([3 - 2.5, 3 + 2.5])  # half of √(3² + 4²)
