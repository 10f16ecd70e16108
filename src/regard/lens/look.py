"""Everything that a model computed for one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import UserError
from regard.lens.anatomy import attention_layers
from regard.lens.beam_tree import BeamTree
from regard.lens.before_after import Change
from regard.lens.dependence import Dependence, rank_agreement
from regard.lens.interventions import ATTENTION_NAMES, Attention, Head, Interventions
from regard.lens.reach import Reach
from regard.lens.words import TokenizedText
from regard.nn import Site, Trace
from regard.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from regard.lens.look_json import ArrayFormat

Level = Literal["words", "pieces"]
Importance = Literal["attention", "gradient", "left_out"]

_TOP = 10


@dataclass(frozen=True)
class Target:
    """The translation, as decoder input (<s> y1 …) and as output (y1 … </s>)."""

    text: str
    given: bool
    inputs: TokenizedText
    outputs: TokenizedText


@dataclass(frozen=True)
class Prediction:
    """A token, and the probability that the model gave it."""

    text: str
    id: int
    probability: float


@dataclass(frozen=True)
class OutputStep:
    """One position of the translation: the token, the most probable ones, and the entropy of the distribution."""

    chosen: Prediction
    top: tuple[Prediction, ...]
    entropy: float  # in nats, over the whole vocabulary


@dataclass(frozen=True, eq=False)
class Look:
    """One sentence, its translation, and all intermediate values. `trace` is a batch of one."""

    model: Mapping[str, Any]  # name, configuration and size, and which interventions it offers, as in the JSON
    source: TokenizedText
    target: Target
    trace: Trace
    steps: tuple[OutputStep, ...]
    beam: BeamTree | None  # None if the translation was given
    interventions: Interventions
    change: Change | None  # None without interventions
    dependence: Dependence | None = None  # if it was asked for
    reach: tuple[Reach, ...] | None = None  # if it was asked for

    @cached_property
    def log_probability(self) -> float:
        """log p(translation | source), computed from the trace."""
        chosen = torch.tensor(self.target.outputs.ids)[:, None]
        return float(self.trace["logits"][0].log_softmax(-1).gather(1, chosen).sum())

    @cached_property
    def sites(self) -> tuple[Site, ...]:
        return self.trace.sites()

    @property
    def recurrent_sites(self) -> list[Site]:
        """States and gates: vectors per position, each of which depends on the one before."""
        return [site for site in self.sites if site.kind in ("state", "gates") and site.axes[1:] == ("unit",)]

    def layers(self, attention: Attention) -> list[Site]:
        """The attention of one kind, one site per layer; a model may have none."""
        return attention_layers(self.sites, attention)

    def weights(self, attention: Attention, layer: int, level: Level = "words") -> NDArray[np.float32]:
        """(H, rows, columns) of one layer.

        For words, columns are summed over the sub-words of a word and rows are averaged, so that a row still sums to 1.
        """
        weights: NDArray[np.float32] = self.trace[self.layers(attention)[layer].path][0].numpy()
        return weights if level == "pieces" else self._by_words(weights, attention)

    def scores(self, attention: Attention, layer: int, level: Level = "words") -> NDArray[np.float32]:
        """(H, rows, columns) of one layer, before the softmax; for words, the largest of their sub-words."""
        module = self.layers(attention)[layer].module
        found = [site.path for site in self.sites if site.kind == "scores" and site.module == module]
        if not found:
            raise UserError(f"{module} did not record its scores, only its weights")
        scores: NDArray[np.float32] = self.trace[found[-1]][0].numpy()
        if level == "pieces":
            return scores
        rows, columns = (text.words for text in self.rows_and_columns(attention))
        largest = np.stack([scores[..., word.pieces].max(-1) for word in columns], -1)  # (H, T, columns)
        return np.stack([largest[:, word.pieces].max(1) for word in rows], 1)

    def alignment(self, level: Level = "words") -> tuple[str, NDArray[np.float32]] | None:
        """The attention that aligns words, with its title: the alignment head, else the mean of the last layer."""
        if not (layers := self.layers("cross")):
            return None
        if (chosen := self.model["alignment_head"]) is not None:
            head = Head("cross", **chosen)
            return head.title + self.off_mark(head), self.weights("cross", head.layer, level)[head.head]
        title = f"{ATTENTION_NAMES['cross']} · layer {len(layers)} · mean of all heads"
        return title, self.weights("cross", len(layers) - 1, level).mean(0)

    def importance(self, level: Level = "words") -> dict[Importance, NDArray[np.float32]]:
        """What each output depends on, (rows, columns) each: attention if the model has it, gradient, left out.

        Gradients are shares of their row. What a log-probability loses without a word is summed over the sub-words of
        an output word; source sub-words are left out together, as words, and so have the same value.
        """
        if self.dependence is None:
            return {}
        alignment = self.alignment(level)
        views: dict[Importance, NDArray[np.float32]] = {} if alignment is None else {"attention": alignment[1]}
        norms, falls = self.dependence.gradients, self.dependence.left_out.numpy()
        shares: NDArray[np.float32] = (norms / norms.sum(1, keepdim=True).clamp(min=1e-30)).numpy()
        if level == "pieces":
            return views | {"gradient": shares, "left_out": falls @ self.source.membership()}
        return views | {
            "gradient": self._by_words(shares, "cross"),
            "left_out": self.target.outputs.membership() @ falls,
        }

    def agreement(self) -> dict[tuple[Importance, Importance], tuple[NDArray[np.float64], float | None]]:
        """Kendall's τ between two rankings of the source words: per word of the translation, and the mean.

        NaN for special symbols, and where a ranking is not defined. Words left out are ranked by the size of the
        change, whatever its sign.
        """
        is_word = [np.array([not word.special for word in text.words]) for text in self.rows_and_columns("cross")]
        ranked = {name: np.abs(values[:, is_word[1]]) for name, values in self.importance().items()}
        found: dict[tuple[Importance, Importance], tuple[NDArray[np.float64], float | None]] = {}
        for a, b in combinations(ranked, 2):
            by_word = np.where(is_word[0], rank_agreement(ranked[a], ranked[b]), np.nan)
            found[a, b] = by_word, None if np.isnan(by_word).all() else float(np.nanmean(by_word))
        return found

    def _by_words(self, weights: NDArray[np.float32], attention: Attention) -> NDArray[np.float32]:
        rows, columns = (text.membership() for text in self.rows_and_columns(attention))
        joined: NDArray[np.float32] = (rows / rows.sum(1, keepdims=True)) @ weights @ columns.T
        return joined

    def labels(self, attention: Attention, level: Level = "words") -> tuple[list[str], list[str]]:
        """The labels of the rows and columns of `weights`."""
        rows, columns = self.rows_and_columns(attention)
        return rows.labels(level), columns.labels(level)

    def rows_and_columns(self, attention: Attention) -> tuple[TokenizedText, TokenizedText]:
        """The text that attends and the text attended to. Rows of "cross" are the tokens that are being predicted."""
        if attention == "encoder":
            return self.source, self.source
        if attention == "decoder":
            return self.target.inputs, self.target.inputs
        return self.target.outputs, self.source

    def off_mark(self, head: Head) -> str:
        """What to add to the title of a head that is off."""
        return " (off)" if head in self.interventions.heads_off else ""

    def to_dict(self, arrays: ArrayFormat = "list") -> dict[str, Any]:
        """The JSON of a look, "regard-look/1", as used by the command line, the HTML file and the web page."""
        from regard.lens.look_json import look_dict

        return look_dict(self, arrays)


def output_steps(logits: Tensor, outputs: list[int], tokenizer: Tokenizer) -> tuple[OutputStep, ...]:
    """(T, V) → the predictions at each position."""
    log_probs = logits.log_softmax(-1)
    probabilities = log_probs.exp()
    entropies = -(probabilities * log_probs).sum(-1)
    top = probabilities.topk(min(_TOP, logits.shape[-1]))
    chosen = probabilities.gather(1, torch.tensor(outputs)[:, None])[:, 0]

    def prediction(token: int, probability: float) -> Prediction:
        return Prediction(tokenizer.piece(token), token, probability)

    rows = zip(outputs, chosen.tolist(), top.indices.tolist(), top.values.tolist(), entropies.tolist(), strict=True)
    return tuple(
        OutputStep(prediction(token, probability), tuple(map(prediction, tokens, values)), entropy)
        for token, probability, tokens, values, entropy in rows
    )
