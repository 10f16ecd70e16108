"""Parallel corpora: reading pairs, fingerprints, and the validation split."""

from pathlib import Path

import pytest

from regard.errors import DataError
from regard.text.corpus import Corpus, count_pairs, fingerprint, held_out_share, is_held_out


def files(tmp_path: Path, source: str | bytes, target: str | bytes) -> Corpus:
    for name, data in (("s", source), ("t", target)):
        (tmp_path / name).write_bytes(data.encode() if isinstance(data, str) else data)
    return Corpus(source=tmp_path / "s", target=tmp_path / "t")


def tsv(tmp_path: Path, text: str) -> Corpus:
    (tmp_path / "p.tsv").write_text(text)
    return Corpus(tsv=tmp_path / "p.tsv")


def test_two_files_and_a_tsv_give_the_same_pairs(tmp_path: Path) -> None:
    assert list(files(tmp_path, "a\nb\n", "A\nB").pairs()) == [("a", "A"), ("b", "B")]
    assert list(tsv(tmp_path, "a\tA\nb\tB\n").pairs()) == [("a", "A"), ("b", "B")]


@pytest.mark.parametrize(("n_source", "n_target"), [(5, 3), (3, 5), (0, 2)])
def test_unequal_line_counts_raise_an_error_with_both_counts(tmp_path: Path, n_source: int, n_target: int) -> None:
    corpus = files(tmp_path, "a\n" * n_source, "b\n" * n_target)
    with pytest.raises(DataError, match=f"s has {n_source} lines, .*t has {n_target}"):
        count_pairs(corpus)


def test_a_bad_line_raises_or_is_skipped_with_its_pair(tmp_path: Path) -> None:
    corpus = files(tmp_path, b"a\nb\xff\nc\nd\n", b"A\nB\nC\x00\nD\n")
    assert list(corpus.pairs(on_bad="skip")) == [("a", "A"), ("d", "D")]
    with pytest.raises(DataError, match=r"s:2: not valid UTF-8"):
        list(corpus.pairs())


@pytest.mark.parametrize("line", ["no tab", "one\ttwo\tthree"])
def test_a_wrong_number_of_tabs_raises_an_error_with_the_line(tmp_path: Path, line: str) -> None:
    corpus = tsv(tmp_path, f"a\tA\n{line}\n")
    with pytest.raises(DataError, match=r"p\.tsv:2"):
        list(corpus.pairs())
    assert list(corpus.pairs(on_bad="skip")) == [("a", "A")]


def test_a_corpus_needs_two_files_or_one_tsv(tmp_path: Path) -> None:
    for arguments in ({}, {"source": tmp_path}, {"source": tmp_path, "target": tmp_path, "tsv": tmp_path}):
        with pytest.raises(DataError):
            Corpus(**arguments)
    with pytest.raises(DataError, match="weight"):
        Corpus(tsv=tmp_path, weight=0)


def test_the_fingerprint_depends_on_every_byte_and_side(tmp_path: Path) -> None:
    first = fingerprint(files(tmp_path, "a\n", "b\n"))
    assert fingerprint(files(tmp_path, "a\n", "b\n")) == first
    assert len({first, fingerprint(files(tmp_path, "b\n", "a\n")), fingerprint(files(tmp_path, "a\nb\n", ""))}) == 3


def test_holding_out_depends_only_on_text_and_seed() -> None:
    lines = [f"sentence {i}" for i in range(20_000)]
    held = [line for line in lines if is_held_out(line, 0.05, seed=1)]
    assert 850 < len(held) < 1150
    assert held == [line for line in lines if is_held_out(f"  {line.upper()}\t", 0.05, seed=1)]
    assert held != [line for line in lines if is_held_out(line, 0.05, seed=2)]


@pytest.mark.parametrize(("n_pairs", "n_valid"), [(1, 0), (50, 5), (29_000, 290), (165_000, 1000), (4_500_000, 1000)])
def test_the_held_out_share_depends_on_the_size_of_the_corpus(n_pairs: int, n_valid: int) -> None:
    assert round(held_out_share(n_pairs) * n_pairs) == n_valid
