"""Step function → ids: greedy, beam, sampling, penalties, constraints. Knows no model and no text."""

from regard.decoding.records import DecodingOptions, Hypothesis, Sampling

__all__ = ["DecodingOptions", "Hypothesis", "Sampling"]
