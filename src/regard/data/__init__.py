"""Ids → batches: a memory-mapped token store, length buckets, and a resumable order."""

from regard.data.batch import Batch, collate
from regard.data.build import build_store
from regard.data.loader import Cursor, LoaderSettings, epoch_order, prefetch, updates, validation_batches
from regard.data.order import BatchOrder, epoch_batches, fixed_batches
from regard.data.random_key import random_key
from regard.data.store import TokenStore, open_store

__all__ = [
    "Batch",
    "BatchOrder",
    "Cursor",
    "LoaderSettings",
    "TokenStore",
    "build_store",
    "collate",
    "epoch_batches",
    "epoch_order",
    "fixed_batches",
    "open_store",
    "prefetch",
    "random_key",
    "updates",
    "validation_batches",
]
