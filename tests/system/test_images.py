"""Images through every command: train, kill and resume, predict, evaluate, look, serve, fine-tune."""

import base64
import json
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from regard.artifact import describe
from regard.run import train
from regard.serve import Service, create_app, load_models

from ..images import LABELS, SIDE, write_folder, write_idx, write_npz
from .test_interruptions import CAN_USE_TWO_PROCESSES, wait_for_step

Inline = Callable[..., Any]
TINY = {"n_layers": 1, "d_model": 16, "d_ff": 32, "n_heads": 2, "max_patches": 16, "dropout": 0.1}
SHORT = {"steps": 40, "max_tokens": 32, "validate_every": 20, "save_every": 10, "rate": 0.02, "two_processes": "off"}


def flags(**training: Any) -> list[str]:
    values = {f"model.{name}": value for name, value in TINY.items()}
    values |= {f"training.{name}": value for name, value in (SHORT | training).items()}
    return [f"--set={name}={value}" for name, value in values.items()]


def done(result: Any) -> Any:
    assert result.returncode == 0, result.stderr
    return result


def weights(run: Path) -> bytes:
    return (run / "model" / "model.safetensors").read_bytes()


def pixels_of(path: Path) -> Any:
    with Image.open(path) as image:
        return np.asarray(image)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with images, and a run that has learned them."""
    path = tmp_path_factory.mktemp("images")
    write_folder(path / "train", 400)
    write_folder(path / "test", 60, seed=9)
    data = {"train": [{"images": str(path / "train")}]}
    steps = {"steps": 160, "validate_every": 80, "max_tokens": 64}
    settings = {"task": "images", "data": data, "model": TINY | {"dropout": 0.0}, "training": SHORT | steps}
    train(settings, path / "run", fill_defaults=True)
    return path


def test_killed_training_resumes_to_the_bit_in_two_processes(regard: Any, tmp_path: Path) -> None:
    write_npz(tmp_path / "train.npz", 200)
    two = "on" if CAN_USE_TWO_PROCESSES else "off"
    command = ("train", "--images", "train.npz", *flags(two_processes=two), "--set=data.flip=true", "--out")
    if CAN_USE_TWO_PROCESSES:
        regard = replace(regard, n_threads=2)
    done(regard.run(*command, "whole"))
    process = regard.start(*command, "parts")
    wait_for_step(tmp_path / "parts", 15, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert "resuming after step" in done(regard.run(*command, "parts")).stderr
    assert weights(tmp_path / "parts") == weights(tmp_path / "whole")


def test_a_run_stores_what_it_found_out(trained: Path) -> None:
    described = describe(trained / "run")
    assert described.sizes == {"n_classes": 3, "height": SIDE, "width": SIDE, "n_channels": 1}
    assert 0 < described.facts["images"]["mean"][0] < 1 and described.facts["temperature"] > 0
    assert "accuracy" in (trained / "run" / "report.html").read_text()


def test_files_are_predicted(trained: Path, inline: Inline, tmp_path: Path) -> None:
    files = [sorted((trained / "test" / label).iterdir())[0] for label in LABELS]
    lines = done(inline("predict", trained / "run", *files)).stdout.splitlines()
    assert [line.split("\t")[0] for line in lines] == list(LABELS)
    assert all(0.4 < float(line.split("\t")[1]) <= 1 for line in lines)
    record = json.loads(done(inline("predict", trained / "run", "--json", files[0])).stdout)
    assert record["label"] == LABELS[0] and sum(record["probabilities"].values()) == pytest.approx(1)
    write_npz(tmp_path / "a.npz", 5)
    assert done(inline("predict", trained / "run", "a.npz:2")).stdout
    broken = tmp_path / "broken.png"
    broken.write_bytes(files[0].read_bytes()[:50])
    result = inline("predict", trained / "run", files[0], broken, files[1])
    assert result.returncode == 2 and "input 2" in result.stderr and "broken.png" in result.stderr
    assert result.stdout.splitlines() == lines[:1]


def test_evaluation_draws_the_confusion_matrix_and_the_worst_images(
    trained: Path, inline: Inline, tmp_path: Path
) -> None:
    shutil.copytree(trained / "test", tmp_path / "test")
    wrong = next((tmp_path / "test" / "down").iterdir())
    wrong.rename(tmp_path / "test" / "across" / "zz.png")
    result = done(inline("evaluate", trained / "run", "test", "--png", "picture.png"))
    assert "accuracy" in result.stdout and "across/zz.png  across → down" in result.stdout
    record = json.loads(done(inline("evaluate", trained / "run", "test", "--json")).stdout)
    assert record["metrics"]["accuracy"] > 0.8 and record["n_examples"] == 60
    assert record["worst"][0]["probability"] == min(mistake["probability"] for mistake in record["worst"])
    height, width, *_ = pixels_of(tmp_path / "picture.png").shape
    assert height > width  # the gallery is below the matrix
    with_one = write_folder(tmp_path / "other", 9) / "unknown"
    with_one.mkdir()
    shutil.copy(next((tmp_path / "other" / "down").iterdir()), with_one)
    message = "the model has no label 'unknown'; hint: its labels are across, cross, down"
    assert message in inline("evaluate", trained / "run", "other").stderr


def test_a_look_shows_patches_rollout_positions_and_distances(trained: Path, inline: Inline, tmp_path: Path) -> None:
    file = next((trained / "test" / "cross").iterdir())
    shown = done(inline("look", trained / "run", file)).stdout
    assert "rollout" in shown and "distance of attention by head" in shown and "█" in shown
    done(inline("look", trained / "run", file, "--png", "look.png", "--html", "look.html"))
    assert pixels_of(tmp_path / "look.png").shape[1] > 800 and "<svg" in (tmp_path / "look.html").read_text()
    done(inline("look", trained / "run", "--positions", "--svg", "positions.svg"))
    assert "Learned positions" in (tmp_path / "positions.svg").read_text()
    look = json.loads(done(inline("look", trained / "run", file, "--json", "-")).stdout)
    image = look["image"]
    assert (image["rows"], image["columns"], image["patch"]) == (4, 4, 3)
    assert sum(map(sum, image["rollout"])) == pytest.approx(1, abs=1e-5)
    assert len(image["attention_distance"][0]) == 2 and len(image["position_similarity"]) == 16
    assert len(look["source"]["pieces"]) == 17
    np.testing.assert_array_equal(np.array(image["pixels"])[..., 0], pixels_of(file))


def test_the_service_takes_images_in_base64_and_never_opens_files(trained: Path) -> None:
    file = next((trained / "test" / "down").iterdir())
    encoded = base64.b64encode(file.read_bytes()).decode()
    with TestClient(create_app(Service(load_models([trained / "run"]))), base_url="http://localhost") as client:

        def post(*inputs: Any) -> Any:
            return client.post("/v1/predict", json={"input": list(inputs)})

        forms = [encoded, {"image": encoded}, f"data:image/png;base64,{encoded}"]
        outputs = post(*forms).json()["output"]
        assert [output["label"] for output in outputs] == ["down"] * 3
        for wrong in (str(file), "", 5, {"path": str(file)}, base64.b64encode(b"text").decode(), [encoded]):
            reply = post(wrong)
            assert (reply.status_code, reply.json()["error"]["code"]) == (400, "can_not_predict"), wrong
        padded = base64.b64encode(file.read_bytes() + bytes(30_000)).decode()  # more than the limit of a text
        assert post(padded).json()["output"][0]["label"] == "down"
        look = client.post("/v1/look", json={"text": forms[2], "model": "run"}).json()
        assert look["prediction"]["label"] == "down" and look["image"]["rows"] == 4
        [listed] = client.get("/v1/models").json()["models"]
        assert listed["task"] == "images" and listed["image"] == {
            "height": SIDE,
            "width": SIDE,
            "channels": 1,
            "is_dark": True,
        }


def test_fine_tuning_keeps_the_size_and_the_statistics(trained: Path, inline: Inline, tmp_path: Path) -> None:
    write_idx(tmp_path / "idx", 150, seed=4)
    command = ("train", "--images", "idx/train-images-idx3-ubyte.gz", "--from", trained / "run", "--out", "tuned")
    done(inline(*command, "--set=training.steps=20", "--set=training.two_processes=off"))
    before, after = describe(trained / "run"), describe(tmp_path / "tuned")
    assert after.facts["images"] == before.facts["images"]
    assert done(inline("predict", "tuned", next((trained / "test" / "down").iterdir()))).stdout[0] in "012"
    assert "data.height" in inline(*command[:-1], "other", "--set=data.height=24").stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--images nothing", "nothing: no such file"),
        ("--images one", "all labels are 'down'"),
        ("--images few --labels a --labels b", "1 --images and 2 --labels"),
        ("--images few --text few", "--images needs no text"),
        ("--valid-images few", "--valid-images needs --images"),
        ("--images few --set model.patch=5", "12 × 12 pixels cannot be cut into patches of 5 pixels"),
        ("--images few --set data.held_out=0", "0 would be held out for validation"),
        ("--images few --valid-images one --set data.channels=2", "data.channels"),
        ("--images few --architecture lstm", "lstm has no model for the task images"),
    ],
)
def test_mistakes_are_explained(inline: Inline, tmp_path: Path, arguments: str, message: str) -> None:
    write_folder(tmp_path / "few", 12)
    shutil.copytree(tmp_path / "few" / "down", tmp_path / "one" / "down")
    result = inline("train", *arguments.split(), "--out", "run")
    assert (result.returncode, message in result.stderr) == (2, True), result.stderr


def test_changed_images_are_noticed(inline: Inline, tmp_path: Path) -> None:
    write_folder(tmp_path / "train", 60)
    command = ("train", "--images", "train", "--out", "run", *flags(steps=20))
    done(inline(*command))
    shutil.rmtree(tmp_path / "run" / "model")
    moved = next((tmp_path / "train" / "down").iterdir())
    moved.rename(tmp_path / "train" / "across" / moved.name)
    assert "the images have changed" in inline(*command).stderr
