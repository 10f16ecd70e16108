"""Where does *it* look? Measured on every head of the encoder, not drawn.

L layers, H heads, S source symbols
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.artifact import LoadedModel
from regard.demo.street import StreetPair
from regard.nn import Trace
from regard.translator.words import word_numbers


@dataclass(frozen=True)
class BestHead:
    """The encoder head whose weights most often tell the right noun from the other; both numbers count from 0."""

    layer: int
    head: int
    right: float  # share of sentences where the pronoun looks more at its noun than at the other one
    n_sentences: int


@dataclass(frozen=True)
class Glance:
    """How much one head lets a pronoun look at the two nouns that it could stand for."""

    noun: str
    weight: float
    other: str
    other_weight: float


def is_open(pair: StreetPair) -> bool:
    """Whether only a later word tells which noun the pronoun stands for."""
    return pair.pronoun is not None and pair.pronoun.informative


def find_head(loaded: LoadedModel, pairs: Sequence[StreetPair]) -> BestHead:
    """All heads over these sentences; the best one."""
    looked = torch.stack([_looks(loaded, pair) for pair in pairs])  # (pairs, L, H, 2)
    right = (looked[..., 0] > looked[..., 1]).float().mean(0)  # (L, H)
    layer, head = divmod(int(right.argmax()), right.shape[1])
    return BestHead(layer, head, float(right[layer, head]), len(pairs))


def glance(loaded: LoadedModel, pair: StreetPair, head: BestHead) -> Glance:
    """What the pronoun of one sentence looks at in this head."""
    assert pair.pronoun is not None
    words, weights = pair.source.split(), _looks(loaded, pair)[head.layer, head.head].tolist()
    noun, other = words[pair.pronoun.antecedent_index], words[pair.pronoun.other_index]
    return Glance(noun, weights[0], other, weights[1])


@torch.inference_mode()
def _looks(loaded: LoadedModel, pair: StreetPair) -> Tensor:
    """(L, H, 2): the pronoun's weight on its noun and on the other one; a word's pieces count together."""
    assert pair.pronoun is not None
    tokenizer, trace = loaded.tokenizers.source, Trace()
    ids = tokenizer.encode(pair.source)
    loaded.model.encode(torch.tensor([[*ids, tokenizer.eos_id]]), trace)
    words = word_numbers(tokenizer, ids)
    query = words.index(pair.pronoun.source_index)  # its first piece
    layers = range(loaded.config.n_encoder_layers)
    rows = torch.stack([trace[f"encoder.{layer}.self.weights"][0, :, query] for layer in layers])  # (L, H, S)
    nouns = [
        [place for place, word in enumerate(words) if word == index]
        for index in (pair.pronoun.antecedent_index, pair.pronoun.other_index)
    ]
    return torch.stack([rows[..., noun].sum(-1) for noun in nouns], dim=-1)
