"""The task "answering"."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from regard.artifact import Description
from regard.data import Stories, StoryCollator, fixed_order
from regard.evaluate.significance import Interval, interval_of_mean, share_interval
from regard.metrics import Measure
from regard.models import Model
from regard.tasks.answering.predictor import WORDS_FILE, Answer, Answerer
from regard.tasks.answering.prepare import Words, read_split
from regard.tasks.answering.sections import StoryDataConfig, StoryTextConfig
from regard.tasks.task import Data, Evaluation, Examined, OnProgress, Task, sample_places
from regard.text.stories import Question, read_stories
from regard.training import TrainingConfig, Validation
from regard.training.validation import score_terms

MAX_MEMORY = 50  # sentences, if the recipe does not say
_SHOWN_SENTENCES = 5
_BATCH = 256  # questions


class AnsweringRecipe(Protocol):
    """A recipe with the sections of this task."""

    data: StoryDataConfig
    text: StoryTextConfig


@dataclass(frozen=True, kw_only=True)
class AnsweringData(Data):
    """Stories as ids, and the questions that they came from."""

    train: Stories
    validation: Stories
    collate_without_noise: StoryCollator  # the training questions
    words: Words
    samples: tuple[Question, ...]  # of the validation set

    @property
    def cost_lengths(self) -> tuple[NDArray[np.integer], ...]:
        """The number of sentences that are read."""
        return (np.clip(self.train.last - self.train.first, 1, self.sizes["n_times"]),)


class Answering(Task[AnsweringData]):
    """Stories with questions in, a model that answers out."""

    name = "answering"
    title = "Answers to questions about stories"
    usage = 'echo "Mary went home. Where is Mary?" | regard predict this/folder'
    sections: ClassVar = {"data": StoryDataConfig, "text": StoryTextConfig}
    architecture = "memory-network"
    measures = (
        Measure("loss", "loss", 4, higher_is_better=False),
        Measure("error", "error", 1, higher_is_better=False, is_share=True),
        Measure("training_error", "training error", 1, higher_is_better=False, is_share=True),
    )
    test_measures = (Measure("support_share", "weight on supporting facts", 1, higher_is_better=True, is_share=True),)
    examples = "questions"
    unit = "questions"

    def examine(self, recipe: AnsweringRecipe, on_progress: OnProgress) -> Examined:
        on_progress("reading the stories", 0, None)
        split, values = read_split(recipe.data), {}
        if recipe.text.memory is None:
            longest = max(len(question.story) for question in split.train)
            values = {"text": {"memory": max(1, min(MAX_MEMORY, longest))}}
        return Examined(values | {"data": {"fingerprint": split.fingerprint}})

    def prepare(
        self, recipe: AnsweringRecipe, parent: Description | None, cache: Path, on_progress: OnProgress
    ) -> AnsweringData:
        split, memory = read_split(recipe.data), recipe.text.memory or MAX_MEMORY
        words = Words.of(split.train)
        train, validation = words.encode(split.train), words.encode(split.validation)
        settings = {"n_symbols": len(words.words), "memory": memory}
        return AnsweringData(
            train=train,
            validation=validation,
            collate=StoryCollator(stories=train, time_noise=recipe.text.time_noise, **settings),
            collate_validation=StoryCollator(stories=validation, **settings),
            collate_without_noise=StoryCollator(stories=train, **settings),
            words=words,
            samples=tuple(split.validation[i] for i in sample_places(len(split.validation))),
            n_targets=len(train),
            sizes={"n_symbols": len(words.words), "n_times": memory, "n_places": words.n_places + 1},
            assets={WORDS_FILE: json.dumps(words.words, ensure_ascii=False).encode()},
            facts={},
            counts={"vocabulary": len(words.words) - 1},
        )

    def describe_data(self, recipe: AnsweringRecipe, data: AnsweringData) -> str:
        files = ", ".join(path.name for path in recipe.data.train)
        return f"{files} ({len(data.train):,} questions)"

    def validate(self, model: Model, data: AnsweringData, config: TrainingConfig, device: torch.device) -> Validation:
        training = score_terms(model, fixed_order(data.train, data.collate_without_noise, _BATCH), device)["answer"]
        scores = score_terms(model, data.validation_batches(_BATCH), device)["answer"]
        n_known = max(1, int((data.validation.answers >= 0).sum()))
        right = scores.accuracy * n_known / len(data.validation)  # an answer that training did not have is wrong
        metrics = {"loss": scores.loss, "error": 1 - right, "training_error": 1 - training.accuracy}
        answers = Answerer(model, data.words, data.sizes["n_times"]).answer(data.samples)
        return Validation(metrics, tuple(map(_sample, answers)))

    def predictor(self, described: Description) -> Answerer:
        return Answerer.load(described)

    def evaluate(self, predictor: Answerer, files: Sequence[Path]) -> Evaluation:
        """Files in the format of bAbI."""
        return _evaluation([_record(path.name, predictor.answer(read_stories(path))) for path in files])

    def join(self, evaluations: Sequence[Evaluation]) -> Evaluation:
        return _evaluation([record for evaluation in evaluations for record in evaluation.details["files"]])

    def look(self, described: Description, value: Any) -> Any:
        from regard.tasks.answering.look import look_at_question

        return look_at_question(self.predictor(described), value)


def _record(name: str, answers: Sequence[Answer]) -> dict[str, Any]:
    """The error of a file; if it has supporting facts, the share of the weight of every hop on them.

    `support_chance` would be that share if all sentences had the same weight.
    """
    n, n_wrong = len(answers), sum(answer.answer != answer.question.answer for answer in answers)
    interval = share_interval(n_wrong, n)
    record = {"name": name, "n_examples": n, "error": n_wrong / n, "interval": [interval.low, interval.high]}
    supported = [answer for answer in answers if answer.question.supporting]
    if not supported:
        return record
    chances = [len(set(answer.question.supporting)) / len(answer.question.story) for answer in supported]
    shares = np.mean([answer.support_shares() for answer in supported], axis=0)
    return record | {"support_shares": shares.tolist(), "support_chance": float(np.mean(chances))}


def _evaluation(records: Sequence[dict[str, Any]]) -> Evaluation:
    """The error is the mean over files, so that each counts as much."""
    errors, intervals = [record["error"] for record in records], [Interval(*record["interval"]) for record in records]
    shares = [np.mean(record["support_shares"]) for record in records if "support_shares" in record]
    return Evaluation(
        metrics={"error": float(np.mean(errors))} | ({"support_share": float(np.mean(shares))} if shares else {}),
        n_examples=sum(record["n_examples"] for record in records),
        intervals={"error": interval_of_mean(errors, intervals)},
        details={"files": list(records)},
        text=_table(records),
    )


def _table(records: Sequence[dict[str, Any]]) -> str:
    """Error by file, with the weight of every hop on supporting facts."""
    n_hops = max(len(record.get("support_shares", ())) for record in records)
    rows = [["file", "error", "95% interval", *(f"hop {i + 1}" for i in range(n_hops)), *(["even"] if n_hops else [])]]
    for record in records:
        shares = [
            *record.get("support_shares", ()),
            *([record["support_chance"]] if "support_chance" in record else []),
        ]
        shown = [f"{share:.0%}" for share in shares] or [""] * (len(rows[0]) - 3)
        interval = " – ".join(f"{end:.1%}" for end in record["interval"])
        rows.append([record["name"], f"{record['error']:.1%}", interval, *shown])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]
    note = ["hops: share of the weight on supporting facts; even: if all sentences had the same"] if n_hops else []
    return "".join(f"{line}\n" for line in [*lines, *note])


def _sample(answer: Answer) -> dict[str, str]:
    question = answer.question
    told = " ".join((*question.story[-_SHOWN_SENTENCES:], question.text))
    return {"story": told, "answer": question.answer, "predicted": answer.answer}
