"""Validation: means over target tokens, without dropout, and without side effects on the model."""

from collections.abc import Iterable, Iterator
from math import log

import pytest
import torch

from regard.data import Batch, collate_pairs
from regard.models import Transformer, TransformerConfig
from regard.training.validation import TermScores, score_terms

CPU = torch.device("cpu")
PAIRS = [([4, 5, 6], [7, 8]), ([9], [10, 4, 5, 6, 7]), ([5, 5, 5, 5, 8], [9]), ([6, 7], [4, 4, 8])]


def make_model(dropout: float = 0.0) -> Transformer:
    torch.manual_seed(1)
    size = {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 16, "d_ff": 16, "n_heads": 2}
    return Transformer(TransformerConfig(dropout=dropout, **size), 11, 11, pad_id=0)


def validate(model: Transformer, batches: Iterable[Batch], device: torch.device) -> TermScores:
    return score_terms(model, batches, device)["tokens"]


def make_batches(n_pairs: int) -> list[Batch]:
    starts = range(0, len(PAIRS), n_pairs)
    return [collate_pairs(PAIRS[i : i + n_pairs], pad_id=0, bos_id=2, eos_id=3) for i in starts]


def test_scores_are_means_over_tokens_not_over_batches() -> None:
    model = make_model().eval()
    total, n_correct, n = 0.0, 0, 0
    for batch in make_batches(1):
        log_p = model(batch.inputs[0], batch.inputs[1]).log_softmax(-1)[0]
        for t, target in enumerate(batch.targets[0][0].tolist()):
            total, n = total - log_p[t, target].item(), n + 1
            n_correct += int(log_p[t].argmax()) == target
    for n_pairs in (1, 2, 4):
        result = validate(model, make_batches(n_pairs), CPU)
        assert result.loss == pytest.approx(total / n, rel=1e-5)
        assert result.accuracy == pytest.approx(n_correct / n)


def test_uniform_model_has_the_loss_of_a_guess() -> None:
    model = make_model()
    torch.nn.init.zeros_(model.output_weight)
    result = validate(model, make_batches(2), CPU)
    assert result.loss == pytest.approx(log(11))


@pytest.mark.parametrize("training", [True, False])
def test_dropout_is_off_during_validation_and_the_mode_is_restored(training: bool) -> None:
    model = make_model(dropout=0.5).train(training)
    assert validate(model, make_batches(2), CPU) == validate(model, make_batches(2), CPU)
    assert all(module.training == training for module in model.modules())


def test_mode_is_restored_after_an_error() -> None:
    def broken() -> Iterator[Batch]:
        yield make_batches(1)[0]
        raise OSError("the disk is gone")

    model = make_model().train()
    with pytest.raises(OSError, match="the disk is gone"):
        validate(model, broken(), CPU)
    assert model.training


def test_validation_leaves_no_gradients_and_draws_no_random_numbers() -> None:
    model = make_model(dropout=0.5).train()
    before = torch.get_rng_state()
    validate(model, make_batches(2), CPU)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(p.grad is None for p in model.parameters())


def test_training_continues_after_validating_on_a_longer_text() -> None:
    model = make_model(dropout=0.1).train()
    long = collate_pairs([([5] * 400, [6] * 400)], pad_id=0, bos_id=2, eos_id=3)
    validate(model, [long], CPU)
    model(long.inputs[0], long.inputs[1]).sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in model.parameters())


def test_an_empty_set_has_no_scores() -> None:
    assert score_terms(make_model(), [], CPU) == {}
