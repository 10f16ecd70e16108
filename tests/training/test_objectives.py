"""Objectives: sums over target tokens, independent of padding and of how pairs are batched."""

from dataclasses import replace
from math import log

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data import NO_TARGET, Batch, collate_pairs
from regard.models import Transformer, TransformerConfig
from regard.training.objectives import TermSums, term_sums

CONFIG = TransformerConfig(n_encoder_layers=1, n_decoder_layers=1, d_model=16, d_ff=16, n_heads=2, dropout=0.0)
PAIRS = [([4, 5, 6], [7, 8]), ([9], [10, 4, 5, 6, 7]), ([5, 5, 5, 5, 8], [9]), ([6, 7], [4, 4, 8])]


def make_model(dropout: float = 0.0) -> Transformer:
    torch.manual_seed(1)
    return Transformer(CONFIG.model_copy(update={"dropout": dropout}), 11, 11, pad_id=0).train()


def make_batch(pairs: list[tuple[list[int], list[int]]] = PAIRS) -> Batch:
    return collate_pairs(pairs, pad_id=0, bos_id=2, eos_id=3)


def gradients(model: Transformer, loss: Tensor) -> list[Tensor]:
    model.zero_grad()
    loss.backward()
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_equals_pytorch_without_padding(smoothing: float) -> None:
    model, batch = make_model(), make_batch()
    logits = model(batch.inputs[0], batch.inputs[1]).transpose(1, 2)  # (B, V, T)
    options = {"reduction": "sum", "ignore_index": NO_TARGET}
    expected = F.cross_entropy(logits, batch.targets[0], label_smoothing=smoothing, **options)
    [sums] = term_sums(model, batch, smoothing)
    torch.testing.assert_close(sums.loss, expected.detach())
    torch.testing.assert_close(sums.nll, F.cross_entropy(logits, batch.targets[0], **options).detach())
    correct = (logits.argmax(1) == batch.targets[0]) & (batch.targets[0] != NO_TARGET)
    assert int(sums.n_correct) == int(correct.sum())
    assert sums.n_targets == batch.n_targets[0] == 2 + 5 + 1 + 3 + 4
    torch.testing.assert_close(gradients(model, sums.loss), gradients(model, expected))


@pytest.mark.parametrize("r_drop", [0.0, 2.0])
def test_sums_do_not_depend_on_batching_and_padding(r_drop: float) -> None:
    model, batch = make_model(), make_batch()

    def objective(model: Transformer, batch: Batch) -> TermSums:
        return term_sums(model, batch, 0.1, r_drop)[0]

    together = objective(model, batch)
    parts = [objective(model, make_batch([pair])) for pair in PAIRS]
    src, tgt_in = batch.inputs
    wide = replace(
        batch,
        inputs=(F.pad(src, (0, 9)), F.pad(tgt_in, (0, 4))),
        targets=(F.pad(batch.targets[0], (0, 4), value=NO_TARGET),),
    )
    wider = objective(model, wide)
    assert together.n_targets == wider.n_targets == sum(part.n_targets for part in parts)
    for field in ("loss", "nll", "n_correct"):
        value = getattr(together, field).item()
        assert getattr(wider, field).item() == pytest.approx(value, rel=1e-5)
        assert sum(getattr(part, field).item() for part in parts) == pytest.approx(value, rel=1e-5)
    torch.testing.assert_close(gradients(model, together.loss), gradients(model, wider.loss), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("weight", [0.0, 5.0])
def test_r_drop_without_dropout_is_plain_cross_entropy(weight: float) -> None:
    model, batch = make_model(), make_batch()
    [plain], [twice] = term_sums(model, batch, 0.1), term_sums(model, batch, 0.1, weight)
    assert plain.n_targets == twice.n_targets
    for field in ("loss", "nll", "n_correct"):
        torch.testing.assert_close(getattr(twice, field), getattr(plain, field))
    torch.testing.assert_close(gradients(model, twice.loss), gradients(model, plain.loss), atol=1e-5, rtol=1e-4)


def test_r_drop_adds_half_the_weight_times_the_divergence_of_two_passes() -> None:
    model, batch = make_model(dropout=0.4), make_batch()
    torch.manual_seed(3)
    [sums] = term_sums(model, batch, 0.1, 3.0)
    torch.manual_seed(3)
    logits = model(batch.inputs[0].repeat(2, 1), batch.inputs[1].repeat(2, 1))  # the same dropout
    is_token = batch.targets[0] != NO_TARGET
    first, second = (part[is_token] for part in logits.chunk(2))
    targets, smooth = batch.targets[0][is_token], {"reduction": "sum", "label_smoothing": 0.1}
    losses = (F.cross_entropy(first, targets, **smooth) + F.cross_entropy(second, targets, **smooth)) / 2
    p, q = first.softmax(-1), second.softmax(-1)
    divergence = ((p * (p / q).log()).sum() + (q * (q / p).log()).sum()) / 2
    torch.testing.assert_close(sums.loss, (losses + 3.0 / 2 * divergence).detach())
    assert divergence.item() > 0.01


def test_uniform_model_has_the_loss_of_a_guess() -> None:
    model, batch = make_model(), make_batch()
    torch.nn.init.zeros_(model.output_weight)
    [sums] = term_sums(model, batch, 0.1)
    assert sums.loss.item() / sums.n_targets == pytest.approx(log(11))
    assert sums.nll.item() / sums.n_targets == pytest.approx(log(11))
