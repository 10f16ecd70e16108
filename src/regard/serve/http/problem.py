"""What a client is told when it does not get what it asked for."""

from __future__ import annotations


class Problem(Exception):
    """A refusal with its HTTP status, a code for programs and a sentence for people; never holds a client's text."""

    def __init__(self, status: int, code: str, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.retry_after = retry_after  # seconds


def too_busy(seconds: float) -> Problem:
    """429: the queue is full; come back when it should not be."""
    whole = max(1, min(60, round(seconds + 0.5)))
    return Problem(429, "busy", f"too much is waiting already; try again in {whole} s", retry_after=whole)


def too_late(seconds: float) -> Problem:
    """504: the deadline has passed."""
    return Problem(504, "deadline", f"not done within {seconds:g} s; send fewer or shorter texts, or come back later")


def leaving() -> Problem:
    """503: asked to stop, and only what was admitted before is still answered."""
    return Problem(503, "stopping", "the service is stopping", retry_after=5)


def not_ready() -> Problem:
    """503: a run whose training has not made a model yet."""
    message = "this model is not there yet: its training is not finished; GET /v1/training says how far it is"
    return Problem(503, "not_ready", message, retry_after=10)


def engine_failed() -> Problem:
    """503: the thread that translates is dead or stuck; liveness fails too."""
    return Problem(503, "engine_failed", "the engine has stopped answering; the service must be started again")
