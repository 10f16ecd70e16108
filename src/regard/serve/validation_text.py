"""The validation text of a run, as it lies in its token store."""

from __future__ import annotations

import numpy as np

from regard.data.store import META_NAME, StoreMeta, open_store
from regard.serve.models import ServedModel


def validation_pairs(model: ServedModel, most: int) -> list[tuple[str, str]]:
    """Pairs spread evenly over it; none when it has been deleted, or was made with another vocabulary."""
    if model.run is None or model.described is None:
        return []
    directory, tokenizers = model.run / "data" / "validation", model.described.tokenizers
    try:
        meta = StoreMeta.from_json((directory / META_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
    store = open_store(directory, meta.key)
    if store is None or meta.vocab_size > max(tokenizers.source.size, tokenizers.target.size):
        return []
    chosen = np.unique(np.linspace(0, len(store) - 1, min(most, len(store))).astype(np.int64))
    sources, targets = store.gather(chosen)
    return [
        (tokenizers.source.decode(source.tolist()), tokenizers.target.decode(target.tolist()))
        for source, target in zip(sources, targets, strict=True)
    ]
