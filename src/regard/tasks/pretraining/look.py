"""A look at a pre-trained encoder: everything it computes for a text, and what it expects in the place of every word.

T sub-words, with bos and eos
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from regard.lens.inspect import SiteLook
from regard.lens.look_json import ArrayFormat
from regard.nn import Trace
from regard.tasks.pretraining.predictor import Filled, Filler, Guess

_MAX_WORDS = 100  # that are hidden one by one
_N_SHOWN = 3


@dataclass(frozen=True)
class Expected:
    """A word of the text, and what the model expects in its place when it is hidden."""

    text: str
    probability: float | None  # of the word itself; None for words of a very long text
    guesses: tuple[Guess, ...]
    replaced: float | None  # probability that the word is not the writer's


@dataclass(frozen=True, eq=False)
class PretrainingLook(SiteLook):
    """What a pre-trained encoder computed for a text."""

    text: str
    pieces: tuple[str, ...]  # (T,)
    words: tuple[Expected, ...]

    def to_dict(self, arrays: ArrayFormat = "list") -> dict[str, Any]:
        pieces = [{"text": piece, "special": piece in ("<s>", "</s>")} for piece in self.pieces]
        words = [vars(word) | {"guesses": [vars(guess) for guess in word.guesses]} for word in self.words]
        return super().to_dict(arrays) | {"source": {"text": self.text, "pieces": pieces}, "expected": words}

    def table(self) -> list[tuple[str, ...]]:
        """Every word, its probability when it is hidden, the most probable words, and whether it was replaced."""
        judges = any(word.replaced is not None for word in self.words)
        rows: list[tuple[str, ...]] = [("word", "when hidden", "expected", "replaced" if judges else "")]
        for word in self.words:
            own = "" if word.probability is None else f"{word.probability:.1%}"
            others = ", ".join(map(str, word.guesses[:_N_SHOWN]))
            rows.append((word.text, own, others, "" if word.replaced is None else f"{word.replaced:.1%}"))
        return rows

    def picture(self) -> Any:
        """All attention heads: one row of maps per layer."""
        follows = self.prediction.get("follows")
        return self.draw(self.pieces, self.text if follows is None else f"follows: {follows:.1%}", self.text)


def look_at_text(filler: Filler, value: Any) -> PretrainingLook:
    """Runs one input with a trace, and again with each of its words hidden."""
    example, trace = filler.read(value), Trace()
    batch, reading = filler.ask([example], trace)
    answer = filler.answer(example, reading)
    row = batch.inputs[0][0].tolist()
    return PretrainingLook(
        trace=trace,
        prediction=answer.to_dict(),
        text=" ⇥ ".join(value.split("\t") if isinstance(value, str) else value),
        pieces=tuple(map(filler.tokenizer.piece, row)),
        words=tuple(_expected(filler, example, row, answer)),
    )


def _expected(filler: Filler, example: list[list[int]], row: list[int], answer: Filled) -> Iterator[Expected]:
    """Hides every word in turn, with all its sub-words."""
    words, lengths = filler.words(example), [len(ids) for ids in example]
    replaced = [None] * len(words) if answer.replaced is None else [word.probability for word in answer.replaced]
    for number, positions in enumerate(words):
        name = "".join(map(filler.word, (row[i] for i in positions)))
        if number >= _MAX_WORDS:
            yield Expected(name, None, (), replaced[number])
            continue
        hidden = [filler.mask_id if i in positions else piece for i, piece in enumerate(row)]
        logits = filler.ask([_texts(hidden, lengths)])[1].words  # of all blanks, those of this word among them
        assert logits is not None
        blanks = [i for i, piece in enumerate(hidden) if piece == filler.mask_id]
        own = logits[[blanks.index(i) for i in positions]]  # (sub-words of the word, V)
        log_p = own.double().log_softmax(-1).gather(-1, torch.tensor([[row[i]] for i in positions])).sum()
        is_blank = row[positions[0]] == filler.mask_id
        yield Expected(
            name, None if is_blank else float(log_p.exp()), tuple(filler.guesses(own[:1])[0]), replaced[number]
        )


def _texts(row: list[int], lengths: list[int]) -> list[list[int]]:
    """The texts of a row, without bos and eos."""
    texts, first = [], 1
    for length in lengths:
        texts.append(row[first : first + length])
        first += length + 1
    return texts
