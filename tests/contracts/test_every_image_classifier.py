"""What training, predicting and saving need of every architecture that classifies images, in IMAGE_CLASSIFIERS."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.artifact import load_model, save_model
from regard.data import Batch, image_batch
from regard.models import ARCHITECTURES, ClassificationModel, ModelSpec, load_weights, named_weights
from regard.nn import Trace
from regard.training.objectives import term_sums

from .conftest import IMAGE_CLASSIFIERS

Entry = tuple[str, dict[str, Any]]
Maker = Callable[..., ClassificationModel]
CLOSE = {"atol": 2e-5, "rtol": 1e-4}
N_CLASSES = 3
SIZES = {"n_classes": N_CLASSES, "height": 12, "width": 18, "n_channels": 3}


@pytest.fixture
def make(entry: Entry) -> Maker:
    """Builds the classifier of the entry."""

    def build(seed: int = 1, **changes: Any) -> Any:
        torch.manual_seed(seed)
        return ModelSpec("images", entry[0], ARCHITECTURES[entry[0]].config(**(entry[1] | changes)), SIZES).build()

    return build


def make_batch() -> Batch:
    pixels = torch.randn(6, 3, 12, 18, generator=torch.Generator().manual_seed(1))
    return image_batch(pixels, [0, 1, 2, 0, 1, 2])


def train(model: ClassificationModel, batch: Batch, steps: int) -> float:
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.98))
    for _ in range(steps):
        optimizer.zero_grad()
        [sums] = term_sums(model, batch)
        (sums.loss / sums.n_targets).backward()
        optimizer.step()
    return sums.loss.item() / sums.n_targets


def test_every_architecture_for_images_has_configs_to_test() -> None:
    assert IMAGE_CLASSIFIERS.keys() == {name for name, entry in ARCHITECTURES.items() if "images" in entry.models}
    assert all(IMAGE_CLASSIFIERS.values())


def test_alone_equals_in_a_batch(make: Maker) -> None:
    model, [pixels] = make().eval(), make_batch().inputs
    together = model(pixels)
    assert together.shape == (6, N_CLASSES)
    torch.testing.assert_close(together, torch.cat([model(image[None]) for image in pixels]), **CLOSE)


def test_every_pixel_and_its_place_count(make: Maker) -> None:
    model, [pixels] = make().eval(), make_batch().inputs
    image = pixels[:1].clone().requires_grad_()
    model(image)[0, 0].backward()
    assert image.grad is not None and bool((image.grad != 0).all())
    assert not torch.allclose(model(pixels), model(pixels.roll(6, 3)), atol=1e-6)  # whole patches are moved


def test_tracing_changes_nothing_and_shows_the_embeddings_once(make: Maker) -> None:
    model, batch, trace = make().eval(), make_batch(), Trace()
    torch.testing.assert_close(model(*batch.inputs, trace=trace), model(*batch.inputs), **CLOSE)
    assert [site.axes for site in trace.sites("embedding")] == [("source", "unit")]
    assert [site.shape for site in trace.sites("logits")] == [(N_CLASSES,)]


def test_training_is_deterministic_for_a_seed(make: Maker) -> None:
    trained = []
    for seed in (5, 5, 6):
        model = make(seed=seed, dropout=0.2).train()
        train(model, make_batch(), steps=3)
        trained.append(named_weights(model))
    assert all(torch.equal(trained[0][name], trained[1][name]) for name in trained[0])
    assert not all(torch.equal(trained[0][name], trained[2][name]) for name in trained[0])


def test_one_batch_can_be_overfitted(make: Maker) -> None:
    model, batch = make().train(), make_batch()
    assert train(model, batch, steps=60) < 0.02
    assert int(term_sums(model.eval(), batch)[0].n_correct) == 6


def test_every_parameter_gets_a_gradient(make: Maker) -> None:
    model = make().train()
    term_sums(model, make_batch())[0].loss.backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not bool(p.grad.any())] == []


def test_layers_for_learning_rates_are_parts_of_the_model(make: Maker) -> None:
    model = make()
    names = [f"{name}." for name, _ in model.named_parameters()]
    for layer in (*model.config.layers, *model.own_parts):
        assert any(name.startswith(f"{layer}.") for name in names), layer


def test_weights_without_those_of_the_classes_can_be_copied(make: Maker) -> None:
    parent, model = make(1), make(2)
    kept, [pixels] = model.output.weight.clone(), make_batch().inputs
    load_weights(model, named_weights(parent), except_for=model.own_parts)
    assert torch.equal(model.output.weight, kept)
    assert torch.equal(model.eval().features(pixels), parent.eval().features(pixels))


def test_a_reloaded_model_gives_equal_logits(make: Maker, entry: Entry, tmp_path: Path) -> None:
    model, [pixels] = make().eval(), make_batch().inputs
    spec = ModelSpec("images", entry[0], model.config, SIZES)
    save_model(tmp_path / "model", spec=spec, weights=named_weights(model), assets={}, facts={}, card="# A model\n")
    assert torch.equal(load_model(tmp_path / "model").model(pixels), model(pixels))


def test_a_batch_without_classes_has_no_loss(make: Maker) -> None:
    batch = image_batch(make_batch().inputs[0])
    assert batch.n_targets == (0,)
    [sums] = term_sums(make(), batch)
    assert (sums.n_targets, float(sums.loss.detach())) == (0, 0.0)
