"""Trainings through the command line learn: from scratch, from a model, and within a budget."""

import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from regard.demo.addition import make_corpus

from ..digits import write_digits

Inline = Callable[..., Any]
Arguments = Callable[..., list[str]]


def facts_of(run: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((run / "model" / "config.json").read_text())["facts"]
    return facts


def events_of(run: Path, event: str) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    return [fields for fields in events if fields["event"] == event]


def test_model_learns_to_reverse_unseen_digits(regard: Any, tmp_path: Path) -> None:
    source, target = write_digits(tmp_path / "text", 20_000, seed=1)
    values = (
        "model.preset=tiny model.d_model=64 model.d_ff=128 model.n_encoder_layers=1 model.n_decoder_layers=1 "
        "model.dropout=0 training.steps=800 training.max_tokens=1024 training.rate=0.006 training.average=1 "
        "training.save_every=400 training.validate_every=400"
    )
    flags = [flag for value in values.split() for flag in ("--set", value)]
    result = regard.run("train", "--source", source, "--target", target, "--out", "run", *flags)
    assert result.returncode == 0, result.stderr
    facts = facts_of(tmp_path / "run")
    assert facts["accuracy"] >= 0.99, result.stderr
    assert facts["steps"] == 800


@pytest.mark.parametrize("kind", ["char", "word"])
def test_vocabulary_of_characters_or_words_serves_every_command(
    inline: Inline, text: Any, arguments: Arguments, tmp_path: Path, kind: str
) -> None:
    trained = inline(*arguments(text, "run", "training.steps=4", f"text.kind={kind}", "text.vocabulary=100000"))
    assert trained.returncode == 0, trained.stderr
    lines = ["1 2 3", "", "Ω never seen\u2028 ▁", "3"]
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    translated = inline("translate", "run", "in.txt", "--out", "out.txt")
    assert translated.returncode == 0, translated.stderr
    assert len((tmp_path / "out.txt").read_text().split("\n")) == len(lines) + 1
    assert inline("look", "run", "1 2 unseen").returncode == 0
    tuned = inline(*arguments(text, "tuned", "training.steps=2", "--from", "run"))
    assert tuned.returncode == 0, tuned.stderr
    refused = inline(*arguments(text, "other", "--from", "run", "text.kind=bpe"))
    assert f"text.kind cannot be 'bpe': it is '{kind}'" in refused.stderr


def test_fine_tuning_starts_from_the_weights_and_keeps_the_vocabulary(
    inline: Inline, text: Any, arguments: Arguments, tmp_path: Path
) -> None:
    assert inline(*arguments(text, "first", "training.steps=150", "training.rate=0.01")).returncode == 0
    source, target = write_digits(tmp_path / "more", 200, seed=9)
    more = type(text)(source, target)
    tuned = inline(*arguments(more, "tuned", "training.steps=5", "training.rate=0.0001", "--from", "first"))
    assert tuned.returncode == 0, tuned.stderr
    scratch = inline(*arguments(more, "scratch", "training.steps=5", "training.rate=0.0001"))
    assert scratch.returncode == 0, scratch.stderr
    first_losses = [events_of(tmp_path / name, "step")[0]["nll"] for name in ("tuned", "scratch")]
    assert first_losses[0] < 0.5 * first_losses[1]
    vocabularies = [(tmp_path / name / "model" / "tokenizer.model").read_bytes() for name in ("first", "tuned")]
    assert vocabularies[0] == vocabularies[1]

    again = inline(*arguments(more, "tuned", "training.steps=5", "training.rate=0.0001", "--from", "first"))
    assert "tuned is finished" in again.stderr


def test_changed_parent_model_is_refused_on_resume(
    inline: Inline, text: Any, arguments: Arguments, tmp_path: Path
) -> None:
    assert inline(*arguments(text, "first", "training.steps=2")).returncode == 0
    command = arguments(text, "tuned", "training.steps=4", "--from", "first")
    assert inline(*command).returncode == 0
    for name in ("model", "journal.jsonl"):
        path = tmp_path / "tuned" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.rmtree(tmp_path / "first")
    assert inline(*arguments(text, "first", "training.steps=3")).returncode == 0
    refused = inline(*command)
    assert refused.returncode == 2
    assert "first has changed since this run began; hint: restore the original model" in refused.stderr


def test_budget_that_is_too_short_is_refused(inline: Inline, text: Any, tmp_path: Path) -> None:
    refused = inline("train", *text.flags, "--out", "run", "--budget", "1s")
    assert refused.returncode == 2
    assert re.search(r"the budget of 1 s is too short: .*; hint: use --budget \d+m or more", refused.stderr)
    assert not (tmp_path / "run" / "recipe.toml").exists()


class FakeClock:
    """Advances by a fixed time with every reading, so that the result does not depend on the load of the machine."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.05
        return self.now


def test_training_keeps_its_budget(inline: Inline, text: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, budget = FakeClock(), 20
    for name in ("regard.cli.train", "regard.run.train", "regard.run.plan", "regard.training.loop"):
        monkeypatch.setattr(import_module(name), "perf_counter", clock)
    monkeypatch.setattr(import_module("regard.cli.train"), "STARTED_AT", 0.0)
    result = inline("train", *text.flags, "--out", "run", "--budget", f"{budget}s")
    assert result.returncode == 0, result.stderr
    [finished] = events_of(tmp_path / "run", "finished")
    assert 0.7 * budget <= finished["elapsed_seconds"] <= 1.05 * budget, result.stderr
    [plan] = events_of(tmp_path / "run", "plan")
    assert events_of(tmp_path / "run", "refit") or finished["steps"] == plan["steps"]


def test_a_neural_gpu_learns_to_add_with_a_curriculum_and_exact_sums_are_counted(
    inline: Inline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = partial(make_corpus, n_train=3_000, n_valid=40, n_test=10)
    monkeypatch.setattr("regard.demo.addition.make_corpus", small)
    recipe = Path(__file__).parents[2] / "recipes" / "addition-in-columns.toml"
    values = {
        "training.steps": 60, "training.curriculum": 400, "training.max_tokens": 128, "training.rate": 0.01,
        "training.save_every": 20, "training.validate_every": 60, "training.translated": 0, "model.n_rows": 2,
    }  # fmt: skip
    flags = [flag for key, value in values.items() for flag in ("--set", f"{key}={value}")]
    command = ["train", "--recipe", str(recipe), "--corpus", "addition-in-columns", *flags, "--out"]
    whole = inline(*command, "run")
    assert whole.returncode == 0, whole.stderr
    losses = [event["nll"] for event in events_of(tmp_path / "run", "step")]
    assert min(losses[-10:]) < 0.5 < 1.5 < losses[0]

    text = tmp_path / "run" / "data" / "addition-in-columns"
    evaluated = inline("evaluate", "run", str(text / "test-20.sum"), str(text / "test-20.result"))
    assert evaluated.returncode == 0, evaluated.stderr
    assert re.search(r"^exact +\d+\.\d%$", evaluated.stdout, re.MULTILINE)
