"""The corpus with a right answer, and the first run on it."""

from pathlib import Path

import pytest

from regard.demo import first_run as first_run_module
from regard.demo.digits import LONGEST, SHORTEST, reversed_digits, write_digits
from regard.recipe import Watcher


def test_every_target_is_its_source_reversed_and_no_pair_comes_twice() -> None:
    pairs = reversed_digits(2_000, seed=3)
    assert len({source for source, _ in pairs}) == len(pairs) == 2_000
    assert all(target.split() == source.split()[::-1] for source, target in pairs)
    assert {len(source.split()) for source, _ in pairs} == set(range(SHORTEST, LONGEST + 1))


def test_the_same_seed_makes_the_same_text() -> None:
    assert reversed_digits(50, seed=1) == reversed_digits(50, seed=1) != reversed_digits(50, seed=2)


def test_the_files_have_the_pairs_line_by_line(tmp_path: Path) -> None:
    files = write_digits(tmp_path / "text", 30, seed=1)
    columns = [path.read_text(encoding="utf-8").splitlines() for path in files]
    assert list(zip(*columns, strict=True)) == reversed_digits(30, seed=1)


def test_the_first_run_shows_what_was_learned_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two steps teach nothing; the shape of what a person sees is the same."""
    few = first_run_module.SETTINGS["training"] | {"steps": 2, "warmup": 1, "save_every": 2, "validate_every": 2}
    small = first_run_module.SETTINGS["model"] | {"d_model": 16, "d_ff": 16, "n_heads": 2}
    monkeypatch.setattr(first_run_module, "SETTINGS", {"model": small, "training": few})
    monkeypatch.setattr(first_run_module, "write_digits", lambda directory, _, seed: write_digits(directory, 300, seed))
    monkeypatch.setattr(first_run_module, "reversed_digits", lambda _, seed: reversed_digits(8, seed))
    lines = first_run_module.first_run(tmp_path / "demo", Watcher())
    assert [line.count("  →  ") for line in lines] == [1, 1, 1, 1, 1, 0]
    assert lines[-1].endswith("of 200 strings that it had never seen came out right")
    assert first_run_module.first_run(tmp_path / "demo", Watcher()) == lines
