import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.data import TokenStore, build_store, open_store
from regard.data.build import PAIRS_PER_CHUNK
from regard.data.store import FILE_NAMES
from regard.errors import DataError

from .conftest import encode_numbers

LINES = [("4 5", "6 7 8", 0), ("9", "10", 1), ("11 12 13", "14", 0)]

KILLED_BUILD = """
import os, signal, sys
from pathlib import Path
from regard.data import build_store

def encode(pairs):
    if ("stop", "stop", 0) in pairs:
        os.kill(os.getpid(), signal.SIGKILL)
    return [[4] for _ in pairs], [[4] for _ in pairs]

pairs = [("a", "b", 0)] * 20_000 + [("stop", "stop", 0)]
build_store(Path(sys.argv[1]), pairs, encode, max_length=9, vocab_size=100, key="new")
"""


Encoded = tuple[list[list[int]], list[list[int]]]


def build(directory: Path, pairs: Iterable[tuple[str, str, int]], **changes: Any) -> TokenStore:
    settings = {"max_length": 5, "vocab_size": 100, "key": "k", **changes}
    return build_store(directory, pairs, encode_numbers, **settings)


def contents(store: TokenStore) -> list[tuple[list[int], list[int], int]]:
    pairs = (store.pair(index) for index in range(len(store)))
    return [
        (source.tolist(), target.tolist(), int(corpus))
        for (source, target), corpus in zip(pairs, store.corpora, strict=True)
    ]


def test_a_store_has_the_pairs_that_were_written(tmp_path: Path) -> None:
    store = build(tmp_path / "tokens", LINES)
    assert contents(store) == [([4, 5], [6, 7, 8], 0), ([9], [10], 1), ([11, 12, 13], [14], 0)]
    assert [lengths.tolist() for lengths in store.lengths] == [[2, 1, 3], [3, 1, 1]]
    reopened = open_store(tmp_path / "tokens", "k")
    assert reopened is not None and contents(reopened) == contents(store)


def test_several_pairs_can_be_gathered(tmp_path: Path) -> None:
    sources, targets = build(tmp_path / "tokens", LINES).gather(np.array([2, 0]))
    assert [ids.tolist() for ids in sources] == [[11, 12, 13], [4, 5]]
    assert [ids.tolist() for ids in targets] == [[14], [6, 7, 8]]


@pytest.mark.parametrize(("vocab_size", "n_bytes"), [(65_536, 2), (65_537, 4)])
def test_ids_take_two_bytes_if_the_vocabulary_is_small_enough(tmp_path: Path, vocab_size: int, n_bytes: int) -> None:
    largest = vocab_size - 1
    store = build(tmp_path / "tokens", [(f"{largest}", "4", 0)], vocab_size=vocab_size)
    assert store.source_ids.itemsize == n_bytes
    assert contents(store) == [([largest], [4], 0)]


def test_an_id_outside_the_vocabulary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="vocabulary of 100"):
        build(tmp_path / "tokens", [("100", "4", 0)])


def test_blank_and_long_pairs_are_left_out_and_counted(tmp_path: Path) -> None:
    lines = [("4", "", 0), (" \u2003", "5", 0), ("4 " * 6, "5", 0), ("4", "5 " * 6, 0), ("4 " * 5, "5", 0)]
    store = build(tmp_path / "tokens", lines)
    assert contents(store) == [([4] * 5, [5], 0)]
    assert (store.meta.n_blank, store.meta.n_too_long) == (2, 2)


def test_a_blank_line_is_left_out_even_if_the_encoder_adds_a_tag(tmp_path: Path) -> None:
    def encode_tagged(pairs: list[tuple[str, str, int]]) -> Encoded:
        sources, targets = encode_numbers(
            [(source.strip("\ufeff"), target, corpus) for source, target, corpus in pairs]
        )
        return [[3, *ids] for ids in sources], targets

    lines = [("", "5", 0), ("4", "5", 0), ("\ufeff", "5", 0)]
    store = build_store(tmp_path / "tokens", lines, encode_tagged, max_length=5, vocab_size=9, key="k")
    assert contents(store) == [([3, 4], [5], 0)]


def test_a_corpus_without_usable_pairs_raises_data_error_and_leaves_no_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="of 1 pairs 1 have an empty side"):
        build(tmp_path / "tokens", [("4", "", 0)])
    assert list(tmp_path.iterdir()) == []


def test_the_order_does_not_depend_on_the_number_of_workers(tmp_path: Path) -> None:
    lines = [(f"{4 + index % 90}", f"{4 + index % 7}", 0) for index in range(4 * PAIRS_PER_CHUNK + 1)]
    alone = build(tmp_path / "1", lines, n_workers=1)
    parallel = build(tmp_path / "3", lines, n_workers=3)
    assert np.array_equal(alone.source_ids, parallel.source_ids)
    assert np.array_equal(alone.target_offsets, parallel.target_offsets)


def test_chunks_are_encoded_in_parallel(tmp_path: Path) -> None:
    barrier = threading.Barrier(2, timeout=60)

    def encode_in_parallel(pairs: list[tuple[str, str, int]]) -> Encoded:
        barrier.wait()
        return encode_numbers(pairs)

    lines = [("4", "5", 0)] * (2 * PAIRS_PER_CHUNK)
    build_store(
        tmp_path / "tokens",
        lines,
        encode_in_parallel,
        max_length=5,
        vocab_size=9,
        key="k",
        n_workers=2,
    )


def test_only_a_few_chunks_are_in_memory_at_once(tmp_path: Path) -> None:
    n_read = n_written = max_ahead = 0

    def lines() -> Iterator[tuple[str, str, int]]:
        nonlocal n_read, max_ahead
        for _ in range(20 * PAIRS_PER_CHUNK):
            n_read += 1
            max_ahead = max(max_ahead, n_read - n_written)
            yield "4", "5", 0

    def progress(n_pairs: int) -> None:
        nonlocal n_written
        n_written = n_pairs

    build(tmp_path / "tokens", lines(), n_workers=2, progress=progress)
    assert n_written == 20 * PAIRS_PER_CHUNK
    assert max_ahead <= 6 * PAIRS_PER_CHUNK


def test_the_old_store_remains_if_reading_fails(tmp_path: Path) -> None:
    def failing() -> Iterator[tuple[str, str, int]]:
        yield "4", "5", 0
        raise DataError("train.en:2: not UTF-8")

    build(tmp_path / "tokens", LINES)
    with pytest.raises(DataError, match="not UTF-8"):
        build(tmp_path / "tokens", failing(), key="other")
    assert open_store(tmp_path / "tokens", "k") is not None


def test_a_killed_build_can_be_repeated(tmp_path: Path) -> None:
    directory = tmp_path / "tokens"
    killed = subprocess.run([sys.executable, "-c", KILLED_BUILD, str(directory)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert open_store(directory, "new") is None
    assert [path.name[:8] for path in tmp_path.iterdir()] == [".tokens."]
    assert len(build(directory, LINES, key="new")) == len(LINES)
    assert [path.name for path in tmp_path.iterdir()] == ["tokens"]  # the leftovers are removed


def test_opening_with_another_key_or_without_a_directory_returns_none(tmp_path: Path) -> None:
    build(tmp_path / "tokens", LINES, key="corpus one")
    assert open_store(tmp_path / "tokens", "corpus two") is None
    assert open_store(tmp_path / "nowhere", "corpus one") is None


def test_a_rebuilt_store_replaces_the_old_one(tmp_path: Path) -> None:
    old = build(tmp_path / "tokens", LINES)
    build(tmp_path / "tokens", LINES[:1], key="new")
    assert open_store(tmp_path / "tokens", "k") is None
    assert len(contents(old)) == 3  # an open store stays readable


@pytest.mark.parametrize("name", [*FILE_NAMES, "tokens.json"])
def test_a_truncated_or_missing_file_is_detected(tmp_path: Path, name: str) -> None:
    build(tmp_path / "tokens", LINES)
    path = tmp_path / "tokens" / name
    os.truncate(path, path.stat().st_size - 1 if name != "tokens.json" else 20)
    assert open_store(tmp_path / "tokens", "k") is None
    path.unlink()
    assert open_store(tmp_path / "tokens", "k") is None


@pytest.mark.parametrize("name", FILE_NAMES)
def test_a_flipped_bit_is_detected(tmp_path: Path, name: str) -> None:
    build(tmp_path / "tokens", LINES)
    path = tmp_path / "tokens" / name
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert open_store(tmp_path / "tokens", "k") is None


def test_decreasing_offsets_are_detected(tmp_path: Path) -> None:
    build(tmp_path / "tokens", LINES)
    np.array([0, 5, 3, 6], dtype="<i8").tofile(tmp_path / "tokens" / "source.offsets")
    assert open_store(tmp_path / "tokens", "k") is None


@pytest.mark.parametrize(
    "changes", [{"format": "other"}, {"n_pairs": "3"}, {"n_pairs": -1}, {"surprise": 1}, {"vocab_size": 70_000}]
)
def test_wrong_metadata_is_detected(tmp_path: Path, changes: dict[str, Any]) -> None:
    build(tmp_path / "tokens", LINES)
    path = tmp_path / "tokens" / "tokens.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    assert open_store(tmp_path / "tokens", "k") is None


@pytest.mark.parametrize("text", ["[]", "null", "{", "3", "\x00"])
def test_metadata_that_is_not_an_object_is_detected(tmp_path: Path, text: str) -> None:
    build(tmp_path / "tokens", LINES)
    (tmp_path / "tokens" / "tokens.json").write_text(text)
    assert open_store(tmp_path / "tokens", "k") is None


@pytest.mark.timeout(120)
def test_opening_does_not_block_on_a_fifo(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "tokens.json")
    assert open_store(tmp_path, "k") is None
