"""Decoding: greedy search, beam search, sampling and constraints, over any step function. Imports no model and no text.

Names are imported on first use, so that an engine without torch can import this package: options, hypotheses and the
length penalty need none.
"""

from typing import TYPE_CHECKING

from regard.lazy import lazy_names

if TYPE_CHECKING:
    from regard.decoding.options import DecodingOptions as DecodingOptions
    from regard.decoding.options import Hypothesis as Hypothesis
    from regard.decoding.options import Sampling as Sampling
    from regard.decoding.options import check_options as check_options
    from regard.decoding.options import gnmt as gnmt
    from regard.decoding.search import decode as decode
    from regard.decoding.search import score as score
    from regard.decoding.search_batch import EnsembleState as EnsembleState
    from regard.decoding.search_batch import StepFunction as StepFunction
    from regard.decoding.search_batch import ensemble as ensemble
else:
    _NAMES = {
        "options": ["DecodingOptions", "Hypothesis", "Sampling", "check_options", "gnmt"],
        "search": ["decode", "score"],
        "search_batch": ["EnsembleState", "StepFunction", "ensemble"],
    }
    __getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES)
