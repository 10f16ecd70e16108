"""Blocks of lines give the same as line after line."""

import gzip
from pathlib import Path
from random import Random

import numpy as np
import pytest

from regard.errors import DataError
from regard.text import Corpus, Tokenizer, is_held_out, normalise, train_tokenizer
from regard.text.blocks import decode_block, read_blocks
from regard.text.code_points import CodeLines, hash_lines, normalise_lines
from regard.text.doctor.repeats import Repeats
from regard.text.encoding import LineEncoder, Split
from regard.text.lines import ReadNotes, read_lines_or_none

ODD = "ab AB  \t\u00a0é e\u0301\u2028\ufeff\ufdd1가\u1100\u1161\u2581ßẞ\U0001f600\U0001fffe\x1e"


def odd_lines(n: int, seed: int) -> list[str]:
    rng = Random(seed)
    return ["".join(rng.choices(ODD, k=rng.randint(0, 12))) for _ in range(n)]


def joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize("lines", [[], [""], ["", ""], ["plain text"], *(odd_lines(40, seed) for seed in range(20))])
def test_lines_are_normalised_at_once_as_one_by_one(lines: list[str]) -> None:
    text = joined(lines)
    codes, clean = normalise_lines(CodeLines.of(text), text)
    assert clean == joined([normalise(line) for line in lines])
    assert codes.codes.tolist() == [ord(character) for character in clean]


def test_equal_lines_have_equal_hashes_and_others_do_not() -> None:
    lines = ["a", "b", "ab", "ba", "", "aa", "a" * 3000, "a" * 3001, "ab", "AB"]
    hashes = hash_lines(CodeLines.of(joined(lines))).tolist()
    assert len(set(hashes)) == 8 and hashes[2] == hashes[8] == hashes[9]
    assert hash_lines(CodeLines.of("ab\n")).tolist() == hashes[2:3]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char", "word"])
def test_blocks_are_encoded_as_single_lines_are(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.text.encoding.MAX_CACHED_WORDS", 50)  # the words are forgotten in between
    text = ["the animal was tired", "das Tier war müde", "ab AB é 가 ß"] * 20
    tokenizer = Tokenizer(train_tokenizer(text, kind=kind))  # type: ignore[arg-type]
    encoder = LineEncoder(tokenizer)
    for seed in range(5):
        lines = [*odd_lines(60, seed), "the tired Tier war <unk> animalmüde", ""]
        encoded = encoder.encode(joined(lines), *normalise_lines(CodeLines.of(joined(lines)), joined(lines)))
        sentences = np.split(encoded.ids, np.cumsum(encoded.lengths)[:-1])
        assert [ids.tolist() for ids in sentences] == tokenizer.encode_many(lines)


def test_a_block_holds_out_what_lines_hold_out() -> None:
    lines = [normalise(line) for line in odd_lines(500, 1)]
    assert Split(0.3, 7).held_out(joined(lines)).tolist() == [is_held_out(line, 0.3, 7) for line in lines]


@pytest.mark.parametrize("block_bytes", [5, 7, 100, 1 << 20])
def test_blocks_have_the_lines_of_the_files(tmp_path: Path, block_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.text.blocks.BLOCK_BYTES", block_bytes)
    a = b"\xef\xbb\xbfone\r\n\ntwo \xff\nthr\x00ee\nfo\xc3\xbcr\nlast"
    b = b"1\n22222222222222\n3\n\n5\n6\n7\n"
    (tmp_path / "a").write_bytes(a)
    (tmp_path / "b").write_bytes(gzip.compress(b))
    paths, notes = [tmp_path / "a", tmp_path / "b"], [ReadNotes(), ReadNotes()]
    blocks = [decode_block(block) for block in read_blocks(paths, notes)]
    expected = [list(read_lines_or_none(path)) for path in paths]
    for side in (0, 1):
        lines = [line for block in blocks for line in block.sides[side].text.split("\n")[:-1]]
        valid = [bool(flag) for block in blocks for flag in block.sides[side].is_text]
        given = [*expected[side], *[None] * (7 - len(expected[side]))]
        assert [line if flag else None for line, flag in zip(lines, valid, strict=True)] == given
    assert [note.n_lines for note in notes] == [6, 7] and notes[0].has_bom and notes[1].compression == "gzip"
    assert [bad[0] for block in blocks for bad in block.sides[0].bad] == [3, 4]
    with pytest.raises(DataError, match="has 6 lines"):
        list(Corpus(source=paths[0], target=paths[1]).blocks())


def test_repeated_lines_are_found_in_files_as_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    hashes = rng.integers(0, 2**64, 4000, np.uint64)[rng.integers(0, 4000, 10_000)]
    in_memory, in_files = Repeats(), Repeats()
    in_memory.add(hashes, np.arange(10_000))
    monkeypatch.setattr("regard.text.doctor.repeats.MAX_IN_MEMORY", 1500)
    for part in np.split(np.arange(10_000), 10):
        in_files.add(hashes[part], part)
    [found] = in_memory.lines()
    parts = list(in_files.lines())
    assert len(parts) > 100 and np.sort(np.concatenate(parts)).tolist() == found.tolist()
    assert len(found) == 10_000 - len(np.unique(hashes))
    for repeats in (in_memory, in_files):
        repeats.next_corpus()
        repeats.add(hashes[[5, 3, 5]], np.array([1, 2, 3]))
        assert np.concatenate([*repeats.lines()]).tolist() == [3]
        assert sorted(line for lines, _ in repeats.in_other_corpora() for line in lines.tolist()) == [1, 2, 3]
