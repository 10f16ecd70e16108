"""Runs independent tasks on a Ray cluster. Its machines need Regard, and the same paths to the same files.

Only tasks are handed out, never text: Ray's own readers drop empty lines and end lines at more than LF.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any, TypeVar

from regard.errors import RegardError, RunError, UserError

T = TypeVar("T")
R = TypeVar("R")

LOCAL = "local"  # as an address: a cluster of this machine alone
_MAX_RETRIES = 3  # of a task whose process or machine died


def ray_map(
    function: Callable[[T], R], inputs: Iterable[T], address: str, *, whole_machines: bool = False
) -> Iterator[R]:
    """The results, in the order in which they are ready. With `whole_machines`, one task at a time on each machine."""
    try:
        ray: Any = import_module("ray")
    except ImportError as error:
        raise UserError(
            "--ray needs the package ray", hint="in Regard's directory, run: pip install '.[ray]'"
        ) from error
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options = {"include_dashboard": False} if address == LOCAL else {}
    try:
        ray.init(address=address, log_to_driver=False, **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise RunError(
            f"no Ray cluster at {address}: {str(error).splitlines()[0]}", hint="use its HOST:PORT"
        ) from error
    try:
        n_cpus = min(node["Resources"].get("CPU", 1.0) for node in ray.nodes() if node["Alive"])

        def call(value: T) -> R:
            return function(value)

        task: Any = ray.remote(num_cpus=n_cpus if whole_machines else 1, max_retries=_MAX_RETRIES)(call)
        pending = [task.remote(value) for value in inputs]
        while pending:
            ready, pending = ray.wait(pending)
            for result in ready:
                yield _result(ray, result)
    finally:
        ray.shutdown()


def _result(ray: Any, reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, RegardError):
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        message = f"a task failed on the Ray cluster: {str(error).splitlines()[0]}"
        raise RunError(message, hint="run the command again: what is finished is kept") from error
