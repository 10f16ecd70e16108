"""What training, decoding and saving rely on, for every architecture in MODELS."""

from collections.abc import Callable
from math import log
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.artifact import load_model, save_model
from regard.data import Batch, collate
from regard.models import MODELS, load_weights, named_weights
from regard.nn import Trace
from regard.text import TokenizerPair
from regard.training.objectives import cross_entropy

from .conftest import PAD_ID, SIZES, VOCAB

Maker = Callable[..., nn.Module]
CLOSE = {"atol": 2e-5, "rtol": 1e-4}


def make_batch(lengths: tuple[tuple[int, int], ...] = ((6, 5), (3, 7), (8, 2), (1, 1)), seed: int = 1) -> Batch:
    """Random pairs of these lengths."""
    generator = torch.Generator().manual_seed(seed)

    def ids(n: int) -> list[int]:
        return torch.randint(4, VOCAB, (n,), generator=generator).tolist()

    return collate([(ids(s), ids(t)) for s, t in lengths], pad_id=PAD_ID, bos_id=2, eos_id=3)


def real_rows(batch: Batch) -> list[tuple[Tensor, Tensor]]:
    """Each pair by itself, without padding."""
    return [
        (src[src != PAD_ID][None], tgt[tgt != PAD_ID][None]) for src, tgt in zip(batch.src, batch.tgt_in, strict=True)
    ]


def test_every_architecture_is_under_contract() -> None:
    assert SIZES.keys() == MODELS.keys()
    assert all(SIZES.values())


def test_forward_equals_joined_steps(make_model: Maker) -> None:
    model, batch = make_model().eval(), make_batch()
    logits = model(batch.src, batch.tgt_in)
    state, steps = model.start(model.encode(batch.src)), []
    for t in range(batch.tgt_in.shape[1]):
        log_p, state = model.step(batch.tgt_in[:, t], state)
        assert log_p.shape == (len(batch.src), VOCAB)
        steps.append(log_p)
    real = batch.tgt_in != PAD_ID
    torch.testing.assert_close(torch.stack(steps, 1)[real], logits.log_softmax(-1)[real], **CLOSE)


def test_forward_is_features_times_the_output_weight(make_model: Maker) -> None:
    model, batch = make_model().eval(), make_batch()
    features = model.features(batch.src, batch.tgt_in)
    torch.testing.assert_close(features @ model.output_weight.t(), model(batch.src, batch.tgt_in), **CLOSE)


def test_alone_equals_in_a_batch(make_model: Maker) -> None:
    model, batch = make_model().eval(), make_batch()
    together = model(batch.src, batch.tgt_in)
    for row, (src, tgt) in enumerate(real_rows(batch)):
        torch.testing.assert_close(together[row : row + 1, : tgt.shape[1]], model(src, tgt), **CLOSE)


def test_the_future_can_not_be_seen(make_model: Maker) -> None:
    model, batch = make_model().eval(), make_batch(((4, 6), (5, 6)))
    other = batch.tgt_in.clone()
    other[:, 4:] = 5 + (other[:, 4:] - 4) % (VOCAB - 5)
    before, after = model(batch.src, batch.tgt_in), model(batch.src, other)
    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.equal(before[:, 4:], after[:, 4:])


def test_a_selected_state_goes_on_as_its_rows_would(make_model: Maker) -> None:
    model, batch, rows = make_model().eval(), make_batch(), torch.tensor([2, 0, 0, 3, 1])
    _, state = model.step(batch.tgt_in[:, 0], model.start(model.encode(batch.src)))
    _, alone = model.step(batch.tgt_in[rows, 0], model.start(model.encode(batch.src).select(rows)))
    found, _ = model.step(batch.tgt_in[rows, 1], state.select(rows))
    expected, _ = model.step(batch.tgt_in[rows, 1], alone)
    torch.testing.assert_close(found, expected, **CLOSE)


def test_looking_inside_changes_no_output_and_finds_something(make_model: Maker) -> None:
    model, batch, trace = make_model().eval(), make_batch(), Trace()
    torch.testing.assert_close(model(batch.src, batch.tgt_in, trace=trace), model(batch.src, batch.tgt_in), **CLOSE)
    assert {"logits"} < set(trace)


def test_the_same_seed_gives_the_same_weights_twice_and_another_one_others(make_model: Maker) -> None:
    once, again, other = (named_weights(make_model(seed)) for seed in (1, 1, 2))
    assert once.keys() == again.keys() == other.keys()
    assert all(torch.equal(once[name], again[name]) for name in once)
    assert not all(torch.equal(once[name], other[name]) for name in once)


def train(model: nn.Module, batch: Batch, steps: int) -> float:
    """Adam on one batch; the last loss of a symbol."""
    objective, optimiser = cross_entropy(0.1), torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.98))
    for _ in range(steps):
        optimiser.zero_grad()
        outcome = objective(model, batch)
        (outcome.loss / outcome.n_tokens).backward()
        optimiser.step()
    return outcome.loss.item() / outcome.n_tokens


def test_the_same_seed_gives_the_same_training_twice(make_model: Maker) -> None:
    trained = []
    for _ in range(2):
        model = make_model(seed=5, dropout=0.2).train()
        train(model, make_batch(), steps=5)
        trained.append(named_weights(model))
    assert all(torch.equal(trained[0][name], trained[1][name]) for name in trained[0])


def test_one_batch_can_be_overfitted_to_the_floor_of_label_smoothing(make_model: Maker) -> None:
    model, batch = make_model().train(), make_batch()
    loss = train(model, batch, steps=200)
    right, wrong = 0.9 + 0.1 / VOCAB, 0.1 / VOCAB
    floor = -right * log(right) - (VOCAB - 1) * wrong * log(wrong)  # entropy of the smoothed answer
    assert floor - 1e-4 < loss < floor + 0.02
    outcome = cross_entropy()(model.eval(), batch)
    assert int(outcome.n_correct) == batch.n_tokens


def test_every_parameter_learns(make_model: Maker) -> None:
    model, batch = make_model().train(), make_batch()
    cross_entropy(0.1)(model, batch).loss.backward()
    idle = [name for name, p in model.named_parameters() if p.grad is None or not bool(p.grad.any())]
    assert idle == []


def test_reload_gives_equal_logits(
    make_model: Maker, entry: tuple[str, dict[str, Any]], tokenizers: TokenizerPair, tmp_path: Path
) -> None:
    model = make_model(n_symbols=tokenizers.source.size).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    save_model(
        tmp_path / "model",
        architecture=entry[0],
        config=model.config,
        weights=named_weights(model),
        tokenizers=tokenizers,
        facts={},
        card="# A model\n",
    )
    loaded, batch = load_model(tmp_path / "model"), make_batch()
    assert loaded.architecture == entry[0]
    assert loaded.config == model.config
    assert not loaded.model.training
    assert torch.equal(loaded.model(batch.src, batch.tgt_in), model(batch.src, batch.tgt_in))


def test_weights_move_between_two_models_of_one_form(make_model: Maker) -> None:
    one, other, batch = make_model(1).eval(), make_model(2).eval(), make_batch()
    load_weights(other, named_weights(one))
    assert torch.equal(one(batch.src, batch.tgt_in), other(batch.src, batch.tgt_in))


@pytest.mark.parametrize("n_src", [1, 40])
def test_any_length_of_source_goes_with_any_length_of_target(make_model: Maker, n_src: int) -> None:
    model = make_model().eval()
    out = model(torch.full((1, n_src), 5), torch.full((1, 41 - n_src), 6))
    assert out.shape == (1, 41 - n_src, VOCAB)
    assert bool(out.isfinite().all())
