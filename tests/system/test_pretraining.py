"""Pre-training through every command: train, kill and resume, fill blanks, evaluate, look, serve, fine-tune."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from regard.artifact import describe
from regard.serve import Service, create_app, load_models

from ..labelled import labelled_texts, write_labelled
from .test_interruptions import wait_for_step

Inline = Callable[..., Any]
TINY = [
    f"--set={setting}"
    for setting in (
        "text.vocabulary=300", "text.max_length=32", "model.n_layers=1", "model.d_model=32", "model.d_ff=32",
        "model.n_heads=2", "training.steps=40", "training.validate_every=10", "training.save_every=10",
        "training.max_tokens=512", "training.rate=0.01", "training.two_processes=off", "training.average=1",
        "training.precision=float32",
    )
]  # fmt: skip


@pytest.fixture
def text(tmp_path: Path) -> list[str]:
    """Documents of praise, and documents of blame."""
    rng = Random(1)
    for name, n in (("corpus.txt", 60), ("valid.txt", 12)):
        documents = []
        for number in range(n):
            label = ("good", "bad")[number % 2]
            sentences = [text for kind, text in labelled_texts(16, seed=rng.randrange(10_000)) if kind == label]
            documents.append("\n".join(f"{sentence.capitalize()} ." for sentence in sentences))
        (tmp_path / name).write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    return ["--text", "corpus.txt", "--valid-text", "valid.txt"]


def done(result: Any) -> Any:
    assert result.returncode == 0, result.stderr
    return result


def weights(run: Path) -> bytes:
    return (run / "model" / "model.safetensors").read_bytes()


def test_killed_pretraining_resumes_to_the_bit(regard: Any, text: list[str], tmp_path: Path) -> None:
    train = ("train", *text, *TINY, "--architecture", "electra", "--out")
    done(regard.run(*train, "whole"))
    process = regard.start(*train, "parts")
    wait_for_step(tmp_path / "parts", 15, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert "resuming after step 10" in done(regard.run(*train, "parts")).stderr
    assert weights(tmp_path / "parts") == weights(tmp_path / "whole")


def test_every_command_works_with_bert(inline: Inline, text: list[str], tmp_path: Path) -> None:
    trained = done(inline("train", *text, *TINY, "--architecture", "bert", "--out", "run"))
    assert "60 documents with" in trained.stderr and "next sentence" in trained.stderr
    assert "hidden words" in (tmp_path / "run" / "report.html").read_text()
    assert "An encoder of texts" in (tmp_path / "run" / "model" / "README.md").read_text()

    lines = "we saw a [MASK] film\nthe play was [MASK] [MASK] night\tit was dull\n"
    predicted = done(inline("predict", "run", *lines.splitlines())).stdout.splitlines()
    assert len(predicted) == 2
    assert "[MASK]" not in predicted[0] and predicted[0].split("\t")[1].count(",") == 2
    assert predicted[1].split("\t")[-1].startswith("follows 0.")
    [answer] = map(json.loads, done(inline("predict", "run", "we saw a [MASK] film", "--json")).stdout.splitlines())
    probabilities = [guess["probability"] for guess in answer["blanks"][0]]
    assert probabilities == sorted(probabilities, reverse=True) and 0 < sum(probabilities) < 1
    assert "no [MASK]" in inline("predict", "run", "we saw a film").stderr

    evaluated = json.loads(done(inline("evaluate", "run", "valid.txt", "--json")).stdout)
    facts = describe(tmp_path / "run").facts
    assert evaluated["metrics"]["word_accuracy"] == pytest.approx(facts["word_accuracy"])  # the same masks
    low, high = evaluated["intervals"]["word_accuracy"]
    assert low <= evaluated["metrics"]["word_accuracy"] <= high
    assert "next sentence" in done(inline("evaluate", "run", "valid.txt")).stdout

    look = json.loads(done(inline("look", "run", "we saw a dull film\tit was cold", "--json", "-")).stdout)
    assert [word["text"] for word in look["expected"]][:4] == ["we", "saw", "a", "dull"]
    assert all(0 <= word["probability"] <= 1 for word in look["expected"])
    assert "bert.encoder.layers.0.self_attention.weights" in {site["path"] for site in look["sites"]}
    assert "when hidden" in done(inline("look", "run", "we saw a [MASK] film")).stdout
    done(inline("look", "run", "we saw a dull film", "--png", "look.png"))
    assert (tmp_path / "look.png").stat().st_size > 5_000

    with TestClient(create_app(Service(load_models([tmp_path / "run"]))), base_url="http://localhost") as client:
        [output] = client.post("/v1/predict", json={"input": ["a [MASK] film"]}).json()["output"]
        assert len(output["blanks"]) == 1
        shown = client.post("/v1/look", json={"text": "a lovely film", "model": "run"}).json()
        assert shown["expected"][1]["text"] == "lovely"


def test_electra_marks_words_and_a_classifier_starts_from_it(inline: Inline, text: list[str], tmp_path: Path) -> None:
    trained = done(inline("train", *text, *TINY, "--architecture", "electra", "--out", "run"))
    assert "replaced words (AUC)" in trained.stderr
    [answer] = map(json.loads, done(inline("predict", "run", "we saw a [MASK] film", "--json")).stdout.splitlines())
    assert len(answer["replaced"]) == 5 and len(answer["blanks"]) == 1
    assert "generator writes" in done(inline("look", "run", "we saw a dull film")).stdout
    assert 0 < json.loads(done(inline("evaluate", "run", "valid.txt", "--json")).stdout)["metrics"]["replaced_auc"] < 1

    write_labelled(tmp_path / "train.tsv", 200)
    tune = (
        "train",
        "--labels",
        "train.tsv",
        "--from",
        "run",
        "--set=training.steps=20",
        "--set=training.max_tokens=512",
    )
    done(inline(*tune, "--set=training.two_processes=off", "--set=training.precision=float32", "--out", "tuned"))
    tuned = describe(tmp_path / "tuned")
    assert (tuned.architecture, tuned.task, tuned.facts["max_length"]) == ("electra", "classification", 32)
    assert tuned.tokenizers.source.mask_id is not None
    done(inline("predict", "tuned", "a lovely film"))
    done(
        inline(
            *tune[:2], "train.tsv", "--architecture", "electra", *TINY[2:], "--set=text.vocabulary=300", "--out", "new"
        )
    )


def test_xlnet_predicts_words_in_any_order(inline: Inline, text: list[str], tmp_path: Path) -> None:
    trained = done(inline("train", *text, *TINY, "--architecture", "xlnet", "--set=model.memory=8", "--out", "run"))
    assert "hidden words" in trained.stderr
    predicted = done(inline("predict", "run", "we saw a [MASK] film [MASK] night")).stdout.strip()
    assert "[MASK]" not in predicted and predicted.count("\t") == 2
    assert "no [MASK]" in inline("predict", "run", "one\ttwo").stderr
    evaluated = json.loads(done(inline("evaluate", "run", "valid.txt", "--json")).stdout)
    assert evaluated["metrics"]["word_accuracy"] == pytest.approx(describe(tmp_path / "run").facts["word_accuracy"])

    look = json.loads(done(inline("look", "run", "we saw a dull film", "--json", "-")).stdout)
    assert [piece["text"] for piece in look["source"]["pieces"]][-2:] == ["</s>", "<s>"]  # as it is read
    left, right, shuffled = look["orders"]
    assert left["places"] == [1, 2, 3, 4, 5] == right["places"][::-1] == sorted(shuffled["places"])
    assert all(0 < p < 1 for order in look["orders"] for p in order["probabilities"])
    query, content = (np.array(look["arrays"][f"order.{stream}"])[0] for stream in ("query", "content"))
    assert np.array_equal(content, np.maximum(query, np.eye(len(query))))
    assert not query[:-2].diagonal().any() and query[:, -2:].all()  # no word sees itself; all see the ends
    assert query[:-2, :-2].sum() == (len(query) - 2) * (len(query) - 3) / 2
    assert "random order" in done(inline("look", "run", "we saw a [MASK] film")).stdout
    done(inline("look", "run", "we saw a dull film", "--png", "look.png"))
    assert (tmp_path / "look.png").stat().st_size > 5_000

    write_labelled(tmp_path / "train.tsv", 200)
    few = [f"--set=training.{value}" for value in ("steps=10", "max_tokens=512", "two_processes=off")]
    done(inline("train", "--labels", "train.tsv", "--from", "run", *few, "--out", "tuned"))
    assert describe(tmp_path / "tuned").architecture == "xlnet"
    look = json.loads(done(inline("look", "tuned", "a lovely film", "--json", "-")).stdout)
    assert [word["text"] for word in look["words"]] == ["a", "lovely", "film"]
    assert sum(word["gradient"] for word in look["words"]) == pytest.approx(1)


def test_what_cannot_be_learned_is_said_before_training(inline: Inline, text: list[str], tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("one sentence .\nanother sentence .\n" * 50)
    refused = inline(
        "train", "--text", "one.txt", "--valid-text", "one.txt", *TINY, "--architecture", "bert", "--out", "x"
    )
    assert refused.returncode == 2 and "one document" in refused.stderr and "next_sentence=false" in refused.stderr
    refused = inline("train", *text, *TINY, "--architecture", "bert", "--set", "data.document=(", "--out", "x")
    assert refused.returncode == 2 and "not a regular expression" in refused.stderr
    refused = inline("train", *text, *TINY, "--architecture", "electra", "--set", "training.r_drop=1", "--out", "x")
    assert refused.returncode == 2 and "r_drop" in refused.stderr
    refused = inline("train", *text, *TINY, "--architecture", "electra", "--set", "model.generator=0", "--out", "x")
    assert refused.returncode == 2 and "without a generator" in refused.stderr
