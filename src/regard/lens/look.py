"""Everything that a model computed for one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.lens.arrays import Form
from regard.lens.beam_tree import BeamTree
from regard.lens.before_after import Change
from regard.lens.interventions import Attention, Interventions
from regard.lens.words import Side
from regard.models.transformer import TransformerConfig
from regard.nn import Trace
from regard.text.tokenizer import Tokenizer

Level = Literal["words", "pieces"]

_TOP = 10


@dataclass(frozen=True)
class Target:
    """The translation, once as the decoder read it (<s> y1 …) and once as it came out (y1 … </s>)."""

    text: str
    given: bool
    inputs: Side
    outputs: Side


@dataclass(frozen=True)
class Guess:
    """A symbol, and how likely the model found it."""

    text: str
    id: int
    probability: float


@dataclass(frozen=True)
class Step:
    """One place of the translation: what stands there, what else could have, and how unsure the model was."""

    chosen: Guess
    top: tuple[Guess, ...]
    entropy: float  # in nats, over the whole vocabulary


@dataclass(frozen=True)
class Model:
    """What a reader has to know of the model beside its shape."""

    name: str
    config: TransformerConfig
    n_parameters: int
    n_src_symbols: int
    n_tgt_symbols: int
    alignment_head: tuple[int, int] | None  # (layer, head) of the attention over the source
    label_smoothing: float | None  # None where nobody wrote it down


@dataclass(frozen=True, eq=False)
class Look:
    """One sentence, its translation, and every number on the way. `trace` is a batch of one."""

    model: Model
    source: Side
    target: Target
    trace: Trace
    steps: tuple[Step, ...]
    beam: BeamTree | None  # None where the translation was given
    interventions: Interventions
    change: Change | None  # None where nothing was changed

    @cached_property
    def log_probability(self) -> float:
        """log p(translation | source), by the pass that was traced."""
        chosen = torch.tensor(self.target.outputs.ids)[:, None]
        return float(self.trace["logits"][0].log_softmax(-1).gather(1, chosen).sum())

    def weights(self, attention: Attention, layer: int, level: Level = "words") -> NDArray[np.float32]:
        """(H, rows, columns) of one layer.

        At the level of words a column is the sum of its pieces' weights, a row the mean of its pieces' rows: what a
        word looks at still adds up to one.
        """
        weights: NDArray[np.float32] = self.trace[f"{place(attention, layer)}.weights"][0].numpy()
        if level == "pieces":
            return weights
        rows, columns = (side.members() for side in self.sides(attention))
        joined: NDArray[np.float32] = (rows / rows.sum(1, keepdims=True)) @ weights @ columns.T
        return joined

    def labels(self, attention: Attention, level: Level = "words") -> tuple[list[str], list[str]]:
        """Of the rows and the columns of `weights`."""
        rows, columns = self.sides(attention)
        return rows.labels(level), columns.labels(level)

    def sides(self, attention: Attention) -> tuple[Side, Side]:
        """Who looks, and what is looked at. Over the source it is the symbol being made that looks."""
        if attention == "encoder":
            return self.source, self.source
        if attention == "decoder":
            return self.target.inputs, self.target.inputs
        return self.target.outputs, self.source

    def to_dict(self, arrays: Form = "list") -> dict[str, Any]:
        """The JSON of a look, "regard-look/1": what the command, the file and the page share."""
        from regard.lens.look_json import look_dict

        return look_dict(self, arrays)


def place(attention: Attention, layer: int) -> str:
    """Where a trace keeps an attention."""
    return {"encoder": f"encoder.{layer}.self", "decoder": f"decoder.{layer}.self"}.get(
        attention, f"decoder.{layer}.cross"
    )


def steps_of(logits: Tensor, outputs: list[int], tokenizer: Tokenizer) -> tuple[Step, ...]:
    """(T, V) → what was likely at each place."""
    log_probs = logits.log_softmax(-1)
    probabilities = log_probs.exp()
    entropies = -(probabilities * log_probs).sum(-1)
    likeliest = probabilities.topk(min(_TOP, logits.shape[-1]))
    chosen = probabilities.gather(1, torch.tensor(outputs)[:, None])[:, 0]

    def guess(symbol: int, probability: float) -> Guess:
        return Guess(tokenizer.piece(symbol), symbol, probability)

    rows = zip(
        outputs, chosen.tolist(), likeliest.indices.tolist(), likeliest.values.tolist(), entropies.tolist(), strict=True
    )
    return tuple(
        Step(guess(symbol, probability), tuple(map(guess, symbols, values)), entropy)
        for symbol, probability, symbols, values, entropy in rows
    )
