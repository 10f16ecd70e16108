"""Options and results of a search, as ids. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.errors import RecipeError


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Draw the next token at random instead of taking the most likely one."""

    temperature: float = 1.0
    top_k: int = 0  # draw from the k most likely tokens; 0: from all
    top_p: float = 1.0  # draw from the most likely tokens that together have this probability
    seed: int = 1


@dataclass(frozen=True, kw_only=True)
class DecodingOptions:
    """How to search for a translation. The defaults are those of section 6.1."""

    beam: int = 4  # beam size; 1 is greedy
    length_penalty: float = 0.6  # α of ((5 + length) / 6)^α; 0: none
    extra_length: int = 50  # at most this many tokens more than the source has
    n_best: int = 1
    min_length: int = 0
    no_repeat_ngram: int = 0  # no n-gram of this size twice; 0: off
    banned: tuple[int, ...] = ()  # tokens that never occur
    sampling: Sampling | None = None

    @property
    def is_constrained(self) -> bool:
        """Whether some tokens are forbidden."""
        return bool(self.min_length or self.no_repeat_ngram or self.banned)


@dataclass(frozen=True)
class Hypothesis:
    """One translation, as ids without the begin and end tokens."""

    ids: tuple[int, ...]
    log_probs: tuple[float, ...]  # of each id, and of the end token if the search reached it
    score: float  # Σ log_probs / ((5 + length) / 6)^α, by which hypotheses are ranked
    attention: tuple[tuple[float, ...], ...] | None = None  # (len(ids), source length): weights of the alignment head


NBestLists = list[list[Hypothesis]]  # for each source its hypotheses, best first


def gnmt(length: int, alpha: float) -> float:
    """((5 + length) / 6)^α: the length penalty of Wu et al., 2016, equation 14.

    A sum of log-probabilities favours short translations; it is divided by this penalty. `length` is the number of
    log-probabilities: it includes the end token if the search reached it.
    """
    return float(((5.0 + length) / 6.0) ** alpha)


def make_hypothesis(tokens: Sequence[int], log_probs: Sequence[float], end_id: int, alpha: float) -> Hypothesis:
    """The hypothesis of finished tokens. Its ids leave out the end token, its log-probabilities include it."""
    ids = tokens[:-1] if tokens and tokens[-1] == end_id else tokens
    return Hypothesis(tuple(ids), tuple(log_probs), sum(log_probs) / gnmt(len(log_probs), alpha))


def check_options(options: DecodingOptions) -> None:
    """Raise RecipeError for invalid options."""
    sampling = options.sampling
    problems = {
        "beam must be 1 or more": options.beam < 1,
        "n_best must be 1 or more": options.n_best < 1,
        "extra_length, min_length and no_repeat_ngram cannot be negative": (
            min(options.extra_length, options.min_length, options.no_repeat_ngram) < 0
        ),
        f"a beam of {options.beam} does not have {options.n_best} hypotheses": (
            sampling is None and options.n_best > options.beam
        ),
        "temperature and top_k cannot be negative": (
            sampling is not None and (sampling.temperature < 0 or sampling.top_k < 0)
        ),
        "top_p must be above 0 and at most 1": sampling is not None and not 0 < sampling.top_p <= 1,
    }
    for message, is_wrong in problems.items():
        if is_wrong:
            raise RecipeError(message)
