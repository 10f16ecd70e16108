"""The building blocks of the paper, as plain torch modules and functions."""

from regard.nn.attention import AttentionKind as AttentionKind
from regard.nn.attention import MultiHeadAttention as MultiHeadAttention
from regard.nn.attention import padding_visible as padding_visible
from regard.nn.cross_entropy import linear_cross_entropy as linear_cross_entropy
from regard.nn.dropout import Dropout as Dropout
from regard.nn.embedding import Embedding as Embedding
from regard.nn.embedding import InputEmbedding as InputEmbedding
from regard.nn.embedding import LearnedPositions as LearnedPositions
from regard.nn.embedding import Positions as Positions
from regard.nn.embedding import SinusoidalPositions as SinusoidalPositions
from regard.nn.embedding import sinusoid as sinusoid
from regard.nn.state import KeyValues as KeyValues
from regard.nn.state import shared_rows as shared_rows
from regard.nn.sublayer import Activation as Activation
from regard.nn.sublayer import FeedForward as FeedForward
from regard.nn.sublayer import Norm as Norm
from regard.nn.sublayer import Residual as Residual
from regard.nn.trace import Site as Site
from regard.nn.trace import Trace as Trace
from regard.nn.trace import at as at
