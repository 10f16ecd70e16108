"""The building blocks of the paper, as plain torch modules and functions."""

from regard.nn.attention import AttentionKind, MultiHeadAttention, padding_visible
from regard.nn.cross_entropy import linear_cross_entropy
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
    "at",
    "linear_cross_entropy",
    "padding_visible",
    "shared_rows",
    "sinusoid",
]
