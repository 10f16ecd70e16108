"""What a search is asked, and what it answers. Ids only: no model and no text is known here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.errors import RecipeError


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


def gnmt(length: int, alpha: float) -> float:
    """((5 + length) / 6)^α, by which a sum of log-probabilities is divided (Wu et al., 2016, equation 14).

    `length` counts symbols with the end symbol, where it was reached: as many as there are log-probabilities.
    """
    return float(((5.0 + length) / 6.0) ** alpha)


def make_hypothesis(
    symbols: Sequence[int], log_probs: Sequence[float], end_id: int, length_penalty: float
) -> Hypothesis:
    """A finished search as a hypothesis: without the end symbol in its ids, but with its log-probability."""
    ids = symbols[:-1] if symbols and symbols[-1] == end_id else symbols
    return Hypothesis(tuple(ids), tuple(log_probs), sum(log_probs) / gnmt(len(log_probs), length_penalty))


def check_options(options: DecodingOptions) -> None:
    """Refuse what can not be searched for, in words."""
    sampling = options.sampling
    wrong = {
        "beam must be 1 or more": options.beam < 1,
        "n_best must be 1 or more": options.n_best < 1,
        "extra_length, min_length and no_repeat_ngram can not be negative": min(
            options.extra_length, options.min_length, options.no_repeat_ngram
        )
        < 0,
        f"a beam of {options.beam} does not have {options.n_best} hypotheses": (
            sampling is None and options.n_best > options.beam
        ),
        "temperature and top_k can not be negative": (
            sampling is not None and (sampling.temperature < 0 or sampling.top_k < 0)
        ),
        "top_p must be above 0, and 1 at most": sampling is not None and not 0 < sampling.top_p <= 1,
    }
    for message, holds in wrong.items():
        if holds:
            raise RecipeError(message)
