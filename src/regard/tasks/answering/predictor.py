"""Stories and questions in, answers out, with the sentences that were used.

B questions, K hops, M sentences
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from regard.artifact import Description, load_described
from regard.artifact.directory import COPY_AGAIN
from regard.data import NIL, OUTSIDE_TRAINING, Batch, StoryCollator
from regard.errors import ArtifactError, UserError
from regard.models import Model
from regard.nn import Trace
from regard.tasks.answering.prepare import Words
from regard.text.sentences import sentences
from regard.text.stories import Question, parse_stories, split_words
from regard.training.validation import evaluation_mode

WORDS_FILE = "words.json"
_MAX_WORDS_BYTES = 50_000_000
_BATCH = 256  # questions
_N_PROBABILITIES = 5
_NUMBER = re.compile(r"\d+\s+")
_FORMS = (
    "an input is a story and its question on one line, or as lines, or as "
    '{"story": ["Mary moved to the bathroom."], "question": "Where is Mary?"}'
)


@dataclass(frozen=True)
class Answer:
    """The most probable answer, and how much each hop used each sentence."""

    answer: str
    probability: float
    probabilities: Mapping[str, float]  # of the most probable words
    question: Question
    first: int  # place of the first sentence that the model saw
    weights: tuple[tuple[float, ...], ...]  # (K, M); what a row lacks from 1 was on no sentence
    unknown: tuple[str, ...]  # words that the training text did not have

    @property
    def text(self) -> str:
        """The answer, its probability, and the number and the weight of the most used sentence of every hop."""
        used = [max(enumerate(row, self.first + 1), key=lambda pair: pair[1]) for row in self.weights if row]
        return "\t".join([self.answer, f"{self.probability:.4f}", *(f"{number}:{w:.2f}" for number, w in used)])

    def to_dict(self) -> dict[str, Any]:
        """Sentences are counted from 1."""
        place = slice(self.first, None)
        record = {
            "answer": self.answer,
            "probability": self.probability,
            "probabilities": dict(self.probabilities),
            "question": self.question.text,
            "sentences": list(self.question.story[place]),
            "first_sentence": self.first + 1,
            "hops": [list(row) for row in self.weights],
            "unknown": list(self.unknown),
        }
        return record | ({"expected": self.question.answer} if self.question.answer else {}) | self._support()

    def support_shares(self) -> list[float]:
        """The share of the weight of each hop on the sentences that are given as supporting; empty without any."""
        places = set(self.question.supporting)
        if not places:
            return []
        return [sum(w for place, w in enumerate(row, self.first) if place in places) for row in self.weights]

    def _support(self) -> dict[str, Any]:
        if not self.question.supporting:
            return {}
        numbers = [place + 1 for place in self.question.supporting]
        return {"supporting": numbers, "support_shares": self.support_shares()}


class Answerer:
    """A loaded model. An input is a story with a question; `read_question` has its forms."""

    is_one_input = True  # on the page, a text of several lines

    def __init__(self, model: Model, words: Words, memory: int) -> None:
        self.model, self.words, self.memory = model, words, memory
        self._known = frozenset(words.words)

    @classmethod
    def load(cls, described: Description) -> Answerer:
        words = read_words(described)
        return cls(load_described(described).model, words, described.sizes["n_times"])

    def predict(self, inputs: Sequence[Any]) -> list[Answer]:
        """One answer per input."""
        return self.answer([read_question(value) for value in inputs])

    def answer(self, questions: Sequence[Question]) -> list[Answer]:
        answers = []
        for start in range(0, len(questions), _BATCH):
            part = questions[start : start + _BATCH]
            trace = Trace()
            device = next(self.model.parameters()).device
            with evaluation_mode(self.model):
                logits = self.model(*self.batch(part).to(device).inputs, trace)
            answers += self._answers(part, logits.cpu(), trace["weights"])
        return answers

    def batch(self, questions: Sequence[Question]) -> Batch:
        for question in questions:
            if not self._known.intersection(split_words(question.text)):
                raise UserError(f"{question.text[:80]!r} has no word that the training text has", hint=_FORMS)
        stories, n = self.words.encode(questions), len(self.words.words)
        collate = StoryCollator(stories=stories, n_symbols=n, memory=self.memory)
        return collate(np.arange(len(questions)), OUTSIDE_TRAINING)

    def _answers(self, questions: Sequence[Question], logits: Tensor, weights: Tensor) -> list[Answer]:
        """(B, V), (B, K, M) → the answers."""
        n = len(self.words.words)
        probabilities = logits.double().softmax(-1)[:, NIL + 1 : n]  # (B, words)
        best, ids = probabilities.topk(min(_N_PROBABILITIES, n - 1))
        answers = []
        for question, p, top, rows in zip(questions, best.tolist(), ids.tolist(), weights.tolist(), strict=True):
            n_seen = min(len(question.story), self.memory)
            named = {self.words.words[i + NIL + 1]: value for i, value in zip(top, p, strict=True)}
            text = " ".join((*question.story[len(question.story) - n_seen :], question.text))
            unknown = [word for word in dict.fromkeys(split_words(text)) if word not in self._known]
            answers.append(
                Answer(
                    answer=next(iter(named)),
                    probability=p[0],
                    probabilities=named,
                    question=question,
                    first=len(question.story) - n_seen,
                    weights=tuple(tuple(row[:n_seen]) for row in rows),
                    unknown=tuple(unknown),
                )
            )
        return answers

    def close(self) -> None:
        """Nothing is open."""


def read_question(value: Any) -> Question:
    """A question from one of its forms.

    A text: sentences, of which the last is the question, on one line or several; or lines in the format of bAbI, the
    last of which is the question. A JSON object, or its text: `story` (a text, or a list of sentences), `question`, and
    where it is known `answer` and `supporting`, numbers of sentences from 1.
    """
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise UserError(f"the input is not JSON: {error}", hint=_FORMS) from error
    return _from_text(value) if isinstance(value, str) else _from_object(value)


def _from_text(text: str) -> Question:
    lines = [line for line in text.strip().split("\n") if line.strip()]
    if len(lines) > 1 and all(map(_NUMBER.match, lines)):
        has_answer = "\t" in lines[-1].strip()
        *_, last = parse_stories([*lines[:-1], lines[-1] + ("" if has_answer else "\t?")], "the input")
        return last if has_answer else replace(last, answer="")
    parts = [part.text for part in sentences(text.replace("\t", "\n")) if part.text.strip()]
    if len(parts) == 1 and _NUMBER.match(parts[0]):  # a file in the format of bAbI on standard input
        raise UserError(
            f"{parts[0][:80]!r} is one line of a story",
            hint='give all its lines in one argument: "$(cat FILE)"; regard evaluate reads files with many stories',
        )
    return _checked(parts[:-1], parts[-1] if parts else "")


def _from_object(value: Any) -> Question:
    match value:
        case {"story": str(text), "question": str(question)}:
            story: list[Any] = [part.text for part in sentences(text) if part.text]
        case {"story": list(story), "question": str(question)} if all(isinstance(part, str) for part in story):
            pass
        case _:
            raise UserError("the input has no story and question", hint=_FORMS)
    numbers, answer = value.get("supporting", []), value.get("answer", "")
    if not isinstance(numbers, list) or not all(isinstance(i, int) and 0 < i <= len(story) for i in numbers):
        raise UserError("supporting must be a list of numbers of sentences of the story, from 1", hint=_FORMS)
    known = answer.strip().lower() if isinstance(answer, str) else ""
    return replace(_checked(story, question), answer=known, supporting=tuple(i - 1 for i in numbers))


def _checked(story: Sequence[str], question: str) -> Question:
    if not split_words(question):
        raise UserError("there is no question in the input", hint=_FORMS)
    return Question(tuple(story), question.strip())


def read_words(described: Description) -> Words:
    """The words of a model, in the order of their numbers."""
    path, sizes = described.directory / WORDS_FILE, described.sizes
    try:
        words = json.loads(described.read_asset(WORDS_FILE, _MAX_WORDS_BYTES))
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{path} is not JSON", hint=COPY_AGAIN) from error
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ArtifactError(f"{path} is not a list of words", hint=COPY_AGAIN)
    if len(words) != sizes.get("n_symbols") or min(sizes.get("n_times", 0), sizes.get("n_places", 0)) < 1:
        raise ArtifactError(f"{path}: {len(words)} words, but the model has others", hint=COPY_AGAIN)
    return Words(tuple(words), sizes["n_places"] - 1)
