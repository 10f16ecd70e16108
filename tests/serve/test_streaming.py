"""Splitting a text into sentences lazily gives the same sentences."""

import json
import tracemalloc
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from regard.serve import Service, create_app, load_models
from regard.serve.api.streaming import iter_parts
from regard.serve.http.problem import Problem
from regard.text.sentences import Part, sentences, split_lines

from .fakes import UppercaseTranslator, create_client, served

FRAGMENTS = ["a", "Bc", "etc", "1", ".", "!", " ", "  ", "\n", "\r\n", "。", "」", ")", '"', "»", "("]


@pytest.mark.parametrize("split", [sentences, split_lines])
@given(text=st.lists(st.sampled_from(FRAGMENTS)).map("".join))
def test_windows_are_split_like_the_whole_text(split: Callable[[str], list[Part]], text: str) -> None:
    whole = split(text)
    longest = max(len(part.text) + len(part.gap) for part in whole)
    assert list(iter_parts(text, max(1, longest), split)) == whole


def test_first_sentences_of_a_long_text_need_little_memory() -> None:
    text = "Ab. " * 300_000
    tracemalloc.start()
    try:
        assert len(list(islice(iter_parts(text, 1_000, sentences), 32))) == 32
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_sentence_that_is_too_long_is_refused() -> None:
    with pytest.raises(Problem, match="more than 100 characters"):
        list(iter_parts("One. " + "a" * 1_000, 100, sentences))


@pytest.mark.parametrize("split", [True, False])
def test_stream_and_response_have_the_same_text(split: bool) -> None:
    text = " 12 34? 5 6!\n\n\t78? 90\n"
    models = load_models([Path("tests/golden/model")], n_engines=1)
    with TestClient(create_app(Service(models)), base_url="http://localhost") as client:
        body = {"text": text, "split": split}
        whole = client.post("/v1/translate", json=body).json()["translations"][0]
        streamed = client.post("/v1/translate?stream=1", json=body).text
        libre = client.post("/translate", json={"q": text, "source": "auto", "target": "xx", "split": split})
    events = [json.loads(line.removeprefix("data: ")) for line in streamed.split("\n") if line.startswith("data: ")]
    assert "".join(event["text"] + event["separator"] for event in events[:-1]) == whole["text"]
    assert len(events) - 1 == whole["n_parts"] == (4 if split else 2)
    assert libre.json()["translatedText"].strip() == whole["text"]


def test_warnings_are_in_both_apis_and_the_stream() -> None:
    translator = UppercaseTranslator()
    translator.warnings = ("numbers",)
    with create_client(served(translator)) as client:
        whole = client.post("/v1/translate", json={"text": "a 3"}).json()["translations"][0]
        streamed = client.post("/v1/translate?stream=1", json={"text": "a 3"}).text
        libre = client.post("/translate", json={"q": ["a 3", "b"], "source": "auto", "target": "de"}).json()
        translator.warnings = ()
        assert "warnings" not in client.post("/translate", json={"q": "a", "source": "auto", "target": "de"}).json()
    assert whole["warnings"] == ["numbers"]
    assert '"warnings":["numbers"]' in streamed
    assert libre["warnings"] == [["numbers"], ["numbers"]]
