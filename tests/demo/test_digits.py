"""The simplest corpus with a right answer."""

from pathlib import Path

from regard.demo.digits import LONGEST, SHORTEST, reversed_digits, write_digits


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
