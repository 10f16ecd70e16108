"""What a search is asked, and what it answers. Ids only: no model and no text is known here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Draw the next symbol instead of taking the likeliest."""

    temperature: float = 1.0
    top_k: int = 0  # only among this many; 0: all
    top_p: float = 1.0  # only among the likeliest that together have this much
    seed: int = 1


@dataclass(frozen=True, kw_only=True)
class DecodingOptions:
    """How a translation is searched for. The defaults are the paper's (section 6.1)."""

    beam: int = 4  # hypotheses kept a step; 1 is greedy
    length_penalty: float = 0.6  # α of ((5 + length) / 6)^α; 0: none
    extra_length: int = 50  # at most this many symbols more than the source has
    n_best: int = 1
    min_length: int = 0
    no_repeat_ngram: int = 0  # no run of so many symbols twice; 0: off
    banned: tuple[int, ...] = ()  # symbols that never come
    sampling: Sampling | None = None


@dataclass(frozen=True)
class Hypothesis:
    """One translation, as ids without begin and end."""

    ids: tuple[int, ...]
    log_probs: tuple[float, ...]  # of each id, and of the end symbol where it was reached
    score: float  # Σ log_probs / ((5 + length) / 6)^α: what hypotheses are ranked by
    attention: tuple[tuple[float, ...], ...] | None = None  # (len(ids), source length): one head's weights
