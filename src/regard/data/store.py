"""The token store: the ids of a corpus on disk, memory-mapped, so that it may be larger than memory.

A store is a directory of flat files, all little-endian:

source.ids, target.ids          all sentences, concatenated; uint16, or uint32 for a large vocabulary
source.offsets, target.offsets  where each sentence begins, and where the last one ends; int64
corpus.numbers                  the corpus of each pair; uint8
tokens.json                     the key of the store, and its counts
"""

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.durable import read_regular_file, verify_directory
from regard.errors import ArtifactError

FORMAT = "regard-tokens-1"
META_NAME = "tokens.json"
FILE_NAMES = ("source.ids", "source.offsets", "target.ids", "target.offsets", "corpus.numbers")
OFFSET_TYPE = np.dtype("<i8")
CORPUS_TYPE = np.dtype("u1")
MAX_IDS_IN_UINT16 = 1 << 16
STORE_ERRORS = (OSError, ArtifactError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
_MAX_META_BYTES = 10_000


@dataclass(frozen=True)
class StoreMeta:
    """The content of tokens.json."""

    key: str  # identifies everything that the ids depend on
    n_pairs: int
    n_source_tokens: int
    n_target_tokens: int
    n_blank: int  # pairs left out because a side was empty
    n_too_long: int  # pairs left out because a side was longer than max_length
    max_length: int  # of a sentence, in ids without bos and eos
    vocab_size: int  # all ids are smaller

    @property
    def id_type(self) -> np.dtype[Any]:
        """The type of ids on disk: two bytes if the vocabulary is small enough."""
        return np.dtype("<u2" if self.vocab_size <= MAX_IDS_IN_UINT16 else "<u4")

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n"


@dataclass(frozen=True, eq=False)
class TokenStore:
    """Pairs of id sequences, without bos and eos, memory-mapped."""

    meta: StoreMeta
    source_ids: NDArray[np.unsignedinteger]  # (n_source_tokens,)
    source_offsets: NDArray[np.int64]  # (n_pairs + 1,)
    target_ids: NDArray[np.unsignedinteger]  # (n_target_tokens,)
    target_offsets: NDArray[np.int64]  # (n_pairs + 1,)
    corpora: NDArray[np.uint8]  # (n_pairs,) index of the corpus of each pair

    def __len__(self) -> int:
        return self.meta.n_pairs

    def pair(self, index: int) -> tuple[NDArray[np.unsignedinteger], NDArray[np.unsignedinteger]]:
        """Source and target ids of one pair."""
        [source], [target] = self.gather(np.array([index]))
        return source, target

    def gather(
        self, indices: NDArray[np.integer]
    ) -> tuple[list[NDArray[np.unsignedinteger]], list[NDArray[np.unsignedinteger]]]:
        """The sources and the targets of many pairs."""
        return (
            _slices(self.source_ids, self.source_offsets, indices),
            _slices(self.target_ids, self.target_offsets, indices),
        )

    @cached_property
    def lengths(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Lengths of all sources and of all targets, without bos and eos."""
        return np.diff(self.source_offsets).astype(np.int32), np.diff(self.target_offsets).astype(np.int32)


def random_store(n_pairs: int, n_source: int, n_target: int, vocab_size: int) -> TokenStore:
    """Pairs of random ids, of these lengths, in memory: to measure speed without a text."""
    rng = np.random.default_rng(0)
    counts = (n_pairs * n_source, n_pairs * n_target)
    source, target = (rng.integers(min(4, vocab_size - 1), vocab_size, count, dtype=np.uint32) for count in counts)
    offsets = [np.arange(n_pairs + 1, dtype=np.int64) * length for length in (n_source, n_target)]
    meta = StoreMeta("", n_pairs, *counts, 0, 0, max(n_source, n_target), vocab_size)
    return TokenStore(meta, source, offsets[0], target, offsets[1], np.zeros(n_pairs, np.uint8))


def _slices(
    ids: NDArray[np.unsignedinteger], offsets: NDArray[np.int64], indices: NDArray[np.integer]
) -> list[NDArray[np.unsignedinteger]]:
    """The sentences at these indices. With integers from `tolist`, slicing is three times as fast as with NumPy's."""
    starts, ends = offsets[indices].tolist(), offsets[indices + 1].tolist()
    return [ids[start:end] for start, end in zip(starts, ends, strict=True)]


def read_meta(directory: Path) -> StoreMeta:
    """The tokens.json of a store; raises one of STORE_ERRORS if there is none, or it is invalid."""
    values = json.loads(read_regular_file(directory / META_NAME, _MAX_META_BYTES).decode())
    if values.pop("format") != FORMAT:
        raise ValueError("unknown format")
    meta = StoreMeta(**values)
    if any(not isinstance(value, str if name == "key" else int) for name, value in values.items()):
        raise TypeError("a count is not a number")
    return meta


def open_store(directory: Path, key: str) -> TokenStore | None:
    """The store in a directory; None if there is none, it has another key, or it is damaged."""
    try:
        meta = read_meta(directory)
        if meta.key != key:
            return None
        verify_directory(directory)
        return map_store(directory)
    except STORE_ERRORS:
        return None


def map_store(directory: Path) -> TokenStore:
    """The store in a directory, without comparing its files with their digests; raises one of STORE_ERRORS."""
    meta = read_meta(directory)
    return TokenStore(
        meta,
        source_ids=_mapped(directory / "source.ids", meta.id_type, meta.n_source_tokens),
        source_offsets=_mapped(directory / "source.offsets", OFFSET_TYPE, meta.n_pairs + 1),
        target_ids=_mapped(directory / "target.ids", meta.id_type, meta.n_target_tokens),
        target_offsets=_mapped(directory / "target.offsets", OFFSET_TYPE, meta.n_pairs + 1),
        corpora=_mapped(directory / "corpus.numbers", CORPUS_TYPE, meta.n_pairs),
    )


def _mapped(path: Path, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    """A memory-mapped array; ValueError if the file has another size."""
    if path.stat().st_size != count * dtype.itemsize:
        raise ValueError(f"{path.name} has the wrong size")
    if not count:
        return np.zeros(0, dtype)
    # asarray: slicing an ndarray takes a tenth of the time of slicing a memmap
    return np.asarray(np.memmap(path, dtype=dtype, mode="r", shape=(count,)))
