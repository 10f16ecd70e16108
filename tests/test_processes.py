"""Functions computed in several processes."""

import os
from functools import partial
from pathlib import Path

import pytest

from regard.errors import DataError, RunError
from regard.processes import n_cores, ordered_map
from regard.text import Corpus, count_pairs


def test_n_cores_counts_the_cores_that_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 5, 7}, raising=False)
    assert n_cores() == 3


@pytest.mark.parametrize(("cpu_count", "expected"), [(8, 8), (None, 1)])
def test_n_cores_counts_all_cores_without_affinity(
    monkeypatch: pytest.MonkeyPatch, cpu_count: int | None, expected: int
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: cpu_count)
    assert n_cores() == expected


@pytest.mark.parametrize("n_processes", [1, 3])
def test_results_are_in_the_order_of_the_inputs(n_processes: int) -> None:
    assert list(ordered_map(partial(pow, 2), range(40), n_processes)) == [2**n for n in range(40)]


def test_errors_of_a_process_are_raised_here_with_their_hints() -> None:
    with pytest.raises(DataError, match="no such file; hint: check the path"):
        list(ordered_map(count_pairs, [Corpus(tsv=Path("/nowhere"))] * 3, 2))


def test_a_process_that_dies_is_reported() -> None:
    with pytest.raises(RunError, match="a worker process ended unexpectedly"):
        list(ordered_map(os._exit, [3], 2))
