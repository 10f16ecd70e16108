"""What training, decoding and saving need of every architecture in ARCHITECTURES."""

from collections.abc import Callable
from math import log
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.artifact import load_model, save_model
from regard.data import Batch, collate_pairs
from regard.models import ARCHITECTURES, ModelSpec, load_weights, named_weights
from regard.nn import Trace
from regard.text import TokenizerPair
from regard.training.objectives import term_sums

from .conftest import CONFIGS, PAD_ID, VOCAB

Maker = Callable[..., nn.Module]
CLOSE = {"atol": 2e-5, "rtol": 1e-4}


def make_batch(lengths: tuple[tuple[int, int], ...] = ((6, 5), (3, 7), (8, 2), (1, 1)), seed: int = 1) -> Batch:
    """Random pairs of these lengths."""
    generator = torch.Generator().manual_seed(seed)

    def ids(n: int) -> list[int]:
        return torch.randint(4, VOCAB, (n,), generator=generator).tolist()

    return collate_pairs([(ids(s), ids(t)) for s, t in lengths], pad_id=PAD_ID, bos_id=2, eos_id=3)


def unpadded_pairs(batch: Batch) -> list[tuple[Tensor, Tensor]]:
    """Each pair without padding."""
    return [(src[src != PAD_ID][None], tgt[tgt != PAD_ID][None]) for src, tgt in zip(*batch.inputs, strict=True)]


def test_every_architecture_has_configs_to_test() -> None:
    assert CONFIGS.keys() == {name for name, entry in ARCHITECTURES.items() if "translation" in entry.models}
    assert all(CONFIGS.values())


def test_forward_equals_joined_steps(make_model: Maker) -> None:
    model, batch = make_model().eval(), make_batch()
    logits = model(batch.inputs[0], batch.inputs[1])
    state, steps = model.start(model.encode(batch.inputs[0])), []
    for t in range(batch.inputs[1].shape[1]):
        log_p, state = model.step(batch.inputs[1][:, t], state)
        assert log_p.shape == (len(batch.inputs[0]), VOCAB)
        steps.append(log_p)
    is_token = batch.inputs[1] != PAD_ID
    torch.testing.assert_close(torch.stack(steps, 1)[is_token], logits.log_softmax(-1)[is_token], **CLOSE)


def test_forward_is_features_times_the_output_weight(make_model: Maker) -> None:
    model, batch = make_model().eval(), make_batch()
    features = model.features(batch.inputs[0], batch.inputs[1])
    torch.testing.assert_close(model.logits(features), model(batch.inputs[0], batch.inputs[1]), **CLOSE)


def test_alone_equals_in_a_batch(make_model: Maker) -> None:
    model, batch = make_model().eval(), make_batch()
    together = model(batch.inputs[0], batch.inputs[1])
    for row, (src, tgt) in enumerate(unpadded_pairs(batch)):
        torch.testing.assert_close(together[row : row + 1, : tgt.shape[1]], model(src, tgt), **CLOSE)


def test_future_tokens_cannot_be_seen(make_model: Maker) -> None:
    model, batch = make_model().eval(), make_batch(((4, 6), (5, 6)))
    changed = batch.inputs[1].clone()
    changed[:, 4:] = 5 + (changed[:, 4:] - 4) % (VOCAB - 5)
    before, after = model(batch.inputs[0], batch.inputs[1]), model(batch.inputs[0], changed)
    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.equal(before[:, 4:], after[:, 4:])


def test_a_selected_state_continues_like_its_rows(make_model: Maker) -> None:
    model, batch, rows = make_model().eval(), make_batch(), torch.tensor([2, 0, 0, 3, 1])
    _, state = model.step(batch.inputs[1][:, 0], model.start(model.encode(batch.inputs[0])))
    _, expected_state = model.step(batch.inputs[1][rows, 0], model.start(model.encode(batch.inputs[0]).select(rows)))
    log_probs, _ = model.step(batch.inputs[1][rows, 1], state.select(rows))
    expected, _ = model.step(batch.inputs[1][rows, 1], expected_state)
    torch.testing.assert_close(log_probs, expected, **CLOSE)


def test_tracing_changes_no_output_and_records_something(make_model: Maker) -> None:
    model, batch, trace = make_model().eval(), make_batch(), Trace()
    torch.testing.assert_close(
        model(batch.inputs[0], batch.inputs[1], trace=trace), model(batch.inputs[0], batch.inputs[1]), **CLOSE
    )
    assert {"logits"} < set(trace)


def test_weights_depend_on_the_seed_only(make_model: Maker) -> None:
    first, again, other_seed = (named_weights(make_model(seed)) for seed in (1, 1, 2))
    assert first.keys() == again.keys() == other_seed.keys()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other_seed[name]) for name in first)


def train(model: nn.Module, batch: Batch, steps: int) -> float:
    """Trains on one batch with Adam; returns the last loss per token."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.98))
    for _ in range(steps):
        optimizer.zero_grad()
        [loss_sums] = term_sums(model, batch, smoothing=0.1)
        (loss_sums.loss / loss_sums.n_targets).backward()
        optimizer.step()
    return loss_sums.loss.item() / loss_sums.n_targets


def test_training_is_deterministic_for_a_seed(make_model: Maker) -> None:
    trained = []
    for _ in range(2):
        model = make_model(seed=5, dropout=0.2).train()
        train(model, make_batch(), steps=5)
        trained.append(named_weights(model))
    assert all(torch.equal(trained[0][name], trained[1][name]) for name in trained[0])


def test_one_batch_can_be_overfitted_to_the_minimum_of_the_smoothed_loss(make_model: Maker) -> None:
    model, batch = make_model().train(), make_batch()
    loss = train(model, batch, steps=200)
    p_correct, p_other = 0.9 + 0.1 / VOCAB, 0.1 / VOCAB
    minimum = -p_correct * log(p_correct) - (VOCAB - 1) * p_other * log(p_other)  # entropy of the smoothed target
    assert minimum - 1e-4 < loss < minimum + 0.02
    [loss_sums] = term_sums(model.eval(), batch)
    assert int(loss_sums.n_correct) == batch.n_targets[0]


def test_every_parameter_gets_a_gradient(make_model: Maker) -> None:
    model, batch = make_model().train(), make_batch()
    term_sums(model, batch, smoothing=0.1)[0].loss.backward()
    without_gradient = [name for name, p in model.named_parameters() if p.grad is None or not bool(p.grad.any())]
    assert without_gradient == []


def test_a_reloaded_model_gives_equal_logits(
    make_model: Maker, entry: tuple[str, dict[str, Any]], tokenizers: TokenizerPair, tmp_path: Path
) -> None:
    model = make_model(n_symbols=tokenizers.source.size).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    save_model(
        tmp_path / "model",
        spec=ModelSpec("translation", entry[0], model.config, tokenizers.sizes),
        weights=named_weights(model),
        assets=tokenizers.files(),
        facts={},
        card="# A model\n",
    )
    loaded, batch = load_model(tmp_path / "model"), make_batch()
    assert loaded.architecture == entry[0]
    assert loaded.config == model.config
    assert not loaded.model.training
    assert torch.equal(loaded.model(batch.inputs[0], batch.inputs[1]), model(batch.inputs[0], batch.inputs[1]))


def test_weights_can_be_copied_to_a_model_of_the_same_config(make_model: Maker) -> None:
    model, copy, batch = make_model(1).eval(), make_model(2).eval(), make_batch()
    load_weights(copy, named_weights(model))
    assert torch.equal(model(batch.inputs[0], batch.inputs[1]), copy(batch.inputs[0], batch.inputs[1]))


@pytest.mark.parametrize("n_src", [1, 40])
def test_source_and_target_may_have_any_lengths(make_model: Maker, n_src: int) -> None:
    model = make_model().eval()
    out = model(torch.full((1, n_src), 5), torch.full((1, 41 - n_src), 6))
    assert out.shape == (1, 41 - n_src, VOCAB)
    assert bool(out.isfinite().all())
