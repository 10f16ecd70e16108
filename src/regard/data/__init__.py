"""Ids → batches: a memory-mapped token store, length buckets, an order that can be resumed."""
