"""The validation text of a run, as it lies in its token store."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regard.data.store import STORE_ERRORS, TokenStore, open_store, read_meta
from regard.serve.models import ServedModel


def validation_pairs(model: ServedModel, most: int, target: str | None = None) -> list[tuple[str, str]]:
    """Pairs spread evenly over it; none when it has been deleted, or was made with another vocabulary.

    Of a model with several target languages, those into `target`.
    """
    if model.run is None or model.described is None:
        return []
    directory, tokenizers = model.run / "data" / "validation", model.described.tokenizers
    try:
        meta = read_meta(directory)
    except STORE_ERRORS:
        return []
    store = open_store(directory, meta.key)
    if store is None or meta.vocab_size > max(tokenizers.source.size, tokenizers.target.size):
        return []
    known = _numbers(store, tokenizers.source.encode("", tag=target))
    chosen = known[np.unique(np.linspace(0, len(known) - 1, min(most, len(known))).astype(np.int64))]
    sources, targets = store.gather(chosen)
    return [
        (tokenizers.source.decode(one.tolist()), tokenizers.target.decode(other.tolist()))
        for one, other in zip(sources, targets, strict=True)
    ]


def _numbers(store: TokenStore, front: list[int]) -> NDArray[np.int64]:
    """The pairs whose source begins with a tag; all of them without one."""
    if not front:
        return np.arange(len(store))
    return np.flatnonzero(store.source_ids[store.source_offsets[:-1]] == front[0])
