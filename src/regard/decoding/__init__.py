"""Decoding: greedy search, beam search, sampling and constraints, over any step function. Imports no model and no text.

Options, hypotheses and the length penalty need no torch. All other names are imported on first use, so that an engine
without torch can import this package.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.decoding.options import DecodingOptions, Hypothesis, Sampling, check_options, gnmt

if TYPE_CHECKING:
    from regard.decoding.search import alternatives, decode, score
    from regard.decoding.search_batch import StepFunction, ensemble, ensemble_state

_MODULES = {
    "StepFunction": "search_batch",
    "alternatives": "search",
    "decode": "search",
    "ensemble": "search_batch",
    "ensemble_state": "search_batch",
    "score": "search",
}

__all__ = [
    "DecodingOptions",
    "Hypothesis",
    "Sampling",
    "StepFunction",
    "alternatives",
    "check_options",
    "decode",
    "ensemble",
    "ensemble_state",
    "gnmt",
    "score",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
