"""Finds the attention head that resolves the pronoun *it*, by measuring every head.

Two kinds of attention can resolve it: the row of *it* in the encoder's self-attention, and the decoder's attention over
the source in the step that writes the pronoun.

S source, T target, H heads
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import BaseModel
from torch import Tensor

from regard.artifact import LoadedModel
from regard.demo.street.corpus import StreetPair
from regard.models import attention_sites
from regard.nn import Trace
from regard.text.words import word_numbers

Attention = Literal["encoder", "cross"]
WordWeights = list[float]  # one attention weight per source word


class HeadPosition(BaseModel, frozen=True):
    """The position of an attention head; layer and head count from 0."""

    attention: Attention
    layer: int
    head: int


class BestHead(BaseModel, frozen=True):
    """The head that most often attends to the correct noun rather than the other one."""

    place: HeadPosition
    right: float  # share of sentences where the correct noun has more than half of the weight
    wrong: float  # … the other noun
    n_sentences: int


def is_ambiguous(pair: StreetPair) -> bool:
    """Whether only a later word shows which noun the pronoun refers to."""
    return pair.pronoun is not None and pair.pronoun.informative


def find_best_head(loaded: LoadedModel, pairs: Sequence[StreetPair]) -> BestHead:
    """Measures all heads on these sentences, and returns the best one."""
    right: dict[HeadPosition, int] = {}
    wrong: dict[HeadPosition, int] = {}
    for pair in pairs:
        assert pair.pronoun is not None
        for place, weights in _pronoun_attention(loaded, pair).items():
            right[place] = right.get(place, 0) + (weights[pair.pronoun.antecedent_index] > 0.5)
            wrong[place] = wrong.get(place, 0) + (weights[pair.pronoun.other_index] > 0.5)
    best = max(right, key=lambda place: right[place] - wrong[place])
    return BestHead(place=best, right=right[best] / len(pairs), wrong=wrong[best] / len(pairs), n_sentences=len(pairs))


def top_words(loaded: LoadedModel, pair: StreetPair, place: HeadPosition) -> dict[str, float]:
    """The two words with the highest weights of a head."""
    weights = _pronoun_attention(loaded, pair)[place]
    words = [word.strip(",.") for word in pair.source.split()]
    top = sorted(range(len(words)), key=lambda number: -weights[number])[:2]
    return {words[number]: weights[number] for number in top}


@torch.inference_mode()
def _pronoun_attention(loaded: LoadedModel, pair: StreetPair) -> dict[HeadPosition, WordWeights]:
    """The attention of every head for the pronoun; the weights of a word's tokens are summed."""
    assert pair.pronoun is not None
    source, target, trace = loaded.tokenizers.source, loaded.tokenizers.target, Trace()
    src, tgt = source.encode(pair.source), target.encode(pair.target)
    loaded.model.features(torch.tensor([[*src, source.eos_id]]), torch.tensor([[target.bos_id, *tgt]]), trace)
    words = word_numbers(source, src)
    rows: dict[Attention, int] = {
        "encoder": words.index(pair.pronoun.source_index),
        "cross": word_numbers(target, tgt).index(pair.pronoun.target_index),  # the step that writes it
    }
    layers: dict[Attention, list[Tensor]] = {
        "encoder": [trace[site.path] for site in attention_sites(trace.sites(), "source", "source")],
        "cross": [trace[site.path] for site in attention_sites(trace.sites(), "target", "source")],
    }  # (1, H, S or T, S) each
    return {
        HeadPosition(attention=attention, layer=layer, head=head): _by_word(row.tolist(), words)
        for attention, row_number in rows.items()
        for layer, weights in enumerate(layers[attention])
        for head, row in enumerate(weights[0, :, row_number])
    }


def _by_word(row: list[float], words: Sequence[int | None]) -> WordWeights:
    sums = [0.0] * (1 + max(word for word in words if word is not None))
    for weight, word in zip(row, words, strict=False):  # the end token belongs to no word
        if word is not None:
            sums[word] += weight
    return sums
