"""The demo through the command line, at a reduced size: a fifth of its steps teach most of the grammar."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.demo import first_run as module
from regard.demo.street.corpus import split


@pytest.mark.timeout(600)
def test_a_fifth_of_the_demo_learns_most_of_the_grammar(
    inline: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        module, "split", lambda seed, n_train: split(seed, n_train=12_000, n_valid=50, n_test=200, n_unseen=200)
    )
    monkeypatch.setitem(module.RECIPE["training"], "steps", 200)
    done = inline("demo", "--no-serve", "--out", "demo")
    assert done.returncode == 0, done.stderr
    facts = json.loads((tmp_path / "demo" / "model" / "config.json").read_text())["facts"]
    told = json.loads((tmp_path / "demo" / "demo.json").read_text())
    assert facts["accuracy"] >= 0.85 and facts["bleu"] >= 55  # chance is below 0.1, and 0
    assert told["test"]["exact"] >= 0.1 and told["unseen"]["exact"] >= 0.1
    assert "The animal did not cross the street because it was too wide." in done.stdout
    assert "regard train --source YOUR.en --target YOUR.de" in done.stdout
