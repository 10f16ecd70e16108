"""A clean copy of a corpus: good pairs as they were, in order, and every other one with its reason."""

from pathlib import Path

import pytest

from regard.errors import DataError
from regard.text.corpus import Corpus
from regard.text.doctor.clean import Cleaned, write_clean
from regard.text.doctor.examine import read_corpus

from .test_mispaired import corpus, mispair


def clean(corpus: Corpus, out: Path, **options: object) -> Cleaned:
    examination = read_corpus(corpus, **options)  # type: ignore[arg-type]
    return write_clean(examination, examination.report(), out)


def write(path: Path, lines: list[str]) -> Path:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape"))
    return path


def rejected(out: Path) -> list[list[str]]:
    return [line.split("\t")[:2] for line in (out / "rejected.tsv").read_text().splitlines()]


def test_mispaired_lines_are_left_out_and_the_others_stay_in_order(tmp_path: Path) -> None:
    source, target = corpus(3000)
    target, moved = mispair(target, 0.2)
    pair = Corpus(source=write(tmp_path / "a", source), target=write(tmp_path / "b", target))
    out = tmp_path / "out"
    cleaned = clean(pair, out)
    numbers = {int(number) for number, _ in rejected(out)}
    assert cleaned.reasons["words do not match"] > 500
    assert len(numbers & moved) >= 0.85 * len(moved) and len(numbers - moved) <= 0.05 * (3000 - len(moved))
    kept = [(a, b) for number, (a, b) in enumerate(zip(source, target, strict=True), 1) if number not in numbers]
    written = zip(*((out / name).read_text().splitlines() for name in "ab"), strict=True)
    assert list(written) == kept and cleaned.n_kept == len(kept) == 3000 - cleaned.reasons.total()


def test_each_reason_is_named_with_its_line(tmp_path: Path) -> None:
    source, target = corpus(40)
    bad = {
        3: ("", "x", "blank"), 5: (source[0].upper(), target[0], "repeated"),
        7: ("y z", "Y  z", "the same on both sides"),
        9: ("\udcff", "x", "not valid text"), 11: ("w" * 30, "v" * 3000, "unusual length ratio"),
        13: ("a test line", "x", "in the test set"),
    }  # fmt: skip
    for number, (a, b, _) in bad.items():
        source[number - 1], target[number - 1] = a, b
    test_set = write(tmp_path / "test", ["A test line"])
    out = tmp_path / "out"
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    pair = Corpus(source=write(tmp_path / "one" / "t", source), target=write(tmp_path / "two" / "t", target))
    cleaned = clean(pair, out, against=[test_set])
    assert rejected(out) == [[str(number), reason] for number, (_, _, reason) in bad.items()]
    assert cleaned.n_kept == 34 and [path.name for path in cleaned.files] == ["t.source", "t.target", "rejected.tsv"]
    assert sorted(path.name for path in out.iterdir()) == ["rejected.tsv", "t.source", "t.target"]


def test_tsv_stays_tsv(tmp_path: Path) -> None:
    source, target = corpus(30)
    lines = [f"{a}\t{b}" for a, b in zip(source, target, strict=True)]
    cleaned = clean(Corpus(tsv=write(tmp_path / "p.tsv", [*lines, "no tab", lines[0]])), tmp_path / "out")
    assert (tmp_path / "out" / "p.tsv").read_text().splitlines() == lines
    assert dict(cleaned.reasons) == {"not valid text": 1, "repeated": 1}


def test_corpus_that_cannot_be_cleaned_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    source, target = corpus(400)
    files = write(tmp_path / "a", source), write(tmp_path / "b", target[7:] + target[:7])
    with pytest.raises(DataError, match="nothing was written"):
        clean(Corpus(source=files[0], target=files[1]), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").touch()
    write(files[1], target)
    with pytest.raises(DataError, match="is not empty"):
        clean(Corpus(source=files[0], target=files[1]), tmp_path / "full")
