"""Sentences for CTranslate2, in batches of like length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.engines.protocol import Ids

ROWS_OF_TOKENS = 4096  # of the source, padding included, times the beam: more leave the cache
MOST_TOKENS = 2048
SENTENCES_PER_BATCH = 256


@dataclass(frozen=True)
class Job:
    """One sentence: its place in the list that was given, and the most symbols that it may become."""

    place: int
    source: Ids
    prefix: Ids
    limit: int


def batches_of(jobs: Sequence[Job], n_workers: int, beam: int = 1) -> list[list[Job]]:
    """Sources of like length together, the longest first; forced prefixes apart; work for every worker."""
    max_tokens = min(MOST_TOKENS, ROWS_OF_TOKENS // beam)
    most = min(SENTENCES_PER_BATCH, max(1, -(-len(jobs) // n_workers)))
    batches: list[list[Job]] = []
    for job in sorted(jobs, key=lambda job: (not job.prefix, -len(job.source))):
        batch = batches[-1] if batches else []
        full = len(batch) == most or (len(batch) + 1) * (len(batch[0].source) + 1) > max_tokens if batch else True
        if full or bool(batch[0].prefix) != bool(job.prefix):
            batches.append([job])
        else:
            batch.append(job)
    return batches


def of_one_limit(jobs: Sequence[Job], n_workers: int, beam: int = 1) -> list[list[Job]]:
    """Batches whose sentences may all become equally long."""
    limits = sorted({job.limit for job in jobs}, reverse=True)
    alike = [[job for job in jobs if job.limit == limit] for limit in limits]
    return [batch for group in alike for batch in batches_of(group, n_workers, beam)]
