"""Language models through every command: train, kill and resume, continue, evaluate, look, serve, fine-tune."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from regard.artifact import describe
from regard.serve import Service, create_app, load_models

from ..prose import PLACES, write_prose
from .test_interruptions import wait_for_step

Inline = Callable[..., Any]
TINY = [
    f"--set={setting}"
    for setting in (
        "text.kind=word", "text.segment=16", "model.d_model=32", "model.dropout=0.1", "training.steps=60",
        "training.validate_every=20", "training.max_tokens=512", "training.rate=0.01", "training.two_processes=off",
        "training.average=1",
    )
]  # fmt: skip
SMALL = ["--set=model.n_layers=1", "--set=model.d_ff=32", "--set=model.n_heads=2"]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    write_prose(tmp_path / "train.txt", 300)
    write_prose(tmp_path / "valid.txt", 30, seed=2)
    write_prose(tmp_path / "test.txt", 40, seed=3)
    return ["--text", "train.txt", "--valid-text", "valid.txt"]


def done(result: Any) -> Any:
    assert result.returncode == 0, result.stderr
    return result


def test_killed_training_resumes_to_the_bit(regard: Any, files: list[str], tmp_path: Path) -> None:
    train = ("train", *files, *TINY, "--architecture", "lstm", "--set=training.save_every=10", "--out")
    done(regard.run(*train, "whole"))
    process = regard.start(*train, "parts")
    wait_for_step(tmp_path / "parts", 15, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert "resuming after step" in done(regard.run(*train, "parts")).stderr
    weights = [(tmp_path / name / "model" / "model.safetensors").read_bytes() for name in ("whole", "parts")]
    assert weights[0] == weights[1]


def test_every_command_works_with_a_language_model(inline: Inline, files: list[str], tmp_path: Path) -> None:
    trained = done(inline("train", *files, *TINY, *SMALL, "--out", "run"))
    assert "train.txt: 1,500 lines, 6,600 words" in trained.stderr
    assert "data      8,100 training tokens, 810 validation tokens" in trained.stderr
    assert "perplexity per word" in (tmp_path / "run" / "report.html").read_text()
    assert describe(tmp_path / "run").sizes["segment"] == 16

    evaluated = json.loads(done(inline("evaluate", "run", "test.txt", "--json")).stdout)
    perplexity = evaluated["metrics"]["perplexity"]
    assert 1.5 < perplexity < 3.5 and evaluated["n_examples"] == evaluated["n_tokens"] == 1_080
    low, high = evaluated["intervals"]["perplexity"]
    assert low <= perplexity <= high
    without = json.loads(done(inline("evaluate", "run", "test.txt", "--memory", "0", "--json")).stdout)
    assert without["metrics"]["perplexity"] > perplexity
    table = done(inline("evaluate", "run", "test.txt", "--png", "context.png")).stdout
    assert "bits per character" in table and "by tokens of the text before it" in table
    assert (tmp_path / "context.png").stat().st_size > 5_000

    options = ("--length", "9", "--seed", "3", "--top-k", "5")
    predicted = done(inline("predict", "run", "the cat", "", *options)).stdout.splitlines()
    assert len(predicted) == 2 and predicted[0].startswith("the cat ")
    [continued] = done(inline("predict", "run", "the cat saw the", "--temperature", "0", "--json")).stdout.splitlines()
    assert json.loads(continued)["continuation"].split()[0] in PLACES
    assert "temperature must be" in inline("predict", "run", "a", "--temperature", "-1").stderr

    look = json.loads(done(inline("look", "run", "the cat saw the", "--json", "-")).stdout)
    assert [token["text"] for token in look["tokens"]] == ["▁the", "▁cat", "▁saw", "▁the"]
    assert {"decoder.0.self_attention.weights", "words.embedding"} <= {site["path"] for site in look["sites"]}
    assert "more probable" in done(inline("look", "run", "the cat saw the")).stdout
    done(inline("look", "run", "the cat saw the", "--png", "look.png"))

    with TestClient(create_app(Service(load_models([tmp_path / "run"]))), base_url="http://localhost") as client:
        body = {"input": ["the cat", {"text": "the dog", "length": 3}]}
        outputs = client.post("/v1/predict", json=body).json()["output"]
        assert [output["prompt"] for output in outputs] == ["the cat", "the dog"]
        assert client.post("/v1/predict", json={"input": [{"text": "a", "length": 10**9}]}).status_code == 400
        assert client.post("/v1/look", json={"text": "the cat", "model": "run"}).json()["next"]


def test_memory_of_a_recurrence_helps_where_a_story_goes_on(inline: Inline, files: list[str]) -> None:
    """The animal of a story is in its title, which is in an earlier segment."""
    short = ("--set=text.segment=4", "--set=text.n_segments=8", "--set=training.steps=150")
    done(inline("train", *files, *TINY, *short, "--architecture", "gru", "--out", "run"))
    perplexities = [
        json.loads(done(inline("evaluate", "run", "test.txt", "--json", *memory)).stdout)["metrics"]["perplexity"]
        for memory in ((), ("--memory", "0"))
    ]
    assert perplexities[0] < 0.9 * perplexities[1]


def test_a_model_can_be_trained_further_and_become_a_classifier(
    inline: Inline, files: list[str], tmp_path: Path
) -> None:
    done(inline("train", *files, *TINY, "--architecture", "lstm", "--out", "parent"))
    tune = ("--from", "parent", "--set=training.steps=5", "--set=training.rate=1e-9", "--out")
    done(inline("train", *files, *tune, "child"))
    losses = [describe(tmp_path / name).facts["loss"] for name in ("parent", "child")]
    assert losses[1] == pytest.approx(losses[0], abs=1e-3)
    rows = [
        f"{'far' if 'park' in line else 'near'}\t{line}\n" for line in (tmp_path / "test.txt").read_text().split("\n")
    ]
    (tmp_path / "labels.tsv").write_text("".join(row for row in rows if row.count(" ") > 3))
    done(inline("train", "--labels", "labels.tsv", *tune, "classifier"))
    assert done(inline("predict", "classifier", "the cat saw the park .")).stdout.split("\t")[0] in ("far", "near")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--text no.txt", "no.txt: no such file"),
        ("--text empty.txt", "there is no text in it"),
        ("--text one.txt", "give a validation text with --valid-text"),
        ("--text train.txt --source a --target b", "--labels and --text need no parallel text"),
        ("--text train.txt --architecture transformer", "transformer has no model for the task language"),
        (
            "--text train.txt --architecture lstm --set model.attention=additive",
            "a language model needs model.attention",
        ),
        ("--text train.txt --set text.segment=0", "text.segment"),
        ("--text bad.txt", "bad.txt: line 2: not valid UTF-8"),
        ("--valid-text valid.txt", "data.train is missing"),
    ],
)
def test_mistakes_are_explained(inline: Inline, files: list[str], tmp_path: Path, arguments: str, message: str) -> None:
    (tmp_path / "empty.txt").write_text("\n\n")
    (tmp_path / "one.txt").write_text("a single line\n")
    (tmp_path / "bad.txt").write_bytes(b"good\n\xff\n")
    result = inline("train", *arguments.split(), "--set=training.steps=1", "--out", "run")
    assert (result.returncode, message in result.stderr) == (2, True), result.stderr
