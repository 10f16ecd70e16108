"""An imported model is fine-tuned: general text is mixed in, and quality is measured before and after."""

from pathlib import Path
from typing import Any

import pytest

from regard import Translator
from regard.artifact import describe
from regard.demo.street.corpus import generate
from regard.errors import RecipeError
from regard.run import Callbacks, Raw, train


class Killed(Exception):
    """Ends a training in the middle of a step."""


class KillAt(Callbacks):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_event(self, event: str, **fields: Any) -> None:
        if event == "step" and fields["step"] == self.step:
            raise Killed


def tsv(path: Path, n: int, seed: int) -> list[Raw]:
    path.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in generate(n, seed)))
    return [{"tsv": str(path), "tag": "de"}]


@pytest.fixture(scope="module")
def recipe(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Raw:
    folder = tmp_path_factory.mktemp("text")
    training = {"steps": 12, "save_every": 5, "validate_every": 6, "max_tokens": 512, "translated": 20}
    return {
        "start_from": str(run),
        "data": {
            "train": tsv(folder / "own.tsv", 200, 5),
            "keep": tsv(folder / "general.tsv", 900, 6),
            "doctor": False,
        },
        "training": training | {"schedule": "constant", "rate": 0.003, "optimizer": "muon", "warmup": 1, "average": 1},
    }


def test_a_fine_tuned_model_resumes_to_the_bit_and_tells_what_it_gained(recipe: Raw, run: Path, tmp_path: Path) -> None:
    train(recipe, tmp_path / "whole")
    with pytest.raises(Killed):
        train(recipe, tmp_path / "killed", callbacks=KillAt(8))
    train(recipe, tmp_path / "killed")
    tensors = [(tmp_path / name / "model" / "model.safetensors").read_bytes() for name in ("whole", "killed")]
    assert tensors[0] == tensors[1]
    described, parent = describe(tmp_path / "whole"), describe(run)
    for name in ("source.model", "target.model"):
        assert described.read_asset(name, 10**7) == parent.read_asset(name, 10**7)
    changes = described.facts["fine_tuning"]
    assert set(changes) == {"own", "general"}
    assert 10 <= changes["own"]["n"] <= 40
    assert 5 <= changes["general"]["n"] <= 40  # about 2% of 900
    assert all(0 < change["p"] <= 1 for change in changes.values())
    assert described.facts["precision"] in ("int8", "float32")
    assert "Fine-tuning, on" in (described.directory / "README.md").read_text()
    with Translator.load(tmp_path / "whole") as translator:
        assert len(translator.translate(["The dog is tired."], target="de")) == 1


def test_general_text_is_for_fine_tuning(recipe: Raw, tmp_path: Path) -> None:
    without = {key: value for key, value in recipe.items() if key != "start_from"}
    with pytest.raises(RecipeError, match=r"data\.keep .* needs start_from"):
        train(without, tmp_path / "run")
