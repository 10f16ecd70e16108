"""The options of `regard plan`."""

import inspect
from pathlib import Path
from typing import Any

import pytest

from regard.cli.plan import plan
from regard.cli.train import train
from regard.errors import UserError


def test_it_has_the_options_of_training() -> None:
    ours, theirs = (set(inspect.signature(command).parameters) for command in (plan, train))
    assert theirs - ours == {"out", "separately", "seeds", "best_by", "resume", "report", "processes"}
    assert {
        "cluster",
        "examples",
        "lengths",
        "network",
        "took",
        "price",
        "curve",
        "as_json",
        "explain",
    } == ours - theirs


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "no training data; hint: use --source .* or state its size: --examples 4500000 --lengths 25,27"),
        ({"lengths": "25,25"}, "--lengths needs --examples"),
        ({"examples": 100, "lengths": "long"}, "'long' is not two numbers of tokens; hint: write it as 25,27"),
        ({"examples": 100, "lengths": "0,4"}, "is not two numbers of tokens"),
        ({"examples": 100, "lengths": "25"}, "a translator has a source and a target; hint: .*--lengths 25,27"),
        ({"examples": 100, "text": [Path("a.txt")]}, "--examples is for a text that is not at hand"),
        ({"examples": 100, "lengths": "5,5", "took": "12h"}, "--took is about a cluster; hint: add --cluster 8xP100"),
        ({"examples": 100, "lengths": "5,5", "network": 10.0}, "--network is about a cluster"),
        ({"examples": 100, "lengths": "5,5", "cluster": "8xH10O"}, "did you mean H100?"),
        ({"examples": 100, "stories": None, "setting": ["task=answering"]}, "answering cannot be planned without"),
        ({"examples": 100, "lengths": "5,5", "curve": "1m", "cluster": "T4"}, "--curve trains on parts of a text"),
        ({"source": [Path("a.en")]}, "1 --source and 0 --target"),
        ({"source": [Path("a.en")], "target": [Path("a.de")]}, "a.en: no such file"),
        ({"recipe": Path("none.toml")}, "none.toml: no such file"),
        ({"recipe": Path()}, "is not a run directory"),
    ],
)
def test_mistakes_are_one_line(options: dict[str, Any], problem: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=problem):
        plan(**options)
    assert list(tmp_path.iterdir()) == []


def test_a_run_has_its_own_text(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has its own text; hint: give only --set and --cluster with a run"):
        plan(recipe=tmp_path, text=[Path("a.txt")])
