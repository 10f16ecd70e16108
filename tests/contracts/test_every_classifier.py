"""What training, predicting and saving need of every architecture that classifies texts, in CLASSIFIERS."""

from collections.abc import Callable
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.artifact import load_model, save_model
from regard.data import Batch, Place, collate_texts
from regard.models import ARCHITECTURES, ClassificationModel, ModelSpec, load_weights, named_weights
from regard.nn import Trace
from regard.text import TokenizerPair
from regard.training.objectives import term_sums

from .conftest import CLASSIFIERS, PAD_ID, VOCAB

Entry = tuple[str, dict[str, Any]]
Maker = Callable[..., ClassificationModel]
CLOSE = {"atol": 2e-5, "rtol": 1e-4}
N_CLASSES = 3
IDS = {"pad_id": PAD_ID, "bos_id": 2, "eos_id": 3}


@pytest.fixture
def make(entry: Entry) -> Maker:
    """Builds the classifier of the entry, for pairs of texts."""

    def build(seed: int = 1, n_symbols: int = VOCAB, **changes: Any) -> Any:
        torch.manual_seed(seed)
        config = ARCHITECTURES[entry[0]].config(**(entry[1] | changes))
        sizes = {"n_symbols": n_symbols, "n_classes": N_CLASSES, "n_segments": 2, "pad_id": PAD_ID}
        return ModelSpec("classification", entry[0], config, sizes).build()

    return build


def make_batch(seed: int = 1) -> Batch:
    """Random pairs of texts of different lengths, with classes."""
    rng = np.random.default_rng(seed)
    lengths = [(6, 2), (3, 1), (1, 0), (9, 7), (4, 4), (2, 5)]
    examples = [[rng.integers(4, VOCAB, a), rng.integers(4, VOCAB, b)] for a, b in lengths]
    return collate_texts(examples, np.arange(len(lengths)) % N_CLASSES, **IDS)


def test_every_architecture_that_classifies_has_configs_to_test() -> None:
    assert CLASSIFIERS.keys() == {name for name, entry in ARCHITECTURES.items() if "classification" in entry.models}
    assert all(CLASSIFIERS.values())


def test_alone_equals_in_a_batch(make: Maker) -> None:
    model, batch = make().eval(), make_batch()
    together = model(*batch.inputs)
    assert together.shape == (6, N_CLASSES)
    for row, (ids, segments) in enumerate(zip(*batch.inputs, strict=True)):
        is_text = ids != PAD_ID
        torch.testing.assert_close(together[row : row + 1], model(ids[is_text][None], segments[is_text][None]), **CLOSE)


def test_every_word_and_the_segments_count(make: Maker) -> None:
    """Each text has an influence; the second of a pair differs from a continuation of the first."""
    model, (ids, segments) = make().eval(), make_batch().inputs
    before, other = model(ids, segments), torch.where(ids >= 4, 4 + (ids - 3) % (VOCAB - 4), ids)
    for part in (0, 1):
        changed = model(torch.where(segments == part, other, ids), segments)
        assert not torch.allclose(changed[3], before[3], atol=1e-6)
    assert not torch.allclose(model(ids, torch.zeros_like(segments))[3], before[3], atol=1e-6)


def test_tracing_changes_nothing_and_shows_the_embeddings_once(make: Maker) -> None:
    model, batch, trace = make().eval(), make_batch(), Trace()
    torch.testing.assert_close(model(*batch.inputs, trace=trace), model(*batch.inputs), **CLOSE)
    assert [site.axes for site in trace.sites("embedding")] == [("source", "unit")]
    assert [site.shape for site in trace.sites("logits")] == [(N_CLASSES,)]


def test_weights_depend_on_the_seed_only(make: Maker) -> None:
    first, again, other = (named_weights(make(seed)) for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def train(model: ClassificationModel, batch: Batch, steps: int) -> float:
    """Trains on one batch with Adam; returns the last loss per text."""
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
    model, batch = make().train(), make_batch()
    loss = train(model, batch, steps=100)
    p_correct, p_other = 0.9 + 0.1 / N_CLASSES, 0.1 / N_CLASSES
    minimum = -p_correct * log(p_correct) - (N_CLASSES - 1) * p_other * log(p_other)
    assert minimum - 1e-4 < loss < minimum + 0.02
    [sums] = term_sums(model.eval(), batch)
    assert int(sums.n_correct) == batch.n_targets[0]


def test_every_parameter_gets_a_gradient(make: Maker) -> None:
    model, batch = make().train(), make_batch()
    term_sums(model, batch)[0].loss.backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not bool(p.grad.any())] == []


def test_layers_for_learning_rates_are_parts_of_the_model(make: Maker) -> None:
    model = make()
    names = [f"{name}." for name, _ in model.named_parameters()]
    for layer in (*model.config.layers, *model.own_parts):
        assert any(name.startswith(f"{layer}.") for name in names), layer


def test_weights_without_those_of_the_classes_can_be_copied(make: Maker) -> None:
    parent, model = make(1), make(2)
    kept = model.output.weight.clone()
    load_weights(model, named_weights(parent), except_for=model.own_parts)
    ids, segments = make_batch().inputs
    assert torch.equal(model.output.weight, kept)
    assert torch.equal(model.eval().features(ids, segments), parent.eval().features(ids, segments))


def test_a_reloaded_model_gives_equal_logits(
    make: Maker, entry: Entry, tokenizers: TokenizerPair, tmp_path: Path
) -> None:
    model = make(n_symbols=tokenizers.source.size).eval()
    sizes = {"n_symbols": tokenizers.source.size, "n_classes": N_CLASSES, "n_segments": 2, "pad_id": PAD_ID}
    save_model(
        tmp_path / "model",
        spec=ModelSpec("classification", entry[0], model.config, sizes),
        weights=named_weights(model),
        assets=tokenizers.files(),
        facts={},
        card="# A model\n",
    )
    loaded = load_model(tmp_path / "model").model
    assert torch.equal(loaded(*make_batch().inputs), model(*make_batch().inputs))


def test_a_batch_without_classes_has_no_loss(make: Maker) -> None:
    batch = collate_texts([[[5, 6], []], [[7], [8, 9]]], **IDS, place=Place(step=1))
    assert batch.n_targets == (0,)
    [sums] = term_sums(make(), batch)
    assert (sums.n_targets, float(sums.loss.detach())) == (0, 0.0)
