"""A translation architecture that regard does not have: a bag-of-words encoder and a GRU decoder, without attention.

Importing this module registers it. It uses only what CONTRIBUTING.md tells a contributor to use.

B batch, S source, T target, D width, V vocabulary
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field
from torch import Tensor, nn

from regard.models import ARCHITECTURES, Architecture, ModelConfig, TranslationModel
from regard.nn import Cost, Dropout, Trace, product_flops


class BagOfWordsConfig(ModelConfig, frozen=True, extra="forbid"):
    """Sizes."""

    d_hidden: int = Field(default=32, ge=1, le=4096)

    @property
    def width(self) -> int:
        return self.d_hidden

    def describe(self) -> str:
        return f"a bag of words and a GRU of {self.d_hidden}"


@dataclass(frozen=True)
class Bag:
    """The encoded source; also the state between steps, where `mean` is the hidden state of the GRU."""

    mean: Tensor  # (B, D)

    def select(self, rows: Tensor) -> Bag:
        return Bag(self.mean[rows])


class BagOfWords(TranslationModel):
    """The mean of the source embeddings is the first state of a GRU, which predicts the target word by word."""

    matrices: ClassVar[dict[str, int]] = {"gru.weight_ih_l0": 3, "gru.weight_hh_l0": 3}

    def __init__(self, config: BagOfWordsConfig, n_src_symbols: int, n_tgt_symbols: int, pad_id: int = 0) -> None:
        super().__init__()
        self.config: BagOfWordsConfig = config
        self.pad_id = pad_id
        self.words_in = nn.Embedding(n_src_symbols, config.d_hidden)
        self.words_out = nn.Embedding(n_tgt_symbols, config.d_hidden)
        self.gru = nn.GRU(config.d_hidden, config.d_hidden, batch_first=True)
        self.dropout = Dropout(config.dropout)
        self.out = nn.Linear(config.d_hidden, n_tgt_symbols)

    @property
    def output_weight(self) -> Tensor:
        return self.out.weight

    @property
    def output_bias(self) -> Tensor:
        return self.out.bias

    def encode(self, src: Tensor, trace: Trace | None = None) -> Bag:
        embedded = self.words_in(src)  # (B, S, D)
        if trace is not None:
            trace.record("words_in.embedding", embedded, kind="embedding", axes=("source", "unit"))
        is_word = (src != self.pad_id)[:, :, None]
        return Bag((self.dropout(embedded) * is_word).sum(1) / is_word.sum(1))  # (B, D)

    def features(self, src: Tensor, tgt_in: Tensor, trace: Trace | None = None) -> Tensor:
        memory = self.encode(src, trace)
        states, _ = self.gru(self.dropout(self.words_out(tgt_in)), memory.mean[None])  # (B, T, D)
        if trace is not None:
            trace.record("gru.states", states, kind="state", axes=("target", "unit"))
        return self.dropout(states)

    def start(self, memory: Bag) -> Bag:
        return memory

    def step(self, last: Tensor, state: Bag) -> tuple[Tensor, Bag]:
        states, hidden = self.gru(self.words_out(last[:, None]), state.mean[None])  # (B, 1, D), (1, B, D)
        return self.logits(states[:, 0]).log_softmax(-1), Bag(hidden[0])

    def cost(self, *lengths: int) -> Cost:
        n_target = lengths[1]
        return Cost(product_flops(n_target, self, self.out), n_target, n_target)


ARCHITECTURES["bag-of-words"] = Architecture(
    models={"translation": BagOfWords},
    config=BagOfWordsConfig,
    presets={"tiny": BagOfWordsConfig(d_hidden=32), "small": BagOfWordsConfig(d_hidden=64)},
)
