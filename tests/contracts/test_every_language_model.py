"""What training, continuing and saving need of every architecture that models language, in LANGUAGE_MODELS."""

from collections.abc import Callable
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.artifact import load_model, save_model
from regard.data import NO_TARGET, Batch, Place
from regard.models import ARCHITECTURES, LanguageModel, ModelSpec, load_weights, named_weights
from regard.nn import Trace
from regard.text import TokenizerPair
from regard.training.objectives import term_sums

from .conftest import LANGUAGE_MODELS, PAD_ID, VOCAB

Entry = tuple[str, dict[str, Any]]
Maker = Callable[..., LanguageModel]
CLOSE = {"atol": 2e-5, "rtol": 1e-4}
SEGMENT = 8


@pytest.fixture
def make(entry: Entry) -> Maker:
    """Builds the language model of the entry."""

    def build(seed: int = 1, n_symbols: int = VOCAB, segment: int = SEGMENT, **changes: Any) -> Any:
        torch.manual_seed(seed)
        config = ARCHITECTURES[entry[0]].config(**(entry[1] | changes))
        sizes = {"n_symbols": n_symbols, "segment": segment, "pad_id": PAD_ID}
        return ModelSpec("language", entry[0], config, sizes).build()

    return build


def random_ids(n_rows: int = 3, length: int = SEGMENT, seed: int = 1) -> Tensor:
    return torch.randint(3, VOCAB, (n_rows, length), generator=torch.Generator().manual_seed(seed))


def make_batch(n_segments: int = 2, seed: int = 1) -> Batch:
    """Stretches of random text; the last one is shorter."""
    ids = random_ids(3, n_segments * SEGMENT + 1, seed)
    inputs, targets = ids[:, :-1].clone(), ids[:, 1:].clone()
    inputs[-1, -3:], targets[-1, -3:] = PAD_ID, NO_TARGET
    return Batch((inputs,), (targets,), (targets.numel() - 3,), Place(step=1), np.arange(3))


def test_every_architecture_that_models_language_has_configs_to_test() -> None:
    assert LANGUAGE_MODELS.keys() == {name for name, entry in ARCHITECTURES.items() if "language" in entry.models}
    assert all(LANGUAGE_MODELS.values())


def test_forward_equals_joined_steps(make: Maker) -> None:
    model, ids = make().eval(), random_ids()
    logits, state, steps = model(ids), model.start(len(ids), memory=SEGMENT), []
    for last in ids.unbind(1):
        log_p, state = model.step(last, state)
        steps.append(log_p)
    assert logits.shape == (3, SEGMENT, VOCAB)
    torch.testing.assert_close(torch.stack(steps, 1), logits.log_softmax(-1), **CLOSE)


def test_segments_with_enough_memory_equal_one_segment(make: Maker) -> None:
    model, ids = make().eval(), random_ids()
    state, parts = model.start(len(ids), memory=SEGMENT), []
    for segment in ids.split([3, 1, 4], 1):
        features, state = model.read(segment, state)
        parts.append(features)
    torch.testing.assert_close(torch.cat(parts, 1), model.features(ids), **CLOSE)


def test_without_memory_a_segment_is_read_like_the_first(make: Maker) -> None:
    model, ids, earlier = make().eval(), random_ids(length=3), random_ids(length=3, seed=2)
    _, state = model.read(earlier, model.start(3, memory=0))
    torch.testing.assert_close(model.read(ids, state)[0], model.features(ids), **CLOSE)


def test_memory_reaches_into_the_segment_before(make: Maker) -> None:
    model, ids, earlier = make().eval(), random_ids(length=3), random_ids(length=3, seed=2)
    _, state = model.read(earlier, model.start(3, memory=3))
    assert not torch.allclose(model.read(ids, state)[0], model.features(ids), atol=1e-3)


def test_a_text_may_be_longer_than_a_segment(make: Maker) -> None:
    model, ids = make().eval(), random_ids(2, 3 * SEGMENT + 1)
    assert model(ids).shape == (2, 3 * SEGMENT + 1, VOCAB)
    state = model.start(2)
    for last in ids.unbind(1):
        log_p, state = model.step(last, state)
        assert bool(log_p.isfinite().all())


def test_a_state_is_not_changed_by_what_is_read_after_it(make: Maker) -> None:
    model, ids = make().eval(), random_ids()
    _, state = model.read(ids[:, :4], model.start(3, memory=4))
    first, _ = model.read(ids[:, 4:], state)
    model.read(random_ids(seed=3)[:, 4:], state)
    assert torch.equal(model.read(ids[:, 4:], state)[0], first)


def test_no_gradient_goes_through_a_state(make: Maker) -> None:
    model, ids = make().train(), random_ids()
    _, state = model.read(ids[:, :4], model.start(3, memory=4))
    features, _ = model.read(ids[:, 4:], state)
    model.zero_grad()
    features.sum().backward()
    with torch.no_grad():
        _, detached = model.read(ids[:, :4], model.start(3, memory=4))
    gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    model.read(ids[:, 4:], detached)[0].sum().backward()
    again = [p.grad for p in model.parameters() if p.grad is not None]
    torch.testing.assert_close(gradients, again, **CLOSE)


def test_alone_equals_in_a_batch(make: Maker) -> None:
    model, [ids] = make().eval(), make_batch().inputs
    together = model(ids)
    for row, text in enumerate(ids):
        alone = text[text != PAD_ID][None]
        torch.testing.assert_close(together[row : row + 1, : alone.shape[1]], model(alone), **CLOSE)


def test_future_tokens_cannot_be_seen(make: Maker) -> None:
    model, ids = make().eval(), random_ids(2, 2 * SEGMENT)
    changed = ids.clone()
    changed[:, 5:] = 3 + (changed[:, 5:] - 2) % (VOCAB - 3)
    before, after = model(ids), model(changed)
    assert torch.equal(before[:, :5], after[:, :5])
    assert not torch.equal(before[:, 5:], after[:, 5:])


def test_a_selected_state_continues_like_its_rows(make: Maker) -> None:
    model, ids, rows = make().eval(), random_ids(), torch.tensor([2, 0, 0, 1])
    _, state = model.read(ids[:, :4], model.start(3))
    _, expected_state = model.read(ids[rows, :4], model.start(4))
    log_p, _ = model.step(ids[rows, 4], state.select(rows))
    torch.testing.assert_close(log_p, model.step(ids[rows, 4], expected_state)[0], **CLOSE)


@pytest.mark.parametrize("length", [SEGMENT, 2 * SEGMENT])
def test_tracing_changes_nothing_and_shows_the_embeddings(make: Maker, length: int) -> None:
    model, ids, trace = make().eval(), random_ids(length=length), Trace()
    torch.testing.assert_close(model(ids, trace), model(ids), **CLOSE)
    assert [site.axes for site in trace.sites("embedding")] == [("source", "unit")]
    assert [site.shape for site in trace.sites("logits")] == [(SEGMENT, VOCAB)]


def test_weights_depend_on_the_seed_only(make: Maker) -> None:
    first, again, other = (named_weights(make(seed)) for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def train(model: LanguageModel, batch: Batch, steps: int) -> float:
    """Trains on one batch with Adam; returns the last loss per token."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.98))
    for _ in range(steps):
        optimizer.zero_grad()
        [sums] = term_sums(model, batch, smoothing=0.1)
        (sums.loss / sums.n_targets).backward()
        optimizer.step()
    return sums.loss.item() / sums.n_targets


def test_training_is_deterministic_for_a_seed(make: Maker) -> None:
    trained = []
    for _ in range(2):
        model = make(seed=5, dropout=0.2).train()
        train(model, make_batch(), steps=5)
        trained.append(named_weights(model))
    assert all(torch.equal(trained[0][name], trained[1][name]) for name in trained[0])


def test_one_batch_can_be_overfitted_to_the_minimum_of_the_smoothed_loss(make: Maker) -> None:
    model, batch = make().train(), make_batch(n_segments=1)
    batch.inputs[0][:, 0] = torch.arange(3, 6)  # rows that begin differently can be told apart
    loss = train(model, batch, steps=200)
    p_correct, p_other = 0.9 + 0.1 / VOCAB, 0.1 / VOCAB
    minimum = -p_correct * log(p_correct) - (VOCAB - 1) * p_other * log(p_other)
    assert minimum - 1e-4 < loss < minimum + 0.02
    [sums] = term_sums(model.eval(), batch)
    assert int(sums.n_correct) == batch.n_targets[0]


def test_every_parameter_gets_a_gradient(make: Maker) -> None:
    model, batch = make().train(), make_batch()
    term_sums(model, batch, smoothing=0.1)[0].loss.backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not bool(p.grad.any())] == []


def test_layers_for_learning_rates_are_parts_of_the_model(make: Maker) -> None:
    model = make()
    names = [f"{name}." for name, _ in model.named_parameters()]
    for layer in model.config.layers:
        assert any(name.startswith(f"{layer}.") for name in names), layer


def test_weights_can_be_copied(make: Maker) -> None:
    model, copy, ids = make(1).eval(), make(2).eval(), random_ids()
    load_weights(copy, named_weights(model))
    assert torch.equal(model(ids), copy(ids))


def test_a_reloaded_model_gives_equal_logits(
    make: Maker, entry: Entry, tokenizers: TokenizerPair, tmp_path: Path
) -> None:
    model = make(n_symbols=tokenizers.source.size).eval()
    sizes = {"n_symbols": tokenizers.source.size, "segment": SEGMENT, "pad_id": PAD_ID}
    save_model(
        tmp_path / "model",
        spec=ModelSpec("language", entry[0], model.config, sizes),
        weights=named_weights(model),
        assets=tokenizers.files(),
        facts={},
        card="# A model\n",
    )
    assert torch.equal(load_model(tmp_path / "model").model(random_ids()), model(random_ids()))
