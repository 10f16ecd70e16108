"""The corpus of reversed digits."""

from pathlib import Path

from regard.demo.digits import MAX_DIGITS, MIN_DIGITS, reversed_digits, write_digits


def test_targets_are_reversed_sources_without_duplicates() -> None:
    pairs = reversed_digits(2_000, seed=3)
    assert len({source for source, _ in pairs}) == len(pairs) == 2_000
    assert all(target.split() == source.split()[::-1] for source, target in pairs)
    assert {len(source.split()) for source, _ in pairs} == set(range(MIN_DIGITS, MAX_DIGITS + 1))


def test_same_seed_gives_the_same_text() -> None:
    assert reversed_digits(50, seed=1) == reversed_digits(50, seed=1) != reversed_digits(50, seed=2)


def test_files_contain_one_pair_per_line(tmp_path: Path) -> None:
    files = write_digits(tmp_path / "text", 30, seed=1)
    columns = [path.read_text(encoding="utf-8").splitlines() for path in files]
    assert list(zip(*columns, strict=True)) == reversed_digits(30, seed=1)
