"""Lines → token store. Chunks are encoded in parallel, in bounded memory."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

from regard.data.store import CORPUS_TYPE, FILE_NAMES, META_NAME, OFFSET_TYPE, StoreMeta, TokenStore, open_store
from regard.durable import commit_directory, remove_leftovers
from regard.errors import DataError
from regard.text import normalise
from regard.text.encoding import EncodedBlock, concatenate

PAIRS_PER_CHUNK = 5_000

LinePair = tuple[str, str, int]  # source line, target line, index of the corpus (below 256)
Sentences = list[list[int]]  # ids, without bos and eos
Encode = Callable[[list[LinePair]], tuple[Sentences, Sentences]]  # → sources, targets


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

    chunks = _in_order(partial(_encode_chunk, encode, max_length), pairs, n_workers)
    return write_store(directory, chunks, max_length=max_length, vocab_size=vocab_size, key=key, progress=progress)


def write_store(
    directory: Path,
    blocks: Iterable[EncodedBlock],
    *,
    max_length: int,
    vocab_size: int,
    key: str,
    progress: Callable[[int], None] | None = None,
    write_rest: Callable[[Path], None] | None = None,
) -> TokenStore:
    """Write encoded blocks as a store, as `build_store` does.

    `write_rest` adds files to it, as to a shard, which may also have no pairs.
    """

    def write(temporary: Path) -> None:
        empty = StoreMeta(key, 0, 0, 0, 0, 0, max_length, vocab_size)
        meta, n_read = _write_chunks(temporary, blocks, empty, progress)
        if write_rest is not None:
            write_rest(temporary)
        elif meta.n_pairs == 0:
            raise _no_pairs(meta, n_read)
        (temporary / META_NAME).write_text(meta.to_json(), encoding="utf-8")

    remove_leftovers(directory.parent)  # a killed build leaves files as large as a store
    commit_directory(directory, write)
    store = open_store(directory, key)
    assert store is not None, "the new store cannot be opened"
    return store


def _in_order(
    encode: Callable[[list[LinePair]], EncodedBlock], pairs: Iterable[LinePair], n_workers: int
) -> Iterator[EncodedBlock]:
    """Encoded chunks in the order of the corpus, with only a few in memory."""
    remaining = iter(pairs)
    futures: deque[Future[EncodedBlock]] = deque()
    with ThreadPoolExecutor(n_workers, thread_name_prefix="regard-encode") as pool:
        while chunk := list(islice(remaining, PAIRS_PER_CHUNK)):
            futures.append(pool.submit(encode, chunk))
            if len(futures) > 2 * n_workers:
                yield futures.popleft().result()
        while futures:
            yield futures.popleft().result()


def _encode_chunk(encode: Encode, max_length: int, pairs: list[LinePair]) -> EncodedBlock:
    """Encode some pairs, and leave out blank and too long ones."""
    corpora = np.array([corpus for _, _, corpus in pairs], CORPUS_TYPE)
    # A blank line may have ids (a language tag), so the text is checked as well.
    has_text = np.array([bool(normalise(source) and normalise(target)) for source, target, _ in pairs])
    source, target = map(concatenate, encode(pairs))
    return EncodedBlock.of(source, target, corpora, np.zeros(len(pairs), np.uint64), has_text, max_length)


def _write_chunks(
    directory: Path, chunks: Iterable[EncodedBlock], meta: StoreMeta, progress: Callable[[int], None] | None
) -> tuple[StoreMeta, int]:
    """Append all chunks to the files of a new store, and count the pairs in it, and all that were read."""
    n_read = 0
    with ExitStack() as stack:
        files = {name: stack.enter_context((directory / name).open("xb")) for name in FILE_NAMES}
        for name in ("source.offsets", "target.offsets"):
            files[name].write(np.zeros(1, dtype=OFFSET_TYPE).tobytes())
        for chunk in chunks:
            _require_vocabulary(chunk, meta.vocab_size)
            meta = _append(files, chunk, meta)
            n_read += chunk.n_read
            if progress is not None:
                progress(n_read)
    return meta, n_read


def _no_pairs(meta: StoreMeta, n_read: int) -> DataError:
    return DataError(
        f"no pairs to train on: of {n_read} pairs {meta.n_blank} have an empty side"
        f" and {meta.n_too_long} are longer than {meta.max_length} sub-words",
        hint="check the two files, or increase text.max_length",
    )


def _require_vocabulary(chunk: EncodedBlock, vocab_size: int) -> None:
    for side in (chunk.source, chunk.target):
        if len(side.ids) and not 0 <= side.ids.min() <= side.ids.max() < vocab_size:
            raise ValueError(f"ids from {side.ids.min()} to {side.ids.max()} do not fit a vocabulary of {vocab_size}")


def _append(files: Mapping[str, BinaryIO], chunk: EncodedBlock, meta: StoreMeta) -> StoreMeta:
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
