"""Texts with blanks in, filled texts out; also whether a text follows another, and which words were replaced.

B batch, T length, N blanks
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.artifact import Description, LoadedModel, load_described, max_length
from regard.data import Batch, collate_texts, cut
from regard.data.order import fixed_batches
from regard.errors import ArtifactError, UserError
from regard.models import PretrainingModel, Reading
from regard.nn import Trace
from regard.text.vocabulary import MASK, SPACE

_MAX_TOKENS = 4_096  # of a batch, padding included
_N_GUESSES, _N_SHOWN = 10, 3
_N_OTHERS = 3  # bos, and two eos
_REPLACED = 0.5


@dataclass(frozen=True)
class Guess:
    """A word, and its probability."""

    text: str
    probability: float

    def __str__(self) -> str:
        return f"{self.text} {self.probability:.2f}"


@dataclass(frozen=True)
class Filled:
    """What a model says about a text; `follows` and `replaced` are None if it has not learned to answer."""

    texts: tuple[str, ...]  # with the most probable word in every blank
    blanks: tuple[tuple[Guess, ...], ...]  # the most probable words of each
    follows: float | None  # probability that the second text follows the first
    replaced: tuple[Guess, ...] | None  # for each word, the probability that it is not the writer's

    @property
    def text(self) -> str:
        """The filled text, with marks at words that were probably replaced; then blank by blank the best words."""
        shown = list(self.texts)
        if self.replaced is not None:
            marked = (f"[{w.text} {w.probability:.2f}]" if w.probability > _REPLACED else w.text for w in self.replaced)
            shown = [" ".join(marked)]
        shown += [", ".join(map(str, guesses[:_N_SHOWN])) for guesses in self.blanks]
        return "\t".join([*shown, *([] if self.follows is None else [f"follows {self.follows:.4f}"])])

    def to_dict(self) -> dict[str, Any]:
        values: dict[str, Any] = {"text": " ".join(self.texts)}
        if self.blanks:
            values["blanks"] = [[vars(guess) for guess in guesses] for guesses in self.blanks]
        if self.follows is not None:
            values["follows"] = self.follows
        if self.replaced is not None:
            values["replaced"] = [vars(guess) for guess in self.replaced]
        return values


class Filler:
    """A loaded model. An input is a text with [MASK] for each missing word, or two texts: in a list, or with a tab."""

    def __init__(self, loaded: LoadedModel, limit: int) -> None:
        self.model: PretrainingModel = loaded.model
        self.asks: tuple[str, ...] = loaded.model.config.asks
        self.tokenizer, self.max_length, self.facts = loaded.tokenizers.source, limit, loaded.facts
        if self.tokenizer.mask_id is None:
            raise ArtifactError(f"the vocabulary of this model has no {MASK}")
        self.mask_id: int = self.tokenizer.mask_id
        never = [*self.tokenizer.special_ids, self.tokenizer.unk_id]
        self._never = torch.tensor(never)

    @classmethod
    def load(cls, described: Description) -> Filler:
        limit = None if described.max_length is None else described.max_length - _N_OTHERS + 1
        return cls(load_described(described), max_length(described.facts, limit))

    def predict(self, inputs: Sequence[Any]) -> list[Filled]:
        """One prediction per input."""
        examples = [self.read(value) for value in inputs]
        for example in examples:
            self._require_question(example)
        if not examples:
            return []
        order = fixed_batches(np.array([sum(map(len, example)) + 2 for example in examples]), max_tokens=_MAX_TOKENS)
        predictions: dict[int, Filled] = {}
        for number in range(len(order)):
            rows = order[number].tolist()
            predictions |= zip(rows, self._answers([examples[i] for i in rows]), strict=True)
        return [predictions[i] for i in range(len(inputs))]

    def read(self, value: Any) -> list[list[int]]:
        """The ids of one text or two, not longer than in training."""
        texts = value.split("\t") if isinstance(value, str) else value
        if not isinstance(texts, list) or len(texts) not in (1, 2) or not all(isinstance(t, str) for t in texts):
            raise UserError(
                "an input must be a text, or two texts", hint='write a tab between them, or ["first", "second"] in JSON'
            )
        encoded = [self.tokenizer.encode_with_blanks(text) for text in texts]
        shortened = cut(encoded, self.max_length)
        if sum(map(self._n_blanks, encoded)) != sum(map(self._n_blanks, shortened)):
            raise UserError(
                f"a {MASK} is behind the {self.max_length} sub-words that this model reads", hint="shorten the text"
            )
        return shortened

    def ask(self, examples: Sequence[Sequence[Sequence[int]]], trace: Trace | None = None) -> tuple[Batch, Reading]:
        """The texts as a batch, and what the model says about them."""
        t = self.tokenizer
        batch = collate_texts(examples, pad_id=t.pad_id, bos_id=t.bos_id, eos_id=t.eos_id)
        ids, segments = batch.inputs
        with torch.inference_mode():
            return batch, self.model.read(ids, segments, ids.eq(self.mask_id), trace)

    def guesses(self, logits: Tensor, n: int = _N_GUESSES) -> list[list[Guess]]:
        """(N, V) → the n most probable words of each blank; special symbols are none."""
        p = logits.double().softmax(-1).index_fill(-1, self._never, 0.0)
        best = p.topk(min(n, p.shape[-1]))
        return [
            [Guess(self.word(i), value) for i, value in zip(ids, values, strict=True)]
            for ids, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]

    def best(self, logits: Tensor) -> list[int]:
        """(N, V) → the id of the most probable word of each blank."""
        return logits.index_fill(-1, self._never, float("-inf")).argmax(-1).tolist()

    def word(self, piece_id: int) -> str:
        """A sub-word without its space."""
        return self.tokenizer.piece(piece_id).removeprefix(SPACE)

    def words(self, texts: Sequence[Sequence[int]]) -> list[list[int]]:
        """The positions of the sub-words of each word, in a row of a batch."""
        words, position = [], 1
        for ids in texts:
            for number, piece_id in enumerate(ids):
                begins = piece_id == self.mask_id or self.tokenizer.piece(piece_id).startswith(SPACE)
                if number == 0 or begins:
                    words.append([position + number])
                else:
                    words[-1].append(position + number)
            position += len(ids) + 1
        return words

    def answer(self, example: Sequence[Sequence[int]], reading: Reading) -> Filled:
        """What was said about a single example."""
        return next(self._filled([example], reading))

    def close(self) -> None:
        """Nothing is open."""

    def _answers(self, examples: Sequence[Sequence[Sequence[int]]]) -> Iterator[Filled]:
        return self._filled(examples, self.ask(examples)[1])

    def _filled(self, examples: Sequence[Sequence[Sequence[int]]], reading: Reading) -> Iterator[Filled]:
        logits = torch.empty(0, self.tokenizer.size) if reading.words is None else reading.words
        best, guesses = iter(self.best(logits)), iter(self.guesses(logits))
        for row, example in enumerate(examples):
            texts = [[next(best) if i == self.mask_id else i for i in ids] for ids in example]
            follows = None if reading.next is None or len(example) == 1 else float(reading.next[row])
            replaced = None if reading.replaced is None else tuple(self._replaced(texts, reading.replaced[row]))
            blanks = tuple(tuple(next(guesses)) for ids in example for _ in range(self._n_blanks(ids)))
            yield Filled(tuple(map(self.tokenizer.decode, texts)), blanks, follows, replaced)

    def _replaced(self, texts: Sequence[Sequence[int]], p: Tensor) -> Iterator[Guess]:
        """(T,) → one value per word: that of its most suspicious sub-word."""
        row = [0, *(i for ids in texts for i in (*ids, 0))]
        for positions in self.words(texts):
            yield Guess(self.tokenizer.decode([row[i] for i in positions]), float(p[positions].max()))

    def _n_blanks(self, ids: Sequence[int]) -> int:
        return list(ids).count(self.mask_id)

    def _require_question(self, example: Sequence[Sequence[int]]) -> None:
        can_judge_pairs = "next" in self.asks and len(example) == 2
        if "replaced" not in self.asks and not can_judge_pairs and not sum(map(self._n_blanks, example)):
            more = ", or give two texts with a tab between them" if "next" in self.asks else ""
            raise UserError(f"the text has no {MASK}", hint=f"write {MASK} where a word is missing{more}")
