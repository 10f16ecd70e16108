"""Ids → batches: a memory-mapped token store, length buckets, and a resumable order."""

from regard.data.batch import NO_TARGET, Batch, Collator, Examples, Place
from regard.data.build import build_store
from regard.data.loader import Cursor, Loader, fixed_order, prefetch
from regard.data.pairs import PairCollator, collate_pairs
from regard.data.random_key import random_key
from regard.data.store import TokenStore, open_store

__all__ = [
    "NO_TARGET",
    "Batch",
    "Collator",
    "Cursor",
    "Examples",
    "Loader",
    "PairCollator",
    "Place",
    "TokenStore",
    "build_store",
    "collate_pairs",
    "fixed_order",
    "open_store",
    "prefetch",
    "random_key",
]
