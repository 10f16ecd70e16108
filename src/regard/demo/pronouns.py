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
    """The encoder head whose weights most often tell the right noun from the other."""

    layer: int
    head: int
    right: float  # share of sentences where the pronoun looks more at its noun than at the other one
    weight: float  # that it gives to the right noun, on average


def find_head(loaded: LoadedModel, pairs: Sequence[StreetPair]) -> BestHead:
    """All heads over these sentences; the best one."""
    looked = torch.stack([_looks(loaded, pair) for pair in pairs])  # (pairs, L, H, 2)
    right = (looked[..., 0] > looked[..., 1]).float().mean(0)  # (L, H)
    best = int(right.argmax())
    layer, head = divmod(best, right.shape[1])
    return BestHead(layer, head, float(right[layer, head]), float(looked[:, layer, head, 0].mean()))


def look_at_noun(loaded: LoadedModel, pair: StreetPair, head: BestHead) -> dict[str, float]:
    """How much the pronoun looks at each of the two nouns, in this head."""
    assert pair.pronoun is not None
    words, weights = pair.source.split(), _looks(loaded, pair)[head.layer, head.head]
    places = (pair.pronoun.antecedent_index, pair.pronoun.other_index)
    return {words[place]: float(weight) for place, weight in zip(places, weights, strict=True)}


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
