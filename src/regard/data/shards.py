"""A token store of many shards, for corpora beyond memory and beyond one machine.

DIR/shards/00000, …   token stores of consecutive lines, at most some million pairs each
DIR/tokenizer, DIR/validation
DIR/index.json        written last: the shards with their counts and digests, and facts about the text

An epoch goes through the shards in random order, a few at a time: a window. Only the pairs of a window are ordered at
once, and a shard is verified when it is first used, so memory and start-up do not depend on the size of the corpus.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.data.random_key import random_key
from regard.data.store import STORE_ERRORS, StoreMeta, TokenStore, map_store, open_store, read_meta
from regard.durable import read_json_file, read_regular_file, write_file
from regard.errors import ArtifactError

INDEX_NAME, SHARDS = "index.json", "shards"
FORMAT = "regard-shards-1"
WINDOW_PAIRS = 2_000_000  # about 200 bytes each, with the ids of the shards
_MAX_INDEX_BYTES = 100_000_000
_MAX_MANIFEST_BYTES = 1_000_000

Ids = NDArray[np.unsignedinteger]


class ShardEntry(NamedTuple):
    """A shard, as in the index."""

    n_pairs: int
    n_source_tokens: int
    n_target_tokens: int
    n_blank: int
    n_too_long: int
    manifest: str  # SHA-256 of the manifest of its files

    @classmethod
    def of(cls, directory: Path, key: str) -> ShardEntry | None:
        """A finished shard with this key; its files are not read. None if there is none."""
        try:
            meta = read_meta(directory)
            if meta.key != key:
                return None
            manifest = _manifest(directory)
        except STORE_ERRORS:
            return None
        counts = (meta.n_pairs, meta.n_source_tokens, meta.n_target_tokens, meta.n_blank, meta.n_too_long)
        return cls(*counts, manifest)


@dataclass(frozen=True)
class ShardIndex:
    """The content of index.json."""

    key: str  # of the store: identifies everything that the ids depend on
    shards: tuple[ShardEntry, ...]
    shards_per_window: int
    weights: tuple[float, ...]  # of each corpus
    max_length: int
    vocab_size: int
    text: Mapping[str, Any]  # settings of the recipe that the ids depend on
    facts: Mapping[str, Any]  # about the text, for the model
    files: tuple[str, ...]  # their names, for the model card

    def write(self, directory: Path) -> None:
        write_file(directory / INDEX_NAME, (json.dumps({"format": FORMAT, **asdict(self)}) + "\n").encode())

    @classmethod
    def read(cls, directory: Path) -> ShardIndex:
        """Raises ArtifactError if there is no finished store."""
        hint = "finish it with `regard encode --join`, or use another directory"
        if not (directory / INDEX_NAME).exists():
            raise ArtifactError(f"{directory} has no {INDEX_NAME}: it is not a finished token store", hint=hint)
        values = read_json_file(directory / INDEX_NAME, _MAX_INDEX_BYTES)
        try:
            if values.pop("format") != FORMAT:
                raise ValueError("unknown format")
            values["shards"] = tuple(ShardEntry(*entry) for entry in values["shards"])
            values |= {name: tuple(values[name]) for name in ("weights", "files")}
            return cls(**values)
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError(f"{directory / INDEX_NAME} is damaged: {error}", hint=hint) from error


class Window(NamedTuple):
    """The pairs that are ordered at once."""

    numbers: NDArray[np.int64]  # (n,) of the pairs in the whole store
    lengths: tuple[NDArray[np.int32], NDArray[np.int32]]  # of sources and targets
    weights: NDArray[np.float32] | None  # how often each pair occurs in an epoch; None: once


@dataclass(eq=False)
class ShardedStore:
    """Pairs of id sequences of a finished store. Pair numbers count through all shards."""

    directory: Path
    index: ShardIndex
    _opened: OrderedDict[int, TokenStore] = field(default_factory=OrderedDict)  # the last ones that were used
    _verified: set[int] = field(default_factory=set)

    def __len__(self) -> int:
        return int(self._starts[-1])

    @cached_property
    def meta(self) -> StoreMeta:
        """The counts of all shards together."""
        names = ("n_pairs", "n_source_tokens", "n_target_tokens", "n_blank", "n_too_long")
        counts = {name: sum(getattr(entry, name) for entry in self.index.shards) for name in names}
        index = self.index
        return StoreMeta(index.key, **counts, max_length=index.max_length, vocab_size=index.vocab_size)

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        """(n_shards + 1,) number of the first pair of each shard."""
        return np.concatenate([[0], np.cumsum([entry.n_pairs for entry in self.index.shards], dtype=np.int64)])

    @property
    def lengths(self) -> tuple[NDArray[np.integer], ...]:
        raise AssertionError("the lengths of all shards are never in memory at once")

    @property
    def n_windows(self) -> int:
        """In an epoch."""
        return -(-len(self.index.shards) // self.index.shards_per_window)

    def window(self, seed: int, epoch: int, number: int) -> Window:
        """One window of an epoch. Its shards depend only on the arguments."""
        rng = np.random.Generator(np.random.PCG64(random_key(seed, "shards", epoch)))
        width = self.index.shards_per_window
        shards = rng.permutation(len(self.index.shards))[number * width : (number + 1) * width].tolist()
        stores = [self._shard(shard) for shard in shards]
        numbers = [np.arange(self._starts[shard], self._starts[shard + 1]) for shard in shards]
        source, target = (np.concatenate([store.lengths[side] for store in stores]) for side in (0, 1))
        for store in stores:
            vars(store).pop("lengths")  # cached, and now in two places
        weights = None
        if set(self.index.weights) != {1.0}:
            table = np.array(self.index.weights, np.float32)
            weights = np.concatenate([table[store.corpora] for store in stores])
        return Window(np.concatenate(numbers), (source, target), weights)

    def gather(self, indices: NDArray[np.integer]) -> tuple[list[Ids], list[Ids]]:
        """The sources and the targets of many pairs."""
        shards = np.searchsorted(self._starts, indices, side="right") - 1
        pairs: dict[int, tuple[Ids, Ids]] = {}
        for shard in np.unique(shards).tolist():
            places = np.flatnonzero(shards == shard)
            found = self._shard(shard).gather(indices[places] - self._starts[shard])
            pairs |= zip(places.tolist(), zip(*found, strict=True), strict=True)
        ordered = [pairs[place] for place in range(len(indices))]
        return [source for source, _ in ordered], [target for _, target in ordered]

    def sample(self, n: int) -> list[tuple[list[int], list[int]]]:
        """The ids of up to n pairs, the first ones of each shard, which are not verified for it."""
        each = -(-n // max(1, len(self.index.shards)))
        pairs = []
        for shard in range(len(self.index.shards)):
            store = map_store(shard_path(self.directory, shard))
            pairs += [store.pair(number) for number in range(min(each, len(store)))]
        return [(source.tolist(), target.tolist()) for source, target in pairs[:n]]

    def _shard(self, shard: int) -> TokenStore:
        """An open shard, verified when it is used for the first time."""
        store = self._opened.pop(shard, None)
        if store is None:
            path, entry = shard_path(self.directory, shard), self.index.shards[shard]
            try:
                if _manifest(path) != entry.manifest:
                    raise ArtifactError("it is not the shard of the index")
                store = map_store(path) if shard in self._verified else open_store(path, read_meta(path).key)
            except STORE_ERRORS:
                store = None
            if store is None:
                hint = "run the command that made the store again: it builds the shard again"
                raise ArtifactError(f"{path} is missing or damaged", hint=hint)
            self._verified.add(shard)
        self._opened[shard] = store
        while len(self._opened) > self.index.shards_per_window:
            self._opened.popitem(last=False)
        return store


def shard_path(directory: Path, shard: int) -> Path:
    return directory / SHARDS / f"{shard:05d}"


def shards_per_window(entries: Sequence[ShardEntry]) -> int:
    """How many shards are ordered at once."""
    largest = max((entry.n_pairs for entry in entries), default=1)
    return max(1, min(len(entries), WINDOW_PAIRS // max(1, largest)))


def _manifest(directory: Path) -> str:
    return hashlib.sha256(read_regular_file(directory / "manifest.json", _MAX_MANIFEST_BYTES)).hexdigest()
