"""A text as one long stream of ids, memory-mapped, and batches of stretches of it.

A store is a directory of two files: `stream.ids`, little-endian, uint16, or uint32 for a large vocabulary; and
`stream.json`, the key of the store and its counts. Every line ends with eos.

B batch, L tokens of a stretch
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batch import NO_TARGET, Batch, Place
from regard.data.random_key import random_key
from regard.data.store import MAX_IDS_IN_UINT16, STORE_ERRORS
from regard.durable import commit_directory, read_regular_file, remove_leftovers, verify_directory
from regard.errors import DataError

FORMAT = "regard-stream-1"
IDS_NAME, META_NAME = "stream.ids", "stream.json"
_LINES_PER_CHUNK = 5_000
_MAX_META_BYTES = 10_000

EncodeLines = Callable[[list[str]], list[list[int]]]  # ids without bos and eos


@dataclass(frozen=True)
class StreamMeta:
    """The content of stream.json."""

    key: str  # identifies everything that the ids depend on
    n_tokens: int  # with an eos for each line
    n_lines: int
    n_words: int  # separated by white space
    n_characters: int  # without the ends of lines
    n_unknown: int  # tokens that are unk
    vocab_size: int
    eos_id: int

    @property
    def id_type(self) -> np.dtype[Any]:
        return np.dtype("<u2" if self.vocab_size <= MAX_IDS_IN_UINT16 else "<u4")


@dataclass(frozen=True, eq=False)
class TokenStream:
    """The ids of a text."""

    meta: StreamMeta
    ids: NDArray[np.unsignedinteger]  # (n_tokens,)

    def __len__(self) -> int:
        return self.meta.n_tokens

    def stretch(self, start: int, end: int) -> NDArray[np.int64]:
        """Ids from the token before `start` to `end`: inputs and, one later, targets. Before the text there is eos."""
        ids = np.asarray(self.ids[max(0, start - 1) : end], dtype=np.int64)
        return ids if start else np.concatenate([[self.meta.eos_id], ids])


def make_stream(
    directory: Path,
    lines: Iterable[str],
    encode: EncodeLines,
    *,
    key: str,
    vocab_size: int,
    eos_id: int,
    unk_id: int,
    progress: Callable[[int], None] | None = None,
) -> TokenStream:
    """The stream in a directory, if it has this key and is not damaged; else a new one.

    `progress` is called with the number of lines so far. If it is killed, an existing stream is unchanged.
    """
    if (stored := _open(directory, key)) is not None:
        return stored

    def write(temporary: Path) -> None:
        counts = dict.fromkeys(("n_tokens", "n_lines", "n_words", "n_characters", "n_unknown"), 0)
        id_type = StreamMeta(key, **counts, vocab_size=vocab_size, eos_id=eos_id).id_type
        with (temporary / IDS_NAME).open("xb") as file:
            for chunk in _chunks(lines):
                ids = np.fromiter((i for line in encode(chunk) for i in (*line, eos_id)), dtype=np.int64)
                file.write(ids.astype(id_type).tobytes())
                counts["n_tokens"] += len(ids)
                counts["n_lines"] += len(chunk)
                counts["n_words"] += sum(len(line.split()) for line in chunk)
                counts["n_characters"] += sum(map(len, chunk))
                counts["n_unknown"] += int((ids == unk_id).sum())
                if progress is not None:
                    progress(counts["n_lines"])
        meta = StreamMeta(key, **counts, vocab_size=vocab_size, eos_id=eos_id)
        (temporary / META_NAME).write_text(json.dumps({"format": FORMAT, **asdict(meta)}, indent=1) + "\n")

    remove_leftovers(directory.parent)
    commit_directory(directory, write)
    stream = _open(directory, key)
    if stream is None:
        raise DataError("there is no text in it", hint="check the text files: they are empty")
    return stream


def _chunks(lines: Iterable[str]) -> Iterator[list[str]]:
    remaining = iter(lines)
    while chunk := list(islice(remaining, _LINES_PER_CHUNK)):
        yield chunk


def _open(directory: Path, key: str) -> TokenStream | None:
    """The stream in a directory; None if there is none, it has another key, or it is damaged."""
    try:
        values = json.loads(read_regular_file(directory / META_NAME, _MAX_META_BYTES).decode())
        if values.pop("format") != FORMAT or values["key"] != key:
            return None
        verify_directory(directory)
        meta = StreamMeta(**values)
        # asarray: slicing an ndarray takes a tenth of the time of slicing a memmap
        ids = np.memmap(directory / IDS_NAME, dtype=meta.id_type, mode="r", shape=(meta.n_tokens,))
        return TokenStream(meta, np.asarray(ids))
    except STORE_ERRORS:
        return None


@dataclass(frozen=True, eq=False)
class Stretches:
    """A text in stretches of equal length; the first and the last of an epoch are shorter."""

    stream: TokenStream
    length: int

    def __len__(self) -> int:
        return 1 if len(self.stream) <= self.length else -(-len(self.stream) // self.length) + 1

    @cached_property
    def lengths(self) -> tuple[NDArray[np.integer], ...]:
        """(n,), without the one symbol that the order of batches adds."""
        return (np.full(len(self), min(self.length, len(self.stream)) - 1),)


@dataclass(frozen=True, kw_only=True)
class StretchCollator:
    """Batches of stretches. In every epoch their boundaries are elsewhere."""

    stretches: Stretches
    pad_id: int

    def __call__(self, indices: NDArray[np.integer], place: Place) -> Batch:
        """Inputs: ids (B, L). Targets: the ids after them (B, L), NO_TARGET at padding."""
        stream, length = self.stretches.stream, self.stretches.length
        shift = random_key(place.seed, "stretches", place.epoch) % length if len(self.stretches) > 1 else 0
        firsts = [int(i) * length - shift for i in indices]
        rows = [stream.stretch(max(0, first), min(first + length, len(stream))) for first in firsts]
        width = max(1, max(map(len, rows)) - 1)
        inputs, targets = np.full((len(rows), width), self.pad_id), np.full((len(rows), width), NO_TARGET)
        for number, row in enumerate(rows):
            n = max(0, len(row) - 1)
            inputs[number, :n], targets[number, :n] = row[:n], row[1:]
        return Batch(
            inputs=(torch.from_numpy(inputs),),
            targets=(torch.from_numpy(targets),),
            n_targets=(int((targets != NO_TARGET).sum()),),
            place=place,
            indices=np.asarray(indices, dtype=np.int64),
        )
