"""Forms of an input, and what an answer says."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from regard.errors import DataError, UserError
from regard.models.memory_network import MemoryNetwork, MemoryNetworkConfig
from regard.tasks.answering.predictor import Answerer, read_question
from regard.tasks.answering.prepare import Words
from regard.text.stories import Question

STORY = ("Mary went home.", "John sat.")
BABI = "1 Mary went home.\n2 Where is Mary?\thome\t1\n3 John sat.\n4 Who sat? \tJohn\t3"


@pytest.mark.parametrize(
    "value",
    [
        "Mary went home. John sat. Who sat?",
        "Mary went home. John sat.\tWho sat?",
        "Mary went home.\nJohn sat.\n\nWho sat?\n",
        "1 Mary went home.\n2 John sat.\n3 Who sat?",
        '{"story": "Mary went home. John sat.", "question": "Who sat?"}',
        {"story": list(STORY), "question": "Who sat?"},
    ],
)
def test_every_form_gives_the_same_question(value: Any) -> None:
    assert read_question(value) == Question(STORY, "Who sat?")


def test_facts_and_answers_are_read_where_they_are_given() -> None:
    question = read_question(BABI)
    assert (question.story, question.answer, question.supporting) == (STORY, "john", (1,))
    given = {"story": list(STORY), "question": "Who sat?", "answer": "John", "supporting": [2]}
    assert read_question(given) == Question(STORY, "Who sat?", "john", (1,))


def test_a_question_alone_has_no_story() -> None:
    assert read_question("Who sat?") == Question((), "Who sat?")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", "there is no question"),
        ("...", "there is no question"),
        ("{", "the input is not JSON"),
        ('{"story":' * 50_000, "the input is not JSON"),
        ({"question": "Who?"}, "no story and question"),
        (["Who?"], "no story and question"),
        (7, "no story and question"),
        ({"story": [1], "question": "Who?"}, "no story and question"),
        ({"story": ["Mary sat."], "question": "Who?", "supporting": [2]}, "supporting must be"),
        ("1 Mary sat.\n1 John sat.\n3 Who?\tx\t9", "the input:3: '9' is not the number"),
    ],
)
def test_errors(value: Any, message: str) -> None:
    with pytest.raises((UserError, DataError)) as error:
        read_question(value)
    assert message in error.value.message


def make_answerer(questions: Sequence[Question], memory: int) -> Answerer:
    torch.manual_seed(1)
    words = Words.of(questions)
    sizes = {"n_symbols": len(words.words), "n_times": memory, "n_places": words.n_places + 1}
    return Answerer(MemoryNetwork(MemoryNetworkConfig(n_hops=2), **sizes), words, memory)


def test_an_answer_names_the_sentences_that_were_used() -> None:
    answerer = make_answerer([Question(STORY, "Who sat?", "john")], memory=2)
    story = ("Mary went home.", "Bob went away.", "John sat.")
    [answer] = answerer.answer([Question(story, "Who sat?", "john", (0, 2))])
    assert answer.first == 1 and answer.unknown == ("bob", "away")
    assert [len(row) for row in answer.weights] == [2, 2]
    assert answer.support_shares() == [row[1] for row in answer.weights]  # the first sentence was not seen
    name, probability, *hops = answer.text.split("\t")
    assert (name, probability) == (answer.answer, f"{answer.probability:.4f}")
    for hop, row in zip(hops, answer.weights, strict=True):
        assert hop == f"{2 + row.index(max(row))}:{max(row):.2f}"
    record = answer.to_dict()
    assert (record["sentences"], record["first_sentence"]) == (["Bob went away.", "John sat."], 2)
    assert (record["supporting"], record["expected"]) == ([1, 3], "john")


def test_answers_do_not_depend_on_the_other_questions() -> None:
    answerer = make_answerer([Question(STORY, "Who sat?", "john")], memory=5)
    questions = [Question(STORY[:n] * 2, "Who sat?") for n in (2, 0, 1)]
    for question, answer in zip(questions, answerer.answer(questions), strict=True):
        [alone] = answerer.answer([question])
        assert alone.probability == pytest.approx(answer.probability, abs=1e-6)


def test_a_question_of_unknown_words_is_refused() -> None:
    answerer = make_answerer([Question(STORY, "Who sat?", "john")], memory=5)
    with pytest.raises(UserError, match="no word that the training text has"):
        answerer.predict(["Mary went home. Qui dort?"])
