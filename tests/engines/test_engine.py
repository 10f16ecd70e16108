import os

import pytest

from regard.engines.engine import n_cores


def test_only_the_cores_that_a_process_may_use_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 5, 7}, raising=False)
    assert n_cores() == 3


@pytest.mark.parametrize(("known", "counted"), [(8, 8), (None, 1)])
def test_a_system_that_does_not_say_which_has_them_all(
    monkeypatch: pytest.MonkeyPatch, known: int | None, counted: int
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: known)
    assert n_cores() == counted
