"""A classifier through every command: train, kill and resume, seeds, fine-tune, predict, evaluate, look, serve."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from regard.artifact import describe
from regard.serve import Service, create_app, load_models

from ..labelled import write_labelled
from .test_interruptions import wait_for_step

Inline = Callable[..., Any]
TINY = [
    f"--set={setting}"
    for setting in (
        "text.vocabulary=300", "text.word_dropout=0", "model.n_layers=1", "model.d_model=32", "model.dropout=0.1",
        "training.steps=40", "training.validate_every=10", "training.max_tokens=512", "training.rate=0.01",
        "training.two_processes=off", "training.average=1",
    )
]  # fmt: skip
ENCODER = ["--set=model.d_ff=32", "--set=model.n_heads=2"]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    names = {"train": 300, "valid": 60, "test": 80}
    for seed, (name, n) in enumerate(names.items()):
        write_labelled(tmp_path / f"{name}.tsv", n, seed)
    return ["--labels", "train.tsv", "--valid-labels", "valid.tsv"]


def done(result: Any) -> Any:
    assert result.returncode == 0, result.stderr
    return result


def weights(run: Path) -> bytes:
    return (run / "model" / "model.safetensors").read_bytes()


def test_killed_training_resumes_to_the_bit(regard: Any, files: list[str], tmp_path: Path) -> None:
    train = ("train", *files, *TINY, *ENCODER, "--set=text.word_dropout=0.2", "--out")
    done(regard.run(*train, "whole"))
    process = regard.start(*train, "parts")
    wait_for_step(tmp_path / "parts", 15, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert "resuming after step 10" in done(regard.run(*train, "parts")).stderr
    assert weights(tmp_path / "parts") == weights(tmp_path / "whole")


def test_every_command_works_with_a_classifier(inline: Inline, files: list[str], tmp_path: Path) -> None:
    trained = done(inline("train", *files, *TINY, *ENCODER, "--out", "run"))
    assert "train.tsv: label in column 1, text in column 2, no header; labels bad (" in trained.stderr
    report = (tmp_path / "run" / "report.html").read_text()
    assert "macro F1" in report and "label in column 1" in report
    facts = describe(tmp_path / "run").facts
    assert facts["temperature"] > 0 and facts["columns"] == ["label", "text"]

    (tmp_path / "lines").write_text("a lovely film\nthe play was dull\n")
    evaluated = json.loads(done(inline("evaluate", "run", "test.tsv", "--json")).stdout)
    assert evaluated["metrics"]["accuracy"] > 0.9
    low, high = evaluated["intervals"]["accuracy"]
    assert low <= evaluated["metrics"]["accuracy"] <= high
    assert sum(map(sum, evaluated["confusion"])) == evaluated["n_examples"] == 80
    table = done(inline("evaluate", "run", "test.tsv", "--png", "confusion.png")).stdout
    assert "Matthews" in table and "true \\ predicted" in table
    assert (tmp_path / "confusion.png").stat().st_size > 5_000
    predicted = done(inline("predict", "run", "a lovely film", "the play was dull")).stdout.splitlines()
    assert [line.split("\t")[0] for line in predicted] == ["good", "bad"]

    look = json.loads(done(inline("look", "run", "the play was dull", "--json", "-")).stdout)
    assert look["prediction"]["label"] == "bad"
    assert min(look["words"], key=lambda word: word["without"])["text"] == "dull"
    assert {"encoder.0.self_attention.weights", "words.embedding"} <= {site["path"] for site in look["sites"]}
    assert "without it" in done(inline("look", "run", "the play was dull")).stdout
    done(inline("look", "run", "the play was dull", "--png", "look.png"))
    assert (tmp_path / "look.png").stat().st_size > 5_000

    with TestClient(create_app(Service(load_models([tmp_path / "run"]))), base_url="http://localhost") as client:
        [output] = client.post("/v1/predict", json={"input": ["a lovely film"]}).json()["output"]
        assert (output["label"], output["probabilities"].keys()) == ("good", {"bad", "good"})
        shown = client.post("/v1/look", json={"text": "a lovely film", "model": "run"}).json()
        assert shown["words"][1]["text"] == "lovely"


def test_lstm_classifies_pairs_in_two_files(inline: Inline, files: list[str], tmp_path: Path) -> None:
    for name in ("train", "valid"):
        rows = [line.split("\t") for line in (tmp_path / f"{name}.tsv").read_text().splitlines()]
        (tmp_path / f"{name}.labels").write_text("".join(f"{label}\n" for label, _ in rows))
        (tmp_path / f"{name}.text").write_text("".join(f"what was it like ?\t{text}\n" for _, text in rows))
    given = ["--labels", "train.labels", "--text", "train.text"]
    given += ["--valid-labels", "valid.labels", "--valid-text", "valid.text"]
    done(inline("train", *given, *TINY, "--set=training.steps=80", "--architecture", "lstm", "--out", "run"))
    evaluated = json.loads(done(inline("evaluate", "run", "valid.labels", "valid.text", "--json")).stdout)
    assert evaluated["metrics"]["accuracy"] > 0.8
    assert "two texts" in inline("predict", "run", "no tab").stderr
    done(inline("look", "run", "what was it like ?\ta dull film", "--png", "look.png"))


def test_seeds_are_trained_one_after_another_and_compared(inline: Inline, files: list[str], tmp_path: Path) -> None:
    train = ("train", *files, *TINY, *ENCODER, "--set=training.steps=10", "--out", "runs", "--seeds")
    done(inline(*train, "2"))
    first = weights(tmp_path / "runs" / "seed-1")
    result = done(inline(*train, "3"))
    assert result.stderr.count("is finished") == 2
    assert "3 seeds" in result.stdout and "deviation" in result.stdout
    assert weights(tmp_path / "runs" / "seed-1") == first != weights(tmp_path / "runs" / "seed-2")
    summary = json.loads((tmp_path / "runs" / "seeds.json").read_text())
    values = summary["validation"]["accuracy"]["values"]
    assert summary["validation"]["accuracy"]["mean"] == pytest.approx(sum(values) / 3)
    assert "3 seeds" in done(inline("evaluate", "runs", "test.tsv")).stdout
    assert len(json.loads(done(inline("evaluate", "runs", "test.tsv", "--json")).stdout)["seeds"]) == 3
    assert "runs/seed-1" in inline("predict", "runs", "a film").stderr
    assert "is a run with one seed" in inline(*train[:-3], "--out", "runs/seed-1", "--seeds", "2").stderr


def test_fine_tuning_keeps_the_softmax_for_the_same_labels_only(
    inline: Inline, files: list[str], tmp_path: Path
) -> None:
    done(inline("train", *files, *TINY, *ENCODER, "--out", "parent"))
    tune = ("--from", "parent", "--set=training.steps=10", "--out")
    frozen = "--set=training.rate=1e-9"
    done(inline("train", *files, *tune, "same", frozen))
    accuracy = describe(tmp_path / "same").facts["accuracy"]
    assert accuracy == describe(tmp_path / "parent").facts["accuracy"] > 0.9
    recipe = (tmp_path / "same" / "recipe.toml").read_text()
    assert '"encoder.0" = 0.8' in recipe and "words = 0.64" in recipe

    text = (tmp_path / "train.tsv").read_text()
    (tmp_path / "other.tsv").write_text(text.replace("good\t", "praise\t").replace("bad\t", "blame\t"))
    done(inline("train", "--labels", "other.tsv", *tune, "other"))
    predicted = done(inline("predict", "other", "a lovely film")).stdout
    assert predicted.split("\t")[0] in ("praise", "blame")
    refused = inline("train", *files, *tune, "wide", "--set=model.d_model=64")
    assert "model.d_model cannot be 64: it is 32 in the model to start from" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--labels no.tsv", "no.tsv: no such file"),
        ("--labels train.tsv --source a --target b", "--labels and --text need no parallel text"),
        ("--labels train.tsv --text a --text b", "1 --labels and 2 --text"),
        ("--labels train.tsv --valid-text a", "--valid-text needs --valid-labels"),
        ("--labels train.tsv --architecture transformer", "transformer has no model for the task classification"),
        ("--labels train.tsv --architecture lstm --set model.attention=dot", "a classifier needs model.attention"),
        ("--labels train.tsv --set training.best_by=bleu", "training.best_by = 'bleu' is not one of loss, accuracy"),
        ("--labels train.tsv --set model.positions=learned", ""),
        ("--labels train.tsv --set model.positions=learned --set model.max_positions=9", "needs 259 positions"),
        ("--labels bad.tsv", "bad.tsv:3: 3 columns instead of 2; hint: each line must be"),
    ],
)
def test_mistakes_are_explained(inline: Inline, files: list[str], tmp_path: Path, arguments: str, message: str) -> None:
    (tmp_path / "bad.tsv").write_text("good\ta film\nbad\tanother\ngood\ta\tb\nbad\tthe end\n")
    result = inline("train", *arguments.split(), *TINY[:1], "--set=training.steps=1", "--out", "run")
    if message:
        assert (result.returncode, message in result.stderr) == (2, True), result.stderr
    else:
        done(result)
