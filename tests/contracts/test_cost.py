"""The formulas of every architecture count what it computes."""

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from regard.data import NO_TARGET, Batch, Place, collate_pairs, collate_texts
from regard.models import ARCHITECTURES, ModelSpec
from regard.models.vit import patch_side
from regard.nn.cross_entropy import CrossEntropySums
from regard.training.objectives import term_sums

from .conftest import CLASSIFIERS, CONFIGS, IMAGE_CLASSIFIERS, LANGUAGE_MODELS, PRETRAINED, VOCAB

pytestmark = pytest.mark.filterwarnings("ignore:TF32 acceleration")  # of `torch.backends.mkldnn.flags`
LENGTHS = [(1, 1), (9, 4), (2, 11)]


def counted_flops(model: nn.Module, *inputs: Tensor) -> int:
    """Those of the products that PyTorch carries out. It counts none in an LSTM by oneDNN."""
    with torch.backends.mkldnn.flags(enabled=False), FlopCounterMode(display=False) as counter:
        model(*inputs)
    return int(counter.get_total_flops())


def additive_scores(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The function of this name, with the product by v as a product of matrices, which PyTorch counts."""
    hidden = torch.tanh(q.unsqueeze(-2) + k.unsqueeze(-3))  # (B, H, T, S, K)
    return (hidden @ v[:, None, :, None]).squeeze(-1)


@pytest.mark.parametrize("lengths", LENGTHS)
def test_flops_of_a_translator(
    make_model: Callable[..., nn.Module], lengths: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("nn.attention", "models.recurrent"):
        monkeypatch.setattr(f"regard.{module}.additive_scores", additive_scores)
    model = make_model(n_symbols=50).eval()
    inputs = [torch.full((1, n), 5) for n in lengths]
    assert model.cost(*lengths).flops == counted_flops(model, *inputs)


@pytest.mark.parametrize(
    ("name", "config"), [(name, config) for name, configs in CLASSIFIERS.items() for config in configs]
)
def test_flops_of_a_classifier(name: str, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.models.recurrent.additive_scores", additive_scores)
    sizes = {"n_symbols": VOCAB, "n_classes": 3, "n_segments": 1, "pad_id": 0}
    model = ModelSpec("classification", name, ARCHITECTURES[name].config(**config), sizes).build().eval()
    ids = torch.full((1, 13), 5)
    assert model.cost(13).flops == counted_flops(model, ids, torch.zeros_like(ids))


@pytest.mark.parametrize(
    ("name", "config"), [(name, config) for name, configs in LANGUAGE_MODELS.items() for config in configs]
)
def test_flops_of_a_language_model(name: str, config: dict[str, Any]) -> None:
    sizes = {"n_symbols": VOCAB, "segment": 8, "pad_id": 0}
    model = ModelSpec("language", name, ARCHITECTURES[name].config(**config), sizes).build().eval()
    for length in (7, 16, 18):
        assert model.cost(length).flops == counted_flops(model, torch.full((1, length), 5))


@pytest.mark.parametrize(
    ("name", "config"), [(name, config) for name, configs in IMAGE_CLASSIFIERS.items() for config in configs]
)
def test_flops_of_a_classifier_of_images(name: str, config: dict[str, Any]) -> None:
    sizes = {"n_classes": 3, "height": 12, "width": 18, "n_channels": 3}
    model = ModelSpec("images", name, ARCHITECTURES[name].config(**config), sizes).build().eval()
    n_patches = 12 * 18 // patch_side(ARCHITECTURES[name].config(**config), 12, 18) ** 2
    assert model.cost(n_patches).flops == counted_flops(model, torch.randn(1, 3, 12, 18))


def test_a_plain_neural_gpu() -> None:
    config = ARCHITECTURES["neural-gpu"].config(form="plain", d_model=16, n_rows=2, n_sets=3)
    sizes = {"n_src_symbols": VOCAB, "n_tgt_symbols": VOCAB, "pad_id": 0}
    model = ModelSpec("translation", "neural-gpu", config, sizes).build().eval()
    ids = torch.full((1, 6), 5)
    assert model.cost(6, 6).flops == counted_flops(model, ids, ids)


def test_table_1_of_the_architectures() -> None:
    """Sequential operations and path of two lengths: constant, linear or logarithmic."""
    expected = {
        "transformer": [(4, 1), (4, 1)],
        "lstm": [(32, 32), (128, 128)],
        "convs2s": [(4, None), (4, None)],
        "bytenet": [(6, None), (6, None)],
        "neural-gpu": [(32, 8), (128, 32)],
    }
    for name, rows in expected.items():
        config = ARCHITECTURES[name].config(**CONFIGS[name][0])
        sizes = {"n_src_symbols": VOCAB, "n_tgt_symbols": VOCAB, "pad_id": 0}
        model = ModelSpec("translation", name, config, sizes).build()
        assert [model.cost(n, n)[1:3] for n in (16, 64)] == rows, name


@pytest.mark.parametrize(("n", "path"), [(8, 3), (32, 5), (33, 6), (63, 10), (64, None)])
def test_paths_of_dilated_convolutions_grow_with_the_logarithm(n: int, path: int | None) -> None:
    config = ARCHITECTURES["bytenet"].presets["tiny"]  # dilations 1 to 16, twice
    sizes = {"n_src_symbols": VOCAB, "n_tgt_symbols": VOCAB, "pad_id": 0}
    assert ModelSpec("translation", "bytenet", config, sizes).build().cost(n, 8).path == path


def plain_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    smoothing: float = 0.0,
    agreement: float = 0.0,
    bias: Tensor | None = None,
) -> CrossEntropySums:
    """`linear_cross_entropy` in operations that PyTorch counts."""
    logits = F.linear(hidden.flatten(0, -2), weight, bias)
    loss = F.cross_entropy(logits, targets.repeat(len(logits) // len(targets)), reduction="sum")
    return CrossEntropySums(loss, loss.detach(), loss.detach())


def random_config(name: str, task: str, rng: Random) -> Any:
    """Other sizes for one of the configs of the contract tests."""
    tables = {"translation": CONFIGS, "classification": CLASSIFIERS, "images": IMAGE_CLASSIFIERS}
    known = {**tables, "language": LANGUAGE_MODELS, "pretraining": PRETRAINED}.get(task, {}).get(name, [{}])
    config = dict(rng.choice(known))
    sizes = {"d_model": 16 * rng.randint(1, 6), "d_ff": 8 * rng.randint(4, 24), "n_encoder_layers": rng.randint(1, 3)}
    sizes |= {"n_layers": rng.randint(1, 3), "n_decoder_layers": rng.randint(1, 3), "n_hops": rng.randint(1, 4)}
    config_type = ARCHITECTURES[name].config
    return config_type(**(config | {key: n for key, n in sizes.items() if key in config_type.model_fields}))


def random_batch(config: Any, task: str, rng: Random) -> tuple[dict[str, int], Batch, tuple[int, ...]]:
    """Sizes for a model, a batch of examples of equal length, and what `cost` is asked for."""
    n_rows = 64 if hasattr(config, "memory") else 16  # relative distances are computed once per batch
    s, t, n_symbols = rng.randint(8, 24), rng.randint(8, 24), rng.randint(40, 300)
    pairs = [([5] * (s - 1), [6] * (t - 1)) for _ in range(n_rows)]
    special = {"pad_id": 0, "bos_id": 2, "eos_id": 3}
    if task == "translation":
        sizes = {"n_src_symbols": n_symbols, "n_tgt_symbols": n_symbols, "pad_id": 0}
        return sizes, collate_pairs(pairs, **special), (s, t)
    if task == "classification":
        sizes = {"n_symbols": n_symbols, "n_classes": 3, "n_segments": 1, "pad_id": 0}
        return sizes, collate_texts([[source] for source, _ in pairs], np.zeros(n_rows, np.int64), **special), (s + 1,)
    indices, place = np.arange(n_rows), Place(step=1)
    if task == "images":
        pixels, classes = torch.rand(n_rows, 1, 24, 24), torch.zeros(n_rows, dtype=torch.int64)
        sizes = {"n_classes": 3, "height": 24, "width": 24, "n_channels": 1}
        return sizes, Batch((pixels,), (classes,), (n_rows,), place, indices), ()
    if task == "language":
        ids = torch.full((n_rows, s), 5)
        sizes = {"n_symbols": n_symbols, "segment": rng.randint(4, 24), "pad_id": 0}
        return sizes, Batch((ids,), (ids,), (ids.numel(),), place, indices), (s,)
    assert task == "pretraining"
    length = 20 * rng.randint(1, 3)
    n_asked = round(config.masking.share * length)
    words = torch.full((n_rows, length), NO_TARGET)
    words[:, 1 : 1 + n_asked] = 7
    inputs = (torch.full((n_rows, length), 5), torch.zeros(n_rows, length, dtype=torch.int64))
    inputs += (torch.full((n_rows, length), 0.5),)  # type: ignore[assignment]
    if memory := getattr(config, "memory", 0):
        inputs += (torch.full((n_rows, memory), 5),)  # type: ignore[assignment]
    classes = torch.zeros(n_rows, dtype=torch.int64)
    targets = (words, classes) if "next" in config.asks else (words,)
    batch = Batch(inputs, targets, (n_rows * n_asked, n_rows), place, indices)
    return {"n_symbols": n_symbols, "n_segments": 2, "pad_id": 0}, batch, (length,)


TRAINED = [
    (name, task) for name, entry in ARCHITECTURES.items() for task in entry.models if task != "answering"
]  # the memory network has hardly any products: tests/models/test_memory_network.py


@pytest.mark.parametrize("number", range(max(20, len(TRAINED))))
def test_flops_of_training_a_random_model(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward and backward, with the real objective, within 1% of what PyTorch counts."""
    name, task = TRAINED[number % len(TRAINED)]
    rng = Random(number)
    monkeypatch.setattr("regard.training.objectives.linear_cross_entropy", plain_cross_entropy)
    for module in ("nn.attention", "models.recurrent"):
        monkeypatch.setattr(f"regard.{module}.additive_scores", additive_scores)
    config = random_config(name, task, rng)
    sizes, batch, lengths = random_batch(config, task, rng)
    model = ModelSpec(task, name, config, sizes).build()
    with torch.backends.mkldnn.flags(enabled=False), FlopCounterMode(display=False) as counter:
        sum(sums.loss for sums in term_sums(model, batch)).backward()  # type: ignore[union-attr]
    n_examples = len(batch.indices)
    lengths = model.cost_lengths or lengths
    assert n_examples * model.cost(*lengths).training_flops == pytest.approx(counter.get_total_flops(), rel=0.01)
