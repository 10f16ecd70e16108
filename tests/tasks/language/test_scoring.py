"""Perplexity by the published counting, memory carried through a text, and the loss by length of context."""

from math import exp, log
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data import TokenStream, make_stream
from regard.models import LanguageModel, ModelSpec
from regard.models.recurrent import RecurrentConfig
from regard.tasks.language.scoring import (
    context_table,
    loss_by_context,
    perplexity_interval,
    scores,
    stretch_losses,
    token_losses,
)

VOCAB, EOS = 12, 3
LSTM = RecurrentConfig(d_model=16, attention="none", bidirectional=False, reverse=False, dropout=0.0)


def make_model(segment: int = 4) -> LanguageModel:
    torch.manual_seed(1)
    model = ModelSpec("language", "lstm", LSTM, {"n_symbols": VOCAB, "segment": segment, "pad_id": 0}).build()
    assert isinstance(model, LanguageModel)
    return model.eval()


def make_text(directory: Path, n_lines: int = 40) -> TokenStream:
    rng = np.random.default_rng(1)
    lines = [" ".join(map(str, rng.integers(4, VOCAB, rng.integers(0, 9)))) for _ in range(n_lines)]

    def encode(chunk: list[str]) -> list[list[int]]:
        return [[int(word) for word in line.split()] for line in chunk]

    return make_stream(directory / "s", lines, encode, key="", vocab_size=VOCAB, eos_id=EOS, unk_id=1)


def test_every_token_is_predicted_from_the_whole_text_before_it(tmp_path: Path) -> None:
    model, stream = make_model(), make_text(tmp_path)
    ids = torch.tensor([[EOS, *stream.ids.tolist()]])
    whole = make_model(segment=len(stream))  # in one segment, nothing has to be carried
    with torch.no_grad():
        log_p = whole(ids[:, :-1])[0].log_softmax(-1)
    expected = -log_p.gather(1, ids[0, 1:, None])[:, 0]
    np.testing.assert_allclose(token_losses(model, stream), expected, atol=1e-5)


def test_without_memory_each_segment_begins_anew(tmp_path: Path) -> None:
    model, stream = make_model(), make_text(tmp_path)
    losses, ids = token_losses(model, stream, memory=0), [EOS, *stream.ids.tolist()]
    with torch.no_grad():
        log_p = model(torch.tensor([ids[4:8]]))[0].log_softmax(-1)
    np.testing.assert_allclose(losses[4:8], [-float(row[i]) for row, i in zip(log_p, ids[5:9], strict=True)], atol=1e-5)


def test_a_uniform_model_has_the_perplexity_of_its_vocabulary_per_token(tmp_path: Path) -> None:
    """Per word, it is that of all tokens of the text, spread over its words and ends of lines."""
    meta = make_text(tmp_path).meta
    measured = scores(log(VOCAB), meta)
    assert meta.n_tokens == meta.n_words + meta.n_lines  # a token per word
    assert measured["perplexity"] == pytest.approx(VOCAB)
    n_characters = meta.n_characters + meta.n_lines
    assert measured["bits_per_character"] == pytest.approx(meta.n_tokens * log(VOCAB) / log(2) / n_characters)


def test_the_interval_is_around_the_perplexity(tmp_path: Path) -> None:
    stream = make_text(tmp_path, 400)
    losses = token_losses(make_model(), stream)
    interval = perplexity_interval(losses, stream)
    assert interval.low < exp(losses.mean()) < interval.high < 1.5 * interval.low


def test_stretches_are_cold_and_their_losses_are_grouped_by_context(tmp_path: Path) -> None:
    model, stream = make_model(), make_text(tmp_path, 400)
    losses = stretch_losses(model, stream, 2)
    assert losses.shape == (2, 1024)
    np.testing.assert_allclose(losses[0], token_losses(model, stream)[:1024], atol=1e-5)
    rows = loss_by_context(losses)
    assert [(row.first, row.last) for row in rows] == [
        (0, 0), (1, 1), (2, 3), (4, 7), (8, 15), (16, 31), (32, 63), (64, 127), (128, 255), (256, 511), (512, 1023),
    ]  # fmt: skip
    assert rows[2].loss == pytest.approx(losses[:, 2:4].mean(), rel=1e-5)
    assert "512–1,023" in context_table(rows)


def test_a_short_text_is_one_short_stretch(tmp_path: Path) -> None:
    stream = make_text(tmp_path, 2)
    losses = stretch_losses(make_model(), stream, 64)
    assert losses.shape == (1, len(stream))
    assert loss_by_context(losses)[-1].last == len(stream) - 1
