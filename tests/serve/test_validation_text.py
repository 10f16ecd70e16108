"""Heads are measured on the run's own validation text, in the language that the model is told."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

from regard.data import build_store
from regard.serve import ServedModel, Service, create_app
from regard.serve.inside.look_service import validation_pairs
from regard.text import Tokenizer, TokenizerPair, train_tokenizer

from .fakes import served

TAGS = ("de", "fr")


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    tokenizer = Tokenizer(train_tokenizer(["one two three", "eins zwei drei", "un deux trois"] * 5, tags=TAGS))
    return TokenizerPair(tokenizer, tokenizer)


def run_with(directory: Path, tokenizers: TokenizerPair, tags: Sequence[str | None]) -> ServedModel:
    """A model whose run has a validation text: pair i is `i one` → `i TAG`, under the i-th tag."""

    def encode(pairs: list[tuple[str, str, int]]) -> tuple[list[list[int]], list[list[int]]]:
        sources = [tokenizers.source.encode(source, tag=tags[int(source.split()[0])]) for source, _, _ in pairs]
        return sources, tokenizers.target.encode_many(target for _, target, _ in pairs)

    pairs = ((f"{number} one", f"{number} {tag}", 0) for number, tag in enumerate(tags))
    size = tokenizers.source.size
    build_store(directory / "data" / "validation", pairs, encode, max_length=99, vocab_size=size, key="k")
    described: Any = SimpleNamespace(tokenizers=tokenizers, model={}, facts={})
    return served(run=directory, description=described, tags=tuple(sorted({tag for tag in tags if tag})))


def test_only_pairs_into_the_language_that_is_asked_for_are_given(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    model = run_with(tmp_path, tokenizers, ["de", "fr", "fr", "de", "fr", "fr"])
    assert validation_pairs(model, 10, "de") == [("0 one", "0 de"), ("3 one", "3 de")]
    assert validation_pairs(model, 2, "fr") == [("1 one", "1 fr"), ("5 one", "5 fr")]
    assert len(validation_pairs(model, 10)) == 6


def test_a_model_of_one_language_gives_pairs_of_all_its_text(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    model = run_with(tmp_path, tokenizers, [None] * 9)
    assert [source for source, _ in validation_pairs(model, 3)] == ["0 one", "4 one", "8 one"]


def test_a_language_without_validation_text_has_none(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    assert validation_pairs(run_with(tmp_path, tokenizers, ["fr"] * 3), 10, "de") == []


class Measuring:
    """A lens that gives back what it was told to measure on."""

    def heads(self, pairs: Sequence[tuple[str, str]], *, target: str | None = None) -> Any:
        return SimpleNamespace(to_dict=lambda: {"pairs": list(pairs), "target": target})


def test_heads_are_measured_on_pairs_of_the_tag_that_they_are_given(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    model = run_with(tmp_path, tokenizers, ["fr", "de", "fr"])
    lens: Any = Measuring()
    with TestClient(create_app(Service([model]), load=lambda _: lens), base_url="http://localhost") as api:
        assert api.get("/v1/heads").json() == {"pairs": [["1 one", "1 de"]], "target": "de"}
