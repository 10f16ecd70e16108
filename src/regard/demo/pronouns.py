"""Where does the model look for what *it* stands for? Measured on every head that could, not drawn.

Two places can tell: the row of *it* in the encoder's self-attention, and the step of the decoder that writes the
pronoun, in its attention over the source.

S source symbols, T target symbols, H heads
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import BaseModel
from torch import Tensor

from regard.artifact import LoadedModel
from regard.demo.street.corpus import StreetPair
from regard.nn import Trace
from regard.text.words import word_numbers

Attention = Literal["encoder", "cross"]
Weights = list[float]  # of the source's words, one each


class Head(BaseModel, frozen=True):
    """A head, by its place; layer and head count from 0."""

    attention: Attention
    layer: int
    head: int


class BestHead(BaseModel, frozen=True):
    """The head that finds the noun most often, and not the wrong one."""

    place: Head
    right: float  # share of sentences where it gives most of its weight to the right noun
    wrong: float  # … to the other noun
    n_sentences: int


def is_open(pair: StreetPair) -> bool:
    """Whether only a later word tells which noun the pronoun stands for."""
    return pair.pronoun is not None and pair.pronoun.informative


def find_head(loaded: LoadedModel, pairs: Sequence[StreetPair]) -> BestHead:
    """All heads over these sentences; the best one."""
    right: dict[Head, int] = {}
    wrong: dict[Head, int] = {}
    for pair in pairs:
        assert pair.pronoun is not None
        for place, weights in _looks(loaded, pair).items():
            right[place] = right.get(place, 0) + (weights[pair.pronoun.antecedent_index] > 0.5)
            wrong[place] = wrong.get(place, 0) + (weights[pair.pronoun.other_index] > 0.5)
    best = max(right, key=lambda place: right[place] - wrong[place])
    return BestHead(place=best, right=right[best] / len(pairs), wrong=wrong[best] / len(pairs), n_sentences=len(pairs))


def glance(loaded: LoadedModel, pair: StreetPair, place: Head) -> dict[str, float]:
    """The two words that this head looks at most."""
    weights, words = _looks(loaded, pair)[place], [word.strip(",.") for word in pair.source.split()]
    most = sorted(range(len(words)), key=lambda number: -weights[number])[:2]
    return {words[number]: weights[number] for number in most}


@torch.inference_mode()
def _looks(loaded: LoadedModel, pair: StreetPair) -> dict[Head, Weights]:
    """What every head looks at for the pronoun; a word's pieces count together."""
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
        "encoder": [trace[f"encoder.{n}.self.weights"] for n in range(loaded.config.n_encoder_layers)],
        "cross": [trace[f"decoder.{n}.cross.weights"] for n in range(loaded.config.n_decoder_layers)],
    }  # (1, H, S or T, S) each
    return {
        Head(attention=attention, layer=layer, head=head): _by_word(row.tolist(), words)
        for attention, row_number in rows.items()
        for layer, weights in enumerate(layers[attention])
        for head, row in enumerate(weights[0, :, row_number])
    }


def _by_word(row: list[float], words: Sequence[int | None]) -> Weights:
    sums = [0.0] * (1 + max(word for word in words if word is not None))
    for weight, word in zip(row, words, strict=False):  # the end symbol belongs to no word
        if word is not None:
            sums[word] += weight
    return sums
