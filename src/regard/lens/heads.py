"""All heads over a corpus: where each looks, and how much worse the model is without it.

B batch, T target, D d_model
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from regard.artifact import LoadedModel
from regard.lens.head_ablation import Correctness, Reading
from regard.lens.head_statistics import Statistics, Sum, sum_up
from regard.lens.interventions import ATTENTIONS, Attention, Head, all_heads
from regard.lens.look import place
from regard.lens.pairs import Pairs
from regard.lens.words import Side, side_of
from regard.text.tokenizer import Tokenizer

FORMAT = "regard-heads/1"

Progress = Callable[[int, int], None]  # done, total


@dataclass(frozen=True)
class HeadRow:
    """What was measured of one head; None where it was not asked for."""

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
    """Every head of a model over a corpus, and the model as it is."""

    n_sentences: int
    n_left_out: int  # of those that were given: blank, or too long
    accuracy: float  # of the next symbol, when all before it are the reference's
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
class _Tally:
    """What adds up over batches, of the whole model or of it without one head."""

    correctness: Correctness = field(default_factory=Correctness)
    translations: dict[int, str] = field(default_factory=dict)  # by the pair's number

    def bleu(self, references: Sequence[str]) -> float | None:
        if not self.translations:
            return None
        from sacrebleu import corpus_bleu  # takes a moment to load, and few ask

        return float(corpus_bleu([self.translations[i] for i in range(len(references))], [references]).score)


@torch.inference_mode()
def measure_heads(
    loaded: LoadedModel, pairs: Pairs, *, without: bool, bleu: bool, progress: Progress | None
) -> HeadsTable:
    """Each batch is read once as it is, and then, where that is asked for, without each head."""
    tokenizers, heads = loaded.tokenizers, all_heads(loaded.config)
    sums: dict[tuple[Attention, int], Sum] = {}
    tallies: dict[Head | None, _Tally] = {head: _Tally() for head in (None, *heads)}
    asked = tallies if without or bleu else [None]
    batches = pairs.batches(loaded.model.pad_id)
    for number, batch in enumerate(batches):
        reading = Reading.of(loaded.model, batch)
        for found, more in _statistics(reading, tokenizers.source, tokenizers.target).items():
            sums[found] = sums[found].plus(more) if found in sums else more
        for done, head in enumerate(asked, start=1):
            _read(reading, head, tallies[head], tokenizers.target, score=without or head is None, translate=bleu)
            if progress is not None:
                progress(number * len(asked) + done, len(batches) * len(asked))
    return _table(pairs, heads, sums, tallies)


def _read(
    reading: Reading, head: Head | None, tally: _Tally, tokenizer: Tokenizer, *, score: bool, translate: bool
) -> None:
    """One batch, without a head or with all."""
    if score:
        hidden = reading.hidden if head is None else reading.without(head)
        tally.correctness = tally.correctness.plus(reading.correctness(hidden))
    if translate:
        found = reading.translate(begin_id=tokenizer.bos_id, end_id=tokenizer.eos_id, without=head)
        for number, one in zip(reading.batch.indices.tolist(), found, strict=True):
            tally.translations[number] = tokenizer.decode(one.ids)


def _statistics(reading: Reading, source: Tokenizer, target: Tokenizer) -> dict[tuple[Attention, int], Sum]:
    """Of every attention of the model over one batch."""
    batch, pad_id = reading.batch, reading.model.pad_id

    def sides(tokenizer: Tokenizer, ids: torch.Tensor) -> list[Side]:
        return [side_of(tokenizer, [one for one in row if one != pad_id]) for row in ids.tolist()]

    sources, inputs, outputs = sides(source, batch.src), sides(target, batch.tgt_in), sides(target, batch.tgt_out)
    ends, begins = batch.src == source.eos_id, batch.tgt_in == target.bos_id
    looks = {
        "encoder": (sources, sources, ends),
        "decoder": (inputs, inputs, begins),
        "cross": (outputs, sources, ends),
    }
    config = reading.model.config
    return {
        (attention, layer): sum_up(reading.trace[f"{place(attention, layer)}.weights"], *looks[attention])
        for attention in ATTENTIONS
        for layer in range(config.n_encoder_layers if attention == "encoder" else config.n_decoder_layers)
    }


def _table(
    pairs: Pairs,
    heads: Sequence[Head],
    sums: dict[tuple[Attention, int], Sum],
    tallies: dict[Head | None, _Tally],
) -> HeadsTable:
    whole = tallies[None]
    bleu = whole.bleu(pairs.references)
    means = {found: one.mean() for found, one in sums.items()}

    def row(head: Head) -> HeadRow:
        mean, tally = means[head.attention, head.layer], tallies[head]
        scored, worse = tally.correctness.n_symbols > 0, tally.bleu(pairs.references)
        return HeadRow(
            head,
            Statistics(*(values[head.head] for values in mean)),
            accuracy_drop=whole.correctness.accuracy - tally.correctness.accuracy if scored else None,
            loss_rise=tally.correctness.loss - whole.correctness.loss if scored else None,
            bleu_drop=None if bleu is None or worse is None else bleu - worse,
        )

    return HeadsTable(
        len(pairs),
        pairs.n_left_out,
        whole.correctness.accuracy,
        whole.correctness.loss,
        bleu,
        tuple(row(head) for head in heads),
    )
