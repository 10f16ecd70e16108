"""A text as one stream of ids, and batches of stretches of it."""

from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data import NO_TARGET, Loader, Place, StretchCollator, Stretches, TokenStream, make_stream
from regard.data.loader import Cursor
from regard.errors import DataError

EOS, PAD = 3, 0
LINES = ["a b c", "", "d", "e f", "g h i j"]


def encode(lines: list[str]) -> list[list[int]]:
    return [[10 + ord(word) - ord("a") for word in line.split()] for line in lines]


def stream_of(directory: Path, lines: list[str], key: str = "key") -> TokenStream:
    return make_stream(directory, lines, encode, key=key, vocab_size=50, eos_id=EOS, unk_id=12)


def text_of(lines: list[str]) -> list[int]:
    return [i for ids in encode(lines) for i in (*ids, EOS)]


def collator(stream: TokenStream, length: int) -> StretchCollator:
    return StretchCollator(stretches=Stretches(stream, length), pad_id=PAD)


def test_a_stream_has_all_lines_and_their_ends(tmp_path: Path) -> None:
    stream = stream_of(tmp_path / "s", LINES)
    assert stream.ids.tolist() == text_of(LINES)
    meta = stream.meta
    assert (meta.n_tokens, meta.n_lines, meta.n_words, meta.n_characters, meta.n_unknown) == (15, 5, 10, 16, 1)


def test_a_stream_is_built_once_and_again_for_another_key_or_when_damaged(tmp_path: Path) -> None:
    stream_of(tmp_path / "s", LINES)
    assert stream_of(tmp_path / "s", ["z"]).ids.tolist() == text_of(LINES)
    assert stream_of(tmp_path / "s", ["z"], key="other").ids.tolist() == text_of(["z"])
    (tmp_path / "s" / "stream.ids").write_bytes(b"\0\0\0\0")
    assert stream_of(tmp_path / "s", LINES, key="other").ids.tolist() == text_of(LINES)


def test_no_lines_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no text"):
        stream_of(tmp_path / "s", [])


@pytest.mark.parametrize("length", [1, 4, 5, 14, 15, 40])
@pytest.mark.parametrize("epoch", [0, 1, 2])
def test_an_epoch_asks_for_every_token_once_with_the_one_before_it(tmp_path: Path, length: int, epoch: int) -> None:
    stream = stream_of(tmp_path / "s", LINES)
    stretches = Stretches(stream, length)
    batch = collator(stream, length)(np.arange(len(stretches)), Place(seed=1, epoch=epoch))
    is_asked = batch.targets[0] != NO_TARGET
    text = text_of(LINES)
    assert batch.targets[0][is_asked].tolist() == text
    assert batch.inputs[0][is_asked].tolist() == [EOS, *text[:-1]]
    assert batch.inputs[0][~is_asked].eq(PAD).all()
    assert batch.n_targets == (len(text),)


def test_boundaries_differ_between_epochs_but_not_between_calls(tmp_path: Path) -> None:
    stream = stream_of(tmp_path / "s", [" ".join("abcdefghij") for _ in range(100)])
    batches = [collator(stream, 16)(np.array([3]), Place(seed=1, epoch=epoch)) for epoch in (0, 0, 1)]
    assert torch.equal(batches[0].inputs[0], batches[1].inputs[0])
    assert not torch.equal(batches[0].inputs[0], batches[2].inputs[0])


def test_batches_have_at_most_max_tokens(tmp_path: Path) -> None:
    stream = stream_of(tmp_path / "s", [" ".join("abcdefghij") for _ in range(100)])
    loader = Loader(examples=Stretches(stream, 16), collate=collator(stream, 16), max_tokens=64, seed=1)
    updates = loader.updates(Cursor())
    sizes = [next(updates)[0][0].inputs[0].shape for _ in range(17)]
    assert all(rows * width <= 64 for rows, width in sizes)
    assert sizes.count(torch.Size([4, 16])) > 10
