"""The errors that clients see."""

from __future__ import annotations


class Problem(Exception):
    """An HTTP error: status, machine-readable code, and a message that never contains a client's text."""

    def __init__(self, status: int, code: str, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.retry_after = retry_after  # seconds


def too_busy(seconds: float) -> Problem:
    """429: the queue is full; `seconds` is when it should have space again."""
    retry_after = max(1, min(60, round(seconds + 0.5)))
    return Problem(429, "busy", f"the queue is full; try again in {retry_after} s", retry_after=retry_after)


def deadline_exceeded(seconds: float) -> Problem:
    """504: the request took longer than the deadline."""
    return Problem(
        504, "deadline", f"not finished within {seconds:g} s; send fewer or shorter texts, or try again later"
    )


def not_ready() -> Problem:
    """503: the training run has not produced a model yet."""
    message = "this model is still training; GET /v1/training reports the progress"
    return Problem(503, "not_ready", message, retry_after=10)


def engine_failed() -> Problem:
    """503: an engine thread is dead or stuck; /livez fails too."""
    return Problem(503, "engine_failed", "the translation engine has failed; restart the service")
