"""Tasks on a Ray cluster, with a stand-in for Ray that runs them here."""

import sys
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from regard.errors import DataError, RunError, UserError
from regard.ray_tasks import ray_map


class FakeRay(SimpleNamespace):
    """Runs a task when its result is fetched; the last one that was submitted is ready first."""

    class exceptions:
        class RayError(Exception): ...

        class RayTaskError(RayError):
            def __init__(self, cause: Exception) -> None:
                self.cause = cause

    def __init__(self) -> None:
        super().__init__(options=[], is_up=False)

    def init(self, address: str, **_: Any) -> None:
        if address == "nowhere:1":
            raise ConnectionError("cannot connect")
        self.is_up = True

    def shutdown(self) -> None:
        self.is_up = False

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": {"CPU": 8.0}}, {"Alive": False, "Resources": {"CPU": 1.0}}]

    def remote(self, **options: Any) -> Callable[[Callable[[Any], Any]], Any]:
        self.options.append(options)
        return lambda function: SimpleNamespace(remote=lambda value: (function, value))

    def wait(self, pending: list[Any]) -> tuple[list[Any], list[Any]]:
        return pending[-1:], pending[:-1]

    def get(self, reference: Any) -> Any:
        function, value = reference
        try:
            return function(value)
        except Exception as error:
            raise self.exceptions.RayTaskError(error) from error


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    fake = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", fake)  # type: ignore[arg-type]
    return fake


def test_every_task_is_done_and_the_cluster_is_left(ray: FakeRay) -> None:
    assert list(ray_map(partial(pow, 2), [1, 2, 3], "local")) == [8, 4, 2]
    assert list(ray_map(partial(pow, 2), [1], "local", whole_machines=True)) == [2]
    assert [options["num_cpus"] for options in ray.options] == [1, 8.0] and not ray.is_up


def test_errors_of_a_task_are_our_own(ray: FakeRay) -> None:
    def fail(value: int) -> None:
        raise DataError(f"line {value}", hint="fix it")

    with pytest.raises(DataError, match="line 3; hint: fix it"):
        list(ray_map(fail, [3], "local"))
    assert not ray.is_up


def test_a_cluster_or_a_package_that_is_missing_is_reported(ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunError, match="no Ray cluster at nowhere:1: cannot connect"):
        list(ray_map(abs, [1], "nowhere:1"))
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"--ray needs the package ray; hint: .*\[ray\]"):
        list(ray_map(abs, [1], "local"))
