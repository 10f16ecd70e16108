"""The Vision Transformer against the equations of its paper, and what it shows."""

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.errors import RecipeError
from regard.models import ModelSpec
from regard.models.vit import Vit, VitConfig, patch_side
from regard.nn import Trace

SIZES = {"n_classes": 3, "height": 8, "width": 12, "n_channels": 3}


def make(**config: Any) -> Vit:
    torch.manual_seed(1)
    values = {"patch": 4, "n_layers": 2, "d_model": 8, "d_ff": 16, "n_heads": 2, "dropout": 0.0} | config
    model = ModelSpec("images", "vit", VitConfig(**values), SIZES).build()
    assert isinstance(model, Vit)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.double().eval()


def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return (x - x.mean()) / (x.var(correction=0) + 1e-5).sqrt() * weight + bias


def definition(model: Vit, image: Tensor) -> Tensor:
    """Equations 1 to 4, position by position: (C, H, W) → (n_classes,)."""
    w = {name: tensor.detach() for name, tensor in model.named_parameters()}
    patches = [image[:, i : i + 4, j : j + 4].flatten() for i in range(0, 8, 4) for j in range(0, 12, 4)]
    projected = [w["patches.project.weight"] @ patch + w["patches.project.bias"] for patch in patches]
    positions = w["patches.positions.table"]
    x = [vector + positions[i] for i, vector in enumerate([w["patches.class_token"], *projected])]
    for layer in range(2):
        p = f"encoder.{layer}."
        y = [norm(v, w[p + "residuals.0.norm.weight"], w[p + "residuals.0.norm.bias"]) for v in x]
        qkv = [w[p + "self_attention.qkv.weight"] @ v + w[p + "self_attention.qkv.bias"] for v in y]
        out = []
        for a in qkv:
            heads = []
            for head in (slice(0, 4), slice(4, 8)):
                weights = torch.stack([a[:8][head] @ b[8:16][head] / 2 for b in qkv]).softmax(0)
                heads.append(sum(weight * b[16:][head] for weight, b in zip(weights, qkv, strict=True)))
            joined = torch.cat(heads)
            out.append(w[p + "self_attention.out.weight"] @ joined + w[p + "self_attention.out.bias"])
        x = [v + added for v, added in zip(x, out, strict=True)]
        y = [norm(v, w[p + "residuals.1.norm.weight"], w[p + "residuals.1.norm.bias"]) for v in x]
        inner = [w[p + "feed_forward.inner.weight"] @ v + w[p + "feed_forward.inner.bias"] for v in y]
        gelu = [v * (1 + torch.erf(v / 2**0.5)) / 2 for v in inner]
        added = [w[p + "feed_forward.outer.weight"] @ v + w[p + "feed_forward.outer.bias"] for v in gelu]
        x = [v + a for v, a in zip(x, added, strict=True)]
    return w["output.weight"] @ norm(x[0], w["encoder_norm.weight"], w["encoder_norm.bias"]) + w["output.bias"]


def test_logits_are_those_of_the_equations() -> None:
    model = make()
    images = torch.randn(2, 3, 8, 12, dtype=torch.float64)
    for logits, image in zip(model(images), images, strict=True):
        torch.testing.assert_close(logits, definition(model, image), atol=1e-10, rtol=1e-8)


def test_the_patches_of_the_last_layer_are_shown_though_nothing_reads_them() -> None:
    model, trace = make(), Trace()
    model(torch.randn(1, 3, 8, 12, dtype=torch.float64), trace=trace)
    assert [site.shape for site in trace.sites("attention")] == [(2, 7, 7)] * 2
    assert trace["patches.filters"].shape == (1, 8, 48)


@pytest.mark.parametrize(
    ("side", "max_patches", "patch"),
    [
        ((28, 28), 64, 4),
        ((28, 28), 16, 7),
        ((32, 32), 64, 4),
        ((64, 64), 64, 8),
        ((224, 224), 64, 28),
        ((24, 36), 6, 12),
    ],
)
def test_patches_are_as_small_as_their_number_allows(side: tuple[int, int], max_patches: int, patch: int) -> None:
    assert patch_side(VitConfig(max_patches=max_patches), *side) == patch


def test_images_that_cannot_be_cut_are_refused() -> None:
    with pytest.raises(
        RecipeError, match=r"8 × 12 pixels cannot be cut into patches of 5 pixels; hint: sides of 1, 2, 4"
    ):
        make(patch=5)
    with pytest.raises(RecipeError, match="7 × 11 pixels cannot be cut into at most 16 patches"):
        patch_side(VitConfig(max_patches=16), 7, 11)
