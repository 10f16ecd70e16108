"""What the batcher has done: how fast, and how much of it for nobody."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic

_MEMORY_SECONDS = 10.0  # busy time after which an old measurement counts for 1/e
_FIRST_GUESS = 1_000.0  # tokens a second, before anything was measured


@dataclass
class Meter:
    """Counts, and the speed while at least one thread is busy, newer measurements counting more."""

    n_batches: int = 0
    n_texts: int = 0
    n_tokens: int = 0  # of the source, translated
    n_wasted_tokens: int = 0  # translated, but the client had left
    n_dropped_tokens: int = 0  # never translated: the client had left before their turn, or its time was up
    n_refused: int = 0  # requests, with 429
    _n_running: int = 0
    _marked_at: float = 0.0
    _tokens: float = 0.0
    _seconds: float = 0.0

    def begun(self) -> None:
        if not self._n_running:
            self._marked_at = monotonic()
        self._n_running += 1

    def finished(self, n_texts: int, n_tokens: int, n_wasted: int, full: bool) -> None:
        """`full`: the batch was large, and more was waiting. Only then does it show what the engine can do."""
        now = monotonic()
        if full:
            elapsed = max(now - self._marked_at, 1e-6)
            keep = max(0.0, 1 - elapsed / _MEMORY_SECONDS)
            self._tokens = self._tokens * keep + n_tokens
            self._seconds = self._seconds * keep + elapsed
        self._marked_at = now
        self._n_running -= 1
        self.n_batches += 1
        self.n_texts += n_texts
        self.n_tokens += n_tokens
        self.n_wasted_tokens += n_wasted

    def dropped(self, n_tokens: int) -> None:
        self.n_dropped_tokens += n_tokens

    def refused(self) -> None:
        self.n_refused += 1

    @property
    def tokens_per_second(self) -> float:
        return self._tokens / self._seconds if self._seconds else _FIRST_GUESS

    def seconds_for(self, n_tokens: float) -> float:
        """How long that much should take."""
        return n_tokens / max(self.tokens_per_second, 1.0)
