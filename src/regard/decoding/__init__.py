"""Decoding: greedy search, beam search, sampling and constraints, over any step function. Imports no model and no text.

Options, hypotheses and the length penalty need no torch. All other names are imported on first use, so that an engine
without torch can import this package.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.decoding.options import DecodingOptions, Hypothesis, Sampling, check_options, gnmt

if TYPE_CHECKING:
    from regard.decoding.search import decode, score
    from regard.decoding.search_batch import EnsembleState, StepFunction, ensemble

_MODULES = {
    "EnsembleState": "search_batch",
    "StepFunction": "search_batch",
    "decode": "search",
    "ensemble": "search_batch",
    "score": "search",
}

__all__ = [
    "DecodingOptions",
    "EnsembleState",
    "Hypothesis",
    "Sampling",
    "StepFunction",
    "check_options",
    "decode",
    "ensemble",
    "gnmt",
    "score",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
