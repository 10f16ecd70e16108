"""All heads over a corpus: where each attends, and how much worse the model is without it.

B batch, T target, D d_model
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from regard.artifact import LoadedModel
from regard.data import NO_TARGET
from regard.errors import UserError
from regard.lens.ablate import possible_interventions
from regard.lens.anatomy import all_attentions, all_heads
from regard.lens.head_ablation import TracedBatch
from regard.lens.head_statistics import Statistics, StatisticsSum, sum_statistics
from regard.lens.interventions import Attention, Head
from regard.lens.pairs import EncodedPairs
from regard.lens.words import TokenizedText
from regard.models import model_sites
from regard.text.tokenizer import Tokenizer

FORMAT = "regard-heads/1"

ProgressCallback = Callable[[int, int], None]  # done, total


@dataclass(frozen=True)
class HeadRow:
    """The measurements of one head; None where not requested."""

    head: Head
    statistics: Statistics
    accuracy_drop: float | None
    loss_rise: float | None
    bleu_drop: float | None

    def to_dict(self) -> dict[str, Any]:
        return {
            **self.head._asdict(),
            **{name: float(value) for name, value in self.statistics._asdict().items()},
            "accuracy_drop": self.accuracy_drop,
            "loss_rise": self.loss_rise,
            "bleu_drop": self.bleu_drop,
        }


@dataclass(frozen=True)
class HeadsTable:
    """Every head of a model over a corpus, and the scores of the unchanged model."""

    n_sentences: int
    n_left_out: int  # blank or too long pairs
    accuracy: float  # of the next token, given the reference's earlier tokens
    loss: float  # −log p of it, in nats
    bleu: float | None  # of greedy translations
    heads: tuple[HeadRow, ...]

    def to_dict(self) -> dict[str, Any]:
        """The JSON, "regard-heads/1"."""
        return {
            "format": FORMAT,
            "n_sentences": self.n_sentences,
            "n_left_out": self.n_left_out,
            "baseline": {"accuracy": self.accuracy, "loss": self.loss, "bleu": self.bleu},
            "heads": [row.to_dict() for row in self.heads],
        }


@dataclass
class _Totals:
    """Sums over the real target tokens of all batches, for the whole model or for it without one head."""

    nll: float = 0.0
    n_correct: float = 0.0
    n_tokens: int = 0
    translations: dict[int, str] = field(default_factory=dict)  # by the index of the pair

    @property
    def loss(self) -> float:
        return self.nll / self.n_tokens

    @property
    def accuracy(self) -> float:
        return self.n_correct / self.n_tokens

    def bleu(self, references: Sequence[str]) -> float | None:
        if not self.translations:
            return None
        from sacrebleu import corpus_bleu  # slow to import and rarely needed

        return float(corpus_bleu([self.translations[i] for i in range(len(references))], [references]).score)


@torch.inference_mode()
def measure_heads(
    loaded: LoadedModel, pairs: EncodedPairs, *, without: bool, bleu: bool, progress: ProgressCallback | None
) -> HeadsTable:
    """Runs each batch through the whole model and then, if requested, without each head in turn."""
    tokenizers, heads = loaded.tokenizers, all_heads(model_sites(loaded.model))
    if not heads or not possible_interventions(loaded.model)["heads_off"]:
        raise UserError("this model has no attention heads to measure", hint="regard look RUN TEXT shows what it has")
    sums: dict[tuple[Attention, int], StatisticsSum] = {}
    totals: dict[Head | None, _Totals] = {head: _Totals() for head in (None, *heads)}
    to_ablate = totals if without or bleu else [None]  # None: the whole model
    batches = pairs.batches(tokenizers.target, loaded.model.pad_id)
    for number, batch in enumerate(batches):
        traced = TracedBatch.of(loaded.model, batch)
        for key, statistics in _statistics(traced, tokenizers.source, tokenizers.target).items():
            sums[key] = sums[key].plus(statistics) if key in sums else statistics
        for n_done, head in enumerate(to_ablate, start=1):
            _measure(traced, head, totals[head], tokenizers.target, score=without or head is None, translate=bleu)
            if progress is not None:
                progress(number * len(to_ablate) + n_done, len(batches) * len(to_ablate))
    return _table(pairs, heads, sums, totals)


def _measure(
    traced: TracedBatch, head: Head | None, totals: _Totals, tokenizer: Tokenizer, *, score: bool, translate: bool
) -> None:
    """Adds one batch to `totals`, without a head, or with all if it is None."""
    if score:
        scores = traced.scores(without=head)
        totals.nll += float(scores.nll)
        totals.n_correct += float(scores.n_correct)
        totals.n_tokens += traced.batch.n_targets[0]
    if translate:
        hypotheses = traced.translate(begin_id=tokenizer.bos_id, end_id=tokenizer.eos_id, without=head)
        for index, hypothesis in zip(traced.batch.indices.tolist(), hypotheses, strict=True):
            totals.translations[index] = tokenizer.decode(hypothesis.ids)


def _statistics(
    traced: TracedBatch, source: Tokenizer, target: Tokenizer
) -> dict[tuple[Attention, int], StatisticsSum]:
    """The statistics of every attention of the model over one batch."""
    batch, pad_id = traced.batch, traced.model.pad_id

    def texts(tokenizer: Tokenizer, ids: torch.Tensor) -> list[TokenizedText]:
        return [
            TokenizedText.of(tokenizer, [token for token in row if token not in (pad_id, NO_TARGET)])
            for row in ids.tolist()
        ]

    sources, inputs = texts(source, batch.inputs[0]), texts(target, batch.inputs[1])
    outputs = texts(target, batch.targets[0])
    is_end, is_begin = batch.inputs[0] == source.eos_id, batch.inputs[1] == target.bos_id
    sides = {
        "encoder": (sources, sources, is_end),
        "decoder": (inputs, inputs, is_begin),
        "cross": (outputs, sources, is_end),
    }
    return {
        (attention, layer): sum_statistics(traced.trace[site.path], *sides[attention])
        for attention, layer, site in all_attentions(traced.trace.sites())
    }


def _table(
    pairs: EncodedPairs,
    heads: Sequence[Head],
    sums: dict[tuple[Attention, int], StatisticsSum],
    totals: dict[Head | None, _Totals],
) -> HeadsTable:
    baseline = totals[None]
    bleu = baseline.bleu(pairs.references)
    means = {key: statistics.mean() for key, statistics in sums.items()}

    def row(head: Head) -> HeadRow:
        mean, ablated = means[head.attention, head.layer], totals[head]
        scored, ablated_bleu = ablated.n_tokens > 0, ablated.bleu(pairs.references)
        return HeadRow(
            head,
            Statistics(*(values[head.head] for values in mean)),
            accuracy_drop=baseline.accuracy - ablated.accuracy if scored else None,
            loss_rise=ablated.loss - baseline.loss if scored else None,
            bleu_drop=None if bleu is None or ablated_bleu is None else bleu - ablated_bleu,
        )

    return HeadsTable(
        len(pairs),
        pairs.n_left_out,
        baseline.accuracy,
        baseline.loss,
        bleu,
        tuple(row(head) for head in heads),
    )
