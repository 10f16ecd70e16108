"""Continuations: what they depend on, their limits, and what is refused."""

from typing import Any

import pytest
import torch

from regard.errors import UserError
from regard.models import ModelSpec
from regard.models.language import LanguageConfig
from regard.tasks.language.look import look_at_text
from regard.tasks.language.predictor import Continuer
from regard.text import Tokenizer, train_tokenizer
from regard.text.vocabulary import TokenizerKind

TEXT = ["the cat saw the park .", "a dog heard the street and liked it ."]
CONFIG = LanguageConfig(n_layers=2, d_model=16, d_ff=16, n_heads=2)


def make_continuer(kind: TokenizerKind = "bpe", segment: int = 16) -> Continuer:
    tokenizer = Tokenizer(train_tokenizer(TEXT * 9, size=None if kind == "word" else 300, kind=kind))
    torch.manual_seed(1)
    sizes = {"n_symbols": tokenizer.size, "segment": segment, "pad_id": 0}
    model: Any = ModelSpec("language", "language", CONFIG, sizes).build()
    with torch.no_grad():
        model.words.embedding.weight.mul_(2.0)  # so that some tokens are more probable than others
    return Continuer(model, tokenizer)


@pytest.mark.parametrize("kind", ["bpe", "char", "word"])
def test_the_beginning_is_kept_and_the_length_is_a_limit(kind: TokenizerKind) -> None:
    [continuation] = make_continuer(kind).predict([{"text": "the  cat saw", "length": 5}])
    assert continuation.text.startswith("the cat saw") and "\n" not in continuation.text
    assert 1 <= continuation.n_tokens <= 5 and continuation.log_probability < 0
    assert continuation.to_dict()["continuation"] == continuation.continuation


def test_special_symbols_are_never_written() -> None:
    for seed in range(20):
        [continuation] = make_continuer("word").predict([{"text": "", "temperature": 5.0, "top_p": 1, "seed": seed}])
        assert "<" not in continuation.text


def test_a_continuation_depends_on_its_input_and_seed_only() -> None:
    continuer = make_continuer()
    texts = ["the cat", "a dog", "the cat", "", "the cat saw the park . " * 9]
    together = [continuation.text for continuation in continuer.predict(texts)]
    assert together == [continuer.predict([text])[0].text for text in texts]
    assert together[0] == together[2]
    others = {continuer.predict([{"text": "the cat", "seed": seed}])[0].text for seed in range(1, 9)}
    assert together[0] in others and len(others) > 4


def test_temperature_0_and_a_beam_of_one_and_one_candidate_take_the_most_probable_token() -> None:
    continuer = make_continuer()
    options: list[dict[str, Any]] = [{"temperature": 0}, {"beam": 1}, {"top_k": 1}, {"top_p": 1e-6}]
    texts = [continuer.predict([{"text": "the cat", "length": 8, **each}])[0].text for each in options]
    assert len(set(texts)) == 1


def test_a_wider_beam_finds_what_is_at_least_as_probable() -> None:
    continuer = make_continuer()
    greedy, beam = (continuer.predict([{"text": "a", "length": 6, "beam": n}])[0] for n in (1, 8))
    assert beam.n_tokens == greedy.n_tokens == 6
    assert beam.log_probability > greedy.log_probability - 1e-4


def test_log_probabilities_are_those_of_the_model() -> None:
    continuer = make_continuer()
    [continuation] = continuer.predict([{"text": "the cat", "length": 3, "temperature": 0}])
    prompt, whole = (continuer.tokenizer.encode(text) for text in ("the cat", continuation.text))
    assert whole[: len(prompt)] == prompt and len(whole) == len(prompt) + 3
    with torch.no_grad():
        log_p = continuer.model(torch.tensor([[continuer.tokenizer.eos_id, *whole]]))[0].log_softmax(-1)
    expected = sum(float(log_p[i, whole[i]]) for i in range(len(prompt), len(whole)))
    assert continuation.log_probability == pytest.approx(expected, abs=1e-3)


def test_a_text_longer_than_the_context_is_continued() -> None:
    [continuation] = make_continuer(segment=8).predict([{"text": "the cat saw the park . " * 20, "length": 30}])
    assert continuation.n_tokens >= 1


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3, "an input must be a text"),
        ({"length": 3}, "an input must be a text"),
        ({"text": "a", "lenght": 3}, "there is no option 'lenght'"),
        ({"text": "a", "length": 0}, "length must be a whole number from 1 to 1,000"),
        ({"text": "a", "length": 2.5}, "a whole number"),
        ({"text": "a", "length": True}, "a whole number"),
        ({"text": "a", "temperature": float("nan")}, "temperature must be a number from 0 to 100"),
        ({"text": "a", "top_p": 0}, "top_p must be"),
        ({"text": "a", "beam": 17}, "beam must be a whole number from 0 to 16"),
        ({"text": "a", "seed": -1}, "seed must be"),
        ({"text": "a", "seed": float("inf")}, "seed must be"),
    ],
)
def test_what_is_no_input_is_refused(value: Any, message: str) -> None:
    with pytest.raises(UserError, match=message.replace("(", r"\(")):
        make_continuer().predict(["the cat", value])


def test_a_look_has_the_probability_of_every_token() -> None:
    continuer = make_continuer()
    look = look_at_text(continuer, "the cat saw")
    ids = continuer.tokenizer.encode("the cat saw")
    with torch.no_grad():
        p = continuer.model(torch.tensor([[continuer.tokenizer.eos_id, *ids]]))[0].softmax(-1)
    assert [token.probability for token in look.tokens] == pytest.approx([float(p[i, n]) for i, n in enumerate(ids)])
    assert look.following[0].probability == pytest.approx(float(p[-1].max()))
    assert all((token.rank == 1) == (token.text == token.expected[0].text) for token in look.tokens)
    assert look.gradients.shape == (len(ids) + 1,) and bool((look.gradients > 0).any())
    assert len(look.table()) == len(ids) + 2
    assert len(look.to_dict()["source"]["pieces"]) == len(ids) + 1
    assert not look.trace["words.embedding"].requires_grad


def test_a_look_at_a_long_text_shows_its_last_segment() -> None:
    look = look_at_text(make_continuer(segment=8), "the cat saw the park . " * 3)
    assert len(look.pieces) == look.trace["words.embedding"].shape[1] <= 8 < len(look.context)
    assert look.picture().title.startswith("Attention")


def test_an_empty_text_can_be_looked_at() -> None:
    look = look_at_text(make_continuer(), "")
    assert look.tokens == () and look.pieces == ("</s>",)
