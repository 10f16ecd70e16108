"""The formulas of every architecture count what it computes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from regard.models import ARCHITECTURES, ModelSpec

from .conftest import CLASSIFIERS, CONFIGS, IMAGE_CLASSIFIERS, LANGUAGE_MODELS, VOCAB

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
    n_patches = 12 * 18 // ARCHITECTURES[name].config(**config).patch_of(12, 18) ** 2
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
        assert [model.cost(n, n)[1:] for n in (16, 64)] == rows, name


@pytest.mark.parametrize(("n", "path"), [(8, 3), (32, 5), (33, 6), (63, 10), (64, None)])
def test_paths_of_dilated_convolutions_grow_with_the_logarithm(n: int, path: int | None) -> None:
    config = ARCHITECTURES["bytenet"].presets["tiny"]  # dilations 1 to 16, twice
    sizes = {"n_src_symbols": VOCAB, "n_tgt_symbols": VOCAB, "pad_id": 0}
    assert ModelSpec("translation", "bytenet", config, sizes).build().cost(n, 8).path == path
