"""What somebody waits for goes before what is queued; everything else runs in order."""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread

import pytest

from regard.engines.ctranslate2.jobs import Job, JobQueue


class Workers:
    """Records which jobs were started; they end when `finish` is called."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.futures: dict[str, Future[str]] = {}

    def job(self, name: str) -> Job:
        def start() -> list[Future[str]]:
            self.started.append(name)
            self.futures[name] = Future()
            return [self.futures[name]]

        return Job(start)

    def finish(self, *names: str) -> None:
        for name in names:
            self.futures[name].set_result(name)


@pytest.fixture
def workers() -> Workers:
    return Workers()


@pytest.fixture
def put(workers: Workers) -> Callable[[JobQueue, str], dict[str, Job]]:
    def put(queue: JobQueue, names: str) -> dict[str, Job]:
        jobs = {name: workers.job(name) for name in names}
        for job in jobs.values():
            queue.put(job)
        return jobs

    return put


def test_some_jobs_run_and_the_others_start_in_order(workers: Workers, put: Callable[..., dict[str, Job]]) -> None:
    queue = JobQueue(2)
    jobs = put(queue, "abcd")
    assert workers.started == ["a", "b"]
    workers.finish("a")
    assert queue.wait(jobs["a"]) == ["a"]
    assert workers.started == ["a", "b", "c"]


def test_an_urgent_job_does_not_wait_for_those_in_the_queue(
    workers: Workers, put: Callable[..., dict[str, Job]]
) -> None:
    queue = JobQueue(1)
    put(queue, "abc")
    urgent = workers.job("urgent")
    queue.put(urgent, urgent=True)
    assert workers.started == ["a", "urgent"]
    workers.finish("urgent")
    assert queue.wait(urgent) == ["urgent"]


def test_waiting_for_a_job_starts_those_before_it(workers: Workers, put: Callable[..., dict[str, Job]]) -> None:
    queue = JobQueue(1)
    jobs = put(queue, "abcd")
    thread = Thread(target=queue.wait, args=(jobs["c"],))
    thread.start()
    while len(workers.started) < 3:
        thread.join(0.01)
    assert workers.started == ["a", "b", "c"]  # although nobody ever looks at a and b
    workers.finish("a", "b", "c")
    thread.join()
    assert queue.wait(jobs["c"]) == ["c"]
    assert workers.started == ["a", "b", "c", "d"]


def test_a_failed_job_raises_for_everyone_who_waits_for_it(
    workers: Workers, put: Callable[..., dict[str, Job]]
) -> None:
    queue = JobQueue(1)
    jobs = put(queue, "ab")
    workers.futures["a"].set_exception(RuntimeError("out of memory"))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="out of memory"):
            queue.wait(jobs["a"])


def test_a_job_that_cannot_start_raises_for_who_waits_for_it(workers: Workers) -> None:
    queue = JobQueue(1)

    def refuse() -> list[Future[str]]:
        raise ValueError("no such option")

    first, refused, last = workers.job("first"), Job(refuse), workers.job("last")
    for job in (first, refused, last):
        queue.put(job)
    workers.finish("first")
    assert queue.wait(first) == ["first"]  # starts the next one, too
    with pytest.raises(ValueError, match="no such option"):
        queue.wait(refused)
    workers.finish("last")
    assert queue.wait(last) == ["last"]


def test_cleared_jobs_never_start(workers: Workers, put: Callable[..., dict[str, Job]]) -> None:
    queue = JobQueue(1)
    jobs = put(queue, "ab")
    queue.clear()
    workers.finish("a")
    queue.wait(jobs["a"])
    assert workers.started == ["a"]
