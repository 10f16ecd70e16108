"""Question answering through every command: train, kill and resume, seeds, predict, evaluate, look, serve."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from regard.artifact import describe
from regard.serve import Service, create_app, load_models

from ..stories import story_lines, write_stories
from .test_interruptions import wait_for_step

Inline = Callable[..., Any]
SHORT = ["--set=training.steps=60", "--set=training.validate_every=10", "--set=training.save_every=10"]
QUESTION = "Ann went to the hall. Ben went to the office. Where is Ann?"


def done(result: Any) -> Any:
    assert result.returncode == 0, result.stderr
    return result


def weights(run: Path) -> bytes:
    return (run / "model" / "model.safetensors").read_bytes()


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for seed, (name, n) in enumerate({"train": 200, "test": 40, "more": 40}.items()):
        write_stories(tmp_path / f"{name}.txt", n, seed)
    return ["--stories", "train.txt"]


def test_killed_training_resumes_to_the_bit(regard: Any, files: list[str], tmp_path: Path) -> None:
    train = ("train", *files, *SHORT, "--set=model.linear_start=30", "--set=model.dropout=0.1", "--out")
    done(regard.run(*train, "whole"))
    process = regard.start(*train, "parts")
    wait_for_step(tmp_path / "parts", 25, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert "resuming after step" in done(regard.run(*train, "parts")).stderr
    assert weights(tmp_path / "parts") == weights(tmp_path / "whole")


def test_every_command_works_with_a_memory_network(inline: Inline, files: list[str], tmp_path: Path) -> None:
    trained = done(inline("train", *files, "--set=training.steps=700", "--out", "run"))
    assert "training questions" in trained.stderr and "training error" in trained.stderr
    assert "training error" in (tmp_path / "run" / "report.html").read_text()

    predicted = done(inline("predict", "run", QUESTION)).stdout.split("\t")
    assert predicted[0] == "hall" and len(predicted) == 5
    assert all(column.startswith("1:") for column in predicted[2:])
    record = json.loads(done(inline("predict", "run", "--json", QUESTION)).stdout)
    assert record["sentences"] == ["Ann went to the hall.", "Ben went to the office."]

    evaluated = json.loads(done(inline("evaluate", "run", "test.txt", "more.txt", "--json")).stdout)
    assert evaluated["metrics"]["error"] < 0.05 and evaluated["n_examples"] == 160
    assert [file["name"] for file in evaluated["files"]] == ["test.txt", "more.txt"]
    mean = sum(file["error"] for file in evaluated["files"]) / 2
    assert evaluated["metrics"]["error"] == pytest.approx(mean)
    low, high = evaluated["intervals"]["error"]
    assert 0 <= low <= mean < high < 0.1
    assert min(evaluated["files"][0]["support_shares"]) > evaluated["files"][0]["support_chance"]
    assert "weight on supporting facts" in done(inline("evaluate", "run", "test.txt")).stdout

    numbered = "\n".join(story_lines(1, seed=5))
    shown = done(inline("look", "run", numbered)).stdout
    assert "hop 3" in shown and "● " in shown and "no sentence" in shown
    done(inline("look", "run", numbered, "--png", "look.png"))
    assert (tmp_path / "look.png").stat().st_size > 5_000
    done(inline("look", "run", QUESTION, "--html", "look.html"))
    page = (tmp_path / "look.html").read_text()
    assert "Ann went to the hall." in page and "<svg" in page and "hop 3" in page
    look = json.loads(done(inline("look", "run", numbered, "--json", "-")).stdout)
    assert {"weights", "memory", "states"} <= {site["path"] for site in look["sites"]}
    assert len(look["prediction"]["support_shares"]) == 3
    assert "no question" in inline("predict", "run", "...").stderr
    assert "one line of a story; hint: give all its lines" in inline("predict", "run", "1 Ann went to the hall.").stderr

    with TestClient(create_app(Service(load_models([tmp_path / "run"]))), base_url="http://localhost") as client:
        given = {"story": ["Ann went to the hall."], "question": "Where is Ann?"}
        [output] = client.post("/v1/predict", json={"input": [given]}).json()["output"]
        assert output["answer"] == "hall" and len(output["hops"]) == 3
        assert client.post("/v1/look", json={"text": QUESTION, "model": "run"}).json()["prediction"]["answer"] == "hall"
        assert client.post("/v1/predict", json={"input": ["..."]}).status_code == 400


def test_the_best_seed_is_kept(inline: Inline, files: list[str], tmp_path: Path) -> None:
    train = ("train", *files, *SHORT, "--out", "runs", "--seeds", "3", "--best-by")
    assert "there is no measure 'bleu'" in inline(*train, "bleu").stderr
    result = done(inline(*train, "training-error"))
    errors = {seed: describe(tmp_path / "runs" / f"seed-{seed}").facts["training_error"] for seed in (1, 2, 3)}
    assert describe(tmp_path / "runs").facts["training_error"] == min(errors.values())
    assert "the best by training error" in result.stdout
    assert done(inline("predict", "runs", QUESTION)).stdout
    assert "1 seeds" not in done(inline("evaluate", "runs", "test.txt")).stdout


def test_one_model_per_file(inline: Inline, files: list[str], tmp_path: Path) -> None:
    train = ("train", *files, "--stories", "more.txt", "--separately", *SHORT, "--out", "runs")
    done(inline(*train))
    assert weights(tmp_path / "runs" / "train") != weights(tmp_path / "runs" / "more")
    assert inline(*train).stderr.count("is finished") == 2
    alone = json.loads(done(inline("evaluate", "runs/train", "test.txt", "--json")).stdout)
    both = json.loads(done(inline("evaluate", "runs", "test.txt", "test.txt", "--json")).stdout)
    assert both["files"][0] == alone["files"][0] and len(both["files"]) == 2
    assert "2 models" in inline("evaluate", "runs", "test.txt").stderr
    assert "runs/more" in inline("predict", "runs", QUESTION).stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--stories no.txt", "no.txt: no such file"),
        ("--stories train.txt --labels a", "--stories needs no other text"),
        ("--valid-stories test.txt", "--valid-stories needs --stories"),
        ("--stories train.txt --best-by error", "--best-by chooses among models with several seeds"),
        ("--stories train.txt --stories train.txt --separately", "two files of --stories have the same name"),
        ("--labels train.txt --separately", "--separately trains one model per file of --stories"),
        ("--stories bad.txt", "bad.txt:2: a question without an answer"),
        ("--stories one.txt", "too few stories to keep some for validation"),
        ("--stories train.txt --set training.clip_each=true --recipe plain.toml", "clip_each needs clip"),
    ],
)
def test_mistakes_are_explained(inline: Inline, files: list[str], tmp_path: Path, arguments: str, message: str) -> None:
    (tmp_path / "bad.txt").write_text("1 Ann sat.\n2 Who sat?\t\n")
    (tmp_path / "one.txt").write_text("1 Ann sat.\n2 Who sat?\tann\t1\n")
    (tmp_path / "plain.toml").write_text("[training]\nsteps = 1\n")
    result = inline("train", *arguments.split(), "--out", "run")
    assert (result.returncode, message in result.stderr) == (2, True), result.stderr
