"""Lines → token store. Chunks are encoded in parallel, in bounded memory."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from regard.data.store import CORPUS_TYPE, FILE_NAMES, META_NAME, OFFSET_TYPE, StoreMeta, TokenStore, open_store
from regard.durable import commit_directory, remove_leftovers
from regard.errors import DataError
from regard.text import normalise

PAIRS_PER_CHUNK = 5_000

LinePair = tuple[str, str, int]  # source line, target line, index of the corpus (below 256)
Sentences = list[list[int]]  # ids, without bos and eos
Encode = Callable[[list[LinePair]], tuple[Sentences, Sentences]]  # → sources, targets


@dataclass(frozen=True, eq=False)
class _EncodedSide:
    """The source or the target sentences of one chunk."""

    ids: NDArray[np.int64]  # of all sentences, concatenated
    lengths: NDArray[np.int64]  # (n_pairs,)


@dataclass(frozen=True, eq=False)
class _Chunk:
    """Some thousand encoded pairs, without blank and too long ones."""

    source: _EncodedSide
    target: _EncodedSide
    corpora: NDArray[np.uint8]  # (n_pairs,)
    n_read: int
    n_blank: int
    n_too_long: int


def build_store(
    directory: Path,
    pairs: Iterable[LinePair],
    encode: Encode,
    *,
    max_length: int,
    vocab_size: int,
    key: str,
    n_workers: int = 1,
    progress: Callable[[int], None] | None = None,
) -> TokenStore:
    """Encode all pairs into a store at `directory`, replacing an existing one, and open it.

    Pairs with an empty side, or with more than `max_length` ids on one side, are left out and counted. `key` identifies
    everything that the ids depend on; `open_store` needs the same key. `encode` is called in `n_workers` threads:
    SentencePiece releases the GIL. `progress` is called with the number of pairs read so far. If the build is killed,
    the existing store is unchanged.
    """

    def encode_chunk(chunk: list[LinePair]) -> _Chunk:
        return _encode_chunk(chunk, encode, max_length=max_length, vocab_size=vocab_size)

    def write(temporary: Path) -> None:
        empty = StoreMeta(key, 0, 0, 0, 0, 0, max_length, vocab_size)
        meta = _write_chunks(temporary, _in_order(encode_chunk, pairs, n_workers), empty, progress)
        (temporary / META_NAME).write_text(meta.to_json(), encoding="utf-8")

    remove_leftovers(directory.parent)  # a killed build leaves files as large as a store
    commit_directory(directory, write)
    store = open_store(directory, key)
    assert store is not None, "the new store cannot be opened"
    return store


def _in_order(
    encode: Callable[[list[LinePair]], _Chunk], pairs: Iterable[LinePair], n_workers: int
) -> Iterator[_Chunk]:
    """Encoded chunks in the order of the corpus, with only a few in memory."""
    remaining = iter(pairs)
    futures: deque[Future[_Chunk]] = deque()
    with ThreadPoolExecutor(n_workers, thread_name_prefix="regard-encode") as pool:
        while chunk := list(islice(remaining, PAIRS_PER_CHUNK)):
            futures.append(pool.submit(encode, chunk))
            if len(futures) > 2 * n_workers:
                yield futures.popleft().result()
        while futures:
            yield futures.popleft().result()


def _encode_chunk(pairs: list[LinePair], encode: Encode, *, max_length: int, vocab_size: int) -> _Chunk:
    """Encode some pairs, and leave out blank and too long ones."""
    sources, targets, corpora = (list(column) for column in zip(*pairs, strict=True))
    source, target = (_concatenate(sentences, vocab_size) for sentences in encode(pairs))
    # A blank line may have ids (a language tag), so the text is checked as well.
    has_text = [bool(normalise(src) and normalise(tgt)) for src, tgt in zip(sources, targets, strict=True)]
    filled = np.array(has_text) & (source.lengths > 0) & (target.lengths > 0)
    short = np.maximum(source.lengths, target.lengths) <= max_length
    keep = filled & short
    return _Chunk(
        source=_select(source, keep),
        target=_select(target, keep),
        corpora=np.array(corpora, dtype=CORPUS_TYPE)[keep],
        n_read=len(pairs),
        n_blank=int((~filled).sum()),
        n_too_long=int((filled & ~short).sum()),
    )


def _concatenate(sentences: list[list[int]], vocab_size: int) -> _EncodedSide:
    ids = np.fromiter(chain.from_iterable(sentences), dtype=np.int64)
    if len(ids) and not 0 <= ids.min() <= ids.max() < vocab_size:
        raise ValueError(f"ids from {ids.min()} to {ids.max()} do not fit a vocabulary of {vocab_size}")
    return _EncodedSide(ids, np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences)))


def _select(side: _EncodedSide, keep: NDArray[np.bool_]) -> _EncodedSide:
    return _EncodedSide(side.ids[np.repeat(keep, side.lengths)], side.lengths[keep])


def _write_chunks(
    directory: Path, chunks: Iterator[_Chunk], meta: StoreMeta, progress: Callable[[int], None] | None
) -> StoreMeta:
    """Append all chunks to the files of a new store, and count pairs. Raises DataError if there are none."""
    n_read = 0
    with ExitStack() as stack:
        files = {name: stack.enter_context((directory / name).open("xb")) for name in FILE_NAMES}
        for name in ("source.offsets", "target.offsets"):
            files[name].write(np.zeros(1, dtype=OFFSET_TYPE).tobytes())
        for chunk in chunks:
            meta = _append(files, chunk, meta)
            n_read += chunk.n_read
            if progress is not None:
                progress(n_read)
    if meta.n_pairs == 0:
        raise DataError(
            f"no pairs to train on: of {n_read} pairs {meta.n_blank} have an empty side"
            f" and {meta.n_too_long} are longer than {meta.max_length} sub-words",
            hint="check the two files, or increase text.max_length",
        )
    return meta


def _append(files: Mapping[str, BinaryIO], chunk: _Chunk, meta: StoreMeta) -> StoreMeta:
    """Append a chunk to the files, and return the updated counts."""
    sides = {"source": (chunk.source, meta.n_source_tokens), "target": (chunk.target, meta.n_target_tokens)}
    for name, (side, n_tokens) in sides.items():
        files[f"{name}.ids"].write(side.ids.astype(meta.id_type).tobytes())
        files[f"{name}.offsets"].write((n_tokens + np.cumsum(side.lengths)).astype(OFFSET_TYPE).tobytes())
    files["corpus.numbers"].write(chunk.corpora.tobytes())
    return replace(
        meta,
        n_pairs=meta.n_pairs + len(chunk.corpora),
        n_source_tokens=meta.n_source_tokens + len(chunk.source.ids),
        n_target_tokens=meta.n_target_tokens + len(chunk.target.ids),
        n_blank=meta.n_blank + chunk.n_blank,
        n_too_long=meta.n_too_long + chunk.n_too_long,
    )
