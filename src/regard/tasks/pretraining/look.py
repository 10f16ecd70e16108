"""A look at a pre-trained encoder: everything it computes for a text, and what it expects in the place of every word.

T sub-words, with bos and eos
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import exp
from random import Random
from typing import Any

import torch
from torch import Tensor

from regard.data import Batch
from regard.lens.inspect import SiteLook, as_read
from regard.lens.look_json import ArrayFormat
from regard.nn import Trace
from regard.tasks.pretraining.predictor import Filled, Filler, Guess

_MAX_WORDS = 100  # that are hidden one by one
_N_SHOWN = 3
_SEED = 1  # of the random order, and of what a generator writes
_CONTENT, _QUERY = "order.content", "order.query"  # what the streams may see


@dataclass(frozen=True)
class Expected:
    """A word of the text, and what the model expects in its place when it is hidden."""

    text: str
    probability: float | None  # of the word itself; None for words of a very long text
    guesses: tuple[Guess, ...]
    replaced: float | None  # probability that the word is not the writer's
    written: Guess | None  # a word that the generator drew for it, and the probability that this one is not


@dataclass(frozen=True)
class InOrder:
    """The words of a text, predicted one after the other."""

    name: str
    places: tuple[int, ...]  # of each word, from 1
    probabilities: tuple[float | None, ...]  # of each word, given those before it; None of [MASK]


@dataclass(frozen=True, eq=False)
class PretrainingLook(SiteLook):
    """What a pre-trained encoder computed for a text."""

    text: str
    pieces: tuple[str, ...]  # (T,), as the model reads them
    special: frozenset[str]  # bos and eos
    words: tuple[Expected, ...]
    orders: tuple[InOrder, ...]  # of a model that predicts in any order; the masks of the last are in the trace

    def to_dict(self, arrays: ArrayFormat = "list") -> dict[str, Any]:
        pieces = [{"text": piece, "special": piece in self.special} for piece in self.pieces]
        words = [asdict(word) for word in self.words]
        values = {"source": {"text": self.text, "pieces": pieces}, "expected": words}
        if self.orders:
            values["orders"] = [asdict(order) for order in self.orders]
        return super().to_dict(arrays) | values

    def table(self) -> list[tuple[str, ...]]:
        """Every word, its probability when it is hidden, the most probable words, and what else the model says."""
        judges, writes = (
            any(getattr(word, name) is not None for word in self.words) for name in ("replaced", "written")
        )
        heading = ["word", "when hidden", "expected", *(["replaced"] if judges else [])]
        rows = [(*heading, *(["generator writes"] if writes else []), *(order.name for order in self.orders))]
        for number, word in enumerate(self.words):
            row = [word.text, _percent(word.probability), ", ".join(map(str, word.guesses[:_N_SHOWN]))]
            if judges:
                row.append(_percent(word.replaced))
            if writes:
                row.append("" if word.written is None else f"{word.written.text} {word.written.probability:.1%}")
            row += [f"{o.places[number]}. {_percent(o.probabilities[number])}".rstrip() for o in self.orders]
            rows.append(tuple(row))
        return rows

    def picture(self) -> Any:
        """All attention heads: one row of maps per layer; above them, what an order lets both streams see."""
        follows = self.prediction.get("follows")
        title = self.text if follows is None else f"follows: {follows:.1%}"
        masks = [
            (name, self.trace[path][0, 0].float().numpy())
            for name, path in (("may see, content stream", _CONTENT), ("may see, query stream", _QUERY))
            if path in self.trace
        ]
        return self.draw(self.pieces, title, self._subject(), masks)

    def _subject(self) -> str:
        if not self.orders:
            return self.text
        last = self.orders[-1]
        names = [self.words[i].text for i in sorted(range(len(last.places)), key=last.places.__getitem__)]
        return f"{self.text} · in the order: {', '.join(names)}"


def look_at_text(filler: Filler, value: Any) -> PretrainingLook:
    """Runs one input with a trace, and again with each of its words hidden."""
    example, trace, tokenizer = filler.read(value), Trace(), filler.tokenizer
    batch, reading = filler.ask([example], trace)
    answer = filler.answer(example, reading)
    row = batch.inputs[0][0].tolist()
    return PretrainingLook(
        trace=trace,
        prediction=answer.to_dict(),
        text=" ⇥ ".join(value.split("\t") if isinstance(value, str) else value),
        pieces=tuple(map(tokenizer.piece, as_read(filler.model.config, row))),
        special=frozenset(map(tokenizer.piece, tokenizer.ends)),
        words=tuple(_expected(filler, example, row, answer)),
        orders=tuple(_in_orders(filler, batch, filler.words(example), trace)) if filler.model.has_orders else (),
    )


def _expected(filler: Filler, example: list[list[int]], row: list[int], answer: Filled) -> Iterator[Expected]:
    """Hides every word in turn, with all its sub-words."""
    words, lengths = filler.words(example), [len(ids) for ids in example]
    replaced = [None] * len(words) if answer.replaced is None else [word.probability for word in answer.replaced]
    rng = torch.Generator().manual_seed(_SEED)
    for number, positions in enumerate(words):
        name = "".join(map(filler.word, (row[i] for i in positions)))
        hidden = [filler.mask_id if i in positions else piece for i, piece in enumerate(row)]
        logits = None if number >= _MAX_WORDS else filler.ask([_texts(hidden, lengths)])[1].words
        if logits is None:  # a very long text, or an encoder without its generator
            yield Expected(name, None, (), replaced[number], None)
            continue
        blanks = [i for i, piece in enumerate(hidden) if piece == filler.mask_id]
        own = logits[[blanks.index(i) for i in positions]]  # (sub-words of the word, V)
        log_p = own.double().log_softmax(-1).gather(-1, torch.tensor([[row[i]] for i in positions])).sum()
        written = None
        if answer.replaced is not None:
            written = _written(filler, own, positions, row, lengths, rng)
        is_blank = row[positions[0]] == filler.mask_id
        probability = None if is_blank else float(log_p.exp())
        yield Expected(name, probability, tuple(filler.guesses(own[:1])[0]), replaced[number], written)


def _written(
    filler: Filler, logits: Tensor, positions: list[int], row: list[int], lengths: list[int], rng: torch.Generator
) -> Guess:
    """As in training: another word in the place of one, drawn by the generator, and whether it is taken for another."""
    drawn = torch.multinomial(logits.double().softmax(-1), 1, generator=rng).flatten().tolist()
    changed = list(row)
    for position, piece in zip(positions, drawn, strict=True):
        changed[position] = piece
    replaced = filler.ask([_texts(changed, lengths)])[1].replaced
    assert replaced is not None
    return Guess("".join(map(filler.word, drawn)), float(replaced[0, positions].max()))


def _in_orders(filler: Filler, batch: Batch, words: list[list[int]], trace: Trace) -> Iterator[InOrder]:
    """Every word from those before it: from left to right, from right to left, and in a random order.

    The masks of the last are recorded.
    """
    if not 1 < len(words) <= _MAX_WORDS:
        return
    ids, segments = batch.inputs
    shuffled = Random(_SEED).sample(range(len(words)), len(words))
    numbered = [*range(len(words))]
    orders = {"left to right": numbered, "right to left": numbered[::-1], "random order": shuffled}
    as_asked = as_read(filler.model.config, range(ids.shape[1]))  # everything is asked for, so that masks are square
    for name, order in orders.items():
        place, inside = torch.full(ids.shape, -1.0), Trace()
        positions = [i for number in order for i in words[number]]
        place[0, positions] = torch.arange(len(positions)) / len(positions)
        with torch.inference_mode():
            logits = filler.model.read_in_order(ids, segments, place, torch.ones_like(ids).bool(), inside)
        log_p = logits.double().log_softmax(-1)  # (T, V)
        own = {i: float(log_p[row, ids[0, i]]) for row, i in enumerate(as_asked)}
        yield InOrder(
            name,
            tuple(1 + order.index(number) for number in numbered),
            tuple(None if ids[0, w[0]] == filler.mask_id else exp(sum(own[i] for i in w)) for w in words),
        )
    query = next(inside[site.path] for site in inside.sites("mask") if site.axes[1:] == ("source", "source"))
    itself = torch.eye(query.shape[-1], dtype=torch.bool)
    for path, mask in ((_CONTENT, query | itself), (_QUERY, query)):
        trace.record(path, mask, kind="mask", axes=("head", "source", "source"))


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def _texts(row: list[int], lengths: list[int]) -> list[list[int]]:
    """The texts of a row, without bos and eos."""
    texts, first = [], 1
    for length in lengths:
        texts.append(row[first : first + length])
        first += length + 1
    return texts
