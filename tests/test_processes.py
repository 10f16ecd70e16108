"""Functions computed in several processes."""

import os

import pytest

from regard.processes import n_cores


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
