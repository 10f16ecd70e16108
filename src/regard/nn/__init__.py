"""The building blocks of the paper, as plain torch modules and functions."""

from regard.nn.attention import (
    AttentionKind,
    MultiHeadAttention,
    additive_scores,
    attention_weights,
    causal_visible,
    dot_product_scores,
    padding_visible,
    scaled_dot_product_scores,
)
from regard.nn.cross_entropy import linear_cross_entropy, linear_r_drop, smoothed_cross_entropy
from regard.nn.dropout import Dropout
from regard.nn.embedding import Embedding, InputEmbedding, LearnedPositions, Positions, SinusoidalPositions, sinusoid
from regard.nn.state import KeyValues, shared_rows
from regard.nn.sublayer import Activation, FeedForward, Norm, Residual
from regard.nn.trace import Site, Trace, at

__all__ = [
    "Activation",
    "AttentionKind",
    "Dropout",
    "Embedding",
    "FeedForward",
    "InputEmbedding",
    "KeyValues",
    "LearnedPositions",
    "MultiHeadAttention",
    "Norm",
    "Positions",
    "Residual",
    "SinusoidalPositions",
    "Site",
    "Trace",
    "additive_scores",
    "at",
    "attention_weights",
    "causal_visible",
    "dot_product_scores",
    "linear_cross_entropy",
    "linear_r_drop",
    "padding_visible",
    "scaled_dot_product_scores",
    "shared_rows",
    "sinusoid",
    "smoothed_cross_entropy",
]
