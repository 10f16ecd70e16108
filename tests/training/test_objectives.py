"""Objectives: sums over target tokens, independent of padding and of how pairs are batched."""

from math import log

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data import Batch, collate
from regard.models import Transformer, TransformerConfig
from regard.training.objectives import cross_entropy, r_drop

CONFIG = TransformerConfig(n_encoder_layers=1, n_decoder_layers=1, d_model=16, d_ff=16, n_heads=2, dropout=0.0)
PAIRS = [([4, 5, 6], [7, 8]), ([9], [10, 4, 5, 6, 7]), ([5, 5, 5, 5, 8], [9]), ([6, 7], [4, 4, 8])]


def make_model(dropout: float = 0.0) -> Transformer:
    torch.manual_seed(1)
    return Transformer(CONFIG.model_copy(update={"dropout": dropout}), 11, 11, pad_id=0).train()


def make_batch(pairs: list[tuple[list[int], list[int]]] = PAIRS) -> Batch:
    return collate(pairs, pad_id=0, bos_id=2, eos_id=3)


def gradients(model: Transformer, loss: Tensor) -> list[Tensor]:
    model.zero_grad()
    loss.backward()
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_equals_pytorch_without_padding(smoothing: float) -> None:
    model, batch = make_model(), make_batch()
    logits = model(batch.src, batch.tgt_in).transpose(1, 2)  # (B, V, T)
    options = {"reduction": "sum", "ignore_index": 0}
    expected = F.cross_entropy(logits, batch.tgt_out, label_smoothing=smoothing, **options)
    sums = cross_entropy(smoothing)(model, batch)
    torch.testing.assert_close(sums.loss, expected.detach())
    torch.testing.assert_close(sums.nll, F.cross_entropy(logits, batch.tgt_out, **options).detach())
    correct = (logits.argmax(1) == batch.tgt_out) & (batch.tgt_out != 0)
    assert int(sums.n_correct) == int(correct.sum())
    assert sums.n_tokens == batch.n_tokens == 2 + 5 + 1 + 3 + 4
    torch.testing.assert_close(gradients(model, sums.loss), gradients(model, expected))


@pytest.mark.parametrize("objective", [cross_entropy(0.1), r_drop(0.1, 2.0)], ids=["cross_entropy", "r_drop"])
def test_sums_do_not_depend_on_batching_and_padding(objective) -> None:  # type: ignore[no-untyped-def]
    model, batch = make_model(), make_batch()
    together = objective(model, batch)
    parts = [objective(model, make_batch([pair])) for pair in PAIRS]
    wide = Batch(
        src=F.pad(batch.src, (0, 9)),
        tgt_in=F.pad(batch.tgt_in, (0, 4)),
        tgt_out=F.pad(batch.tgt_out, (0, 4)),
        n_tokens=batch.n_tokens,
        indices=np.arange(4),
    )
    wider = objective(model, wide)
    assert together.n_tokens == wider.n_tokens == sum(part.n_tokens for part in parts)
    for field in ("loss", "nll", "n_correct"):
        value = getattr(together, field).item()
        assert getattr(wider, field).item() == pytest.approx(value, rel=1e-5)
        assert sum(getattr(part, field).item() for part in parts) == pytest.approx(value, rel=1e-5)
    torch.testing.assert_close(gradients(model, together.loss), gradients(model, wider.loss), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("weight", [0.0, 5.0])
def test_r_drop_without_dropout_is_plain_cross_entropy(weight: float) -> None:
    model, batch = make_model(), make_batch()
    plain, twice = cross_entropy(0.1)(model, batch), r_drop(0.1, weight)(model, batch)
    assert plain.n_tokens == twice.n_tokens
    for field in ("loss", "nll", "n_correct"):
        torch.testing.assert_close(getattr(twice, field), getattr(plain, field))
    torch.testing.assert_close(gradients(model, twice.loss), gradients(model, plain.loss), atol=1e-5, rtol=1e-4)


def test_r_drop_adds_half_the_weight_times_the_divergence_of_two_passes() -> None:
    model, batch = make_model(dropout=0.4), make_batch()
    torch.manual_seed(3)
    sums = r_drop(0.1, 3.0)(model, batch)
    torch.manual_seed(3)
    logits = model(batch.src.repeat(2, 1), batch.tgt_in.repeat(2, 1))  # the same dropout
    is_token = batch.tgt_out != 0
    first, second = (part[is_token] for part in logits.chunk(2))
    targets, smooth = batch.tgt_out[is_token], {"reduction": "sum", "label_smoothing": 0.1}
    losses = (F.cross_entropy(first, targets, **smooth) + F.cross_entropy(second, targets, **smooth)) / 2
    p, q = first.softmax(-1), second.softmax(-1)
    divergence = ((p * (p / q).log()).sum() + (q * (q / p).log()).sum()) / 2
    torch.testing.assert_close(sums.loss, (losses + 3.0 / 2 * divergence).detach())
    assert divergence.item() > 0.01


def test_uniform_model_has_the_loss_of_a_guess() -> None:
    model, batch = make_model(), make_batch()
    torch.nn.init.zeros_(model.output_weight)
    sums = cross_entropy(0.1)(model, batch)
    assert sums.loss.item() / sums.n_tokens == pytest.approx(log(11))
    assert sums.nll.item() / sums.n_tokens == pytest.approx(log(11))
