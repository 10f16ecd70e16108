"""An interrupted run of 0.1.0 goes on with this version; see golden/README.md."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from regard.artifact import describe
from regard.run import Callbacks, train
from regard.translator import Translator

GOLDEN = Path(__file__).parent / "golden"


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def interrupted(tmp_path: Path) -> Path:
    """The run directory as 0.1.0 would have written it in `tmp_path`."""
    directory = shutil.copytree(GOLDEN / "interrupted", tmp_path / "interrupted")
    for name in ("recipe.toml", "journal.jsonl"):
        path = directory / "run" / name
        path.write_text(path.read_text().replace("{directory}", str(directory)))
    for checkpoint in (directory / "run" / "checkpoints").iterdir():
        state, manifest = checkpoint / "state.json", checkpoint / "manifest.json"
        content = json.loads(state.read_text())
        content["state"]["recipe"] = sha256(directory / "run" / "recipe.toml")
        state.write_text(json.dumps(content))
        files = json.loads(manifest.read_text())
        files["files"]["state.json"] = {"size": state.stat().st_size, "sha256": sha256(state)}
        manifest.write_text(json.dumps(files))
    return directory / "run"


class Events(Callbacks):
    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, Any]]] = []

    def on_event(self, event: str, **fields: Any) -> None:
        self.seen.append((event, fields))


def test_an_interrupted_run_of_0_1_0_goes_on_from_its_last_checkpoint(interrupted: Path) -> None:
    recipe, callbacks = (interrupted / "recipe.toml").read_bytes(), Events()
    train({}, interrupted, device="cpu", callbacks=callbacks)
    assert [fields["step"] for event, fields in callbacks.seen if event == "resume"] == [40]
    steps = [fields["step"] for event, fields in callbacks.seen if event == "step"]
    assert steps == list(range(41, 61))
    assert (interrupted / "recipe.toml").read_bytes() == recipe
    last = json.loads((interrupted / "journal.jsonl").read_text().splitlines()[-1])
    assert (last["event"], last["steps"]) == ("finished", 60)
    described = describe(interrupted)
    assert (described.task, described.architecture, described.sizes) == (
        "translation", "transformer", described.tokenizers.sizes
    )  # fmt: skip
    with Translator.load(interrupted) as translator:
        assert translator.predict(["1 2 3 4"])[0].text
    train({}, interrupted, device="cpu", callbacks=callbacks)
    assert callbacks.seen[-1][0] == "already-finished"


def test_a_model_of_0_1_0_has_a_task_and_sizes() -> None:
    described = describe(GOLDEN / "model")
    assert described.task == "translation"
    assert described.sizes == described.tokenizers.sizes
