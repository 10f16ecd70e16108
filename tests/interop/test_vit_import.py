"""An imported Vision Transformer is the same model: its logits and gradients equal those of transformers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from regard import load
from regard.artifact import load_model
from regard.errors import ArtifactError
from regard.interop.importing import import_model

SIZES = {
    "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 3, "intermediate_size": 40, "image_size": 12,
    "patch_size": 4, "num_channels": 3, "num_labels": 4, "layer_norm_eps": 1e-6,
}  # fmt: skip


def write_vit(path: Path, **changes: Any) -> transformers.ViTForImageClassification:
    """A random model as transformers writes it; its biases and norms are not those of a new one."""
    torch.manual_seed(3)
    names = {0: "cat", 1: "crane", 2: "dog", 3: "crane"}
    config = transformers.ViTConfig(**(SIZES | changes), id2label=names, label2id={})
    model = transformers.ViTForImageClassification(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(path)
    (path / "preprocessor_config.json").write_text('{"image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.25, 0.5]}')
    return model


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    path = tmp_path_factory.mktemp("vit") / "original"
    return path, write_vit(path)


@pytest.fixture(scope="module")
def ours(theirs: tuple[Path, Any]) -> Path:
    out = theirs[0].with_name("imported")
    import_model(theirs[0], out)
    return out


def test_logits_and_a_gradient_are_those_of_transformers(theirs: tuple[Path, Any], ours: Path) -> None:
    pixels = torch.randn(5, 3, 12, 12, generator=torch.Generator().manual_seed(1))
    model, expected = load_model(ours).model.train(), theirs[1]
    logits, expected_logits = model(pixels), expected(pixels).logits
    assert float((logits - expected_logits).detach().abs().max()) <= 1e-4
    classes = torch.tensor([0, 1, 2, 3, 1])
    for values in (logits, expected_logits):
        torch.nn.functional.cross_entropy(values, classes).backward()
    projection = expected.vit.embeddings.patch_embeddings.projection.weight.grad.flatten(1)
    torch.testing.assert_close(model.patches.project.weight.grad, projection, atol=1e-4, rtol=1e-4)
    positions = expected.vit.embeddings.position_embeddings.grad[0]
    torch.testing.assert_close(model.patches.positions.table.grad, positions, atol=1e-4, rtol=1e-4)


def test_predictions_have_its_labels_and_its_preprocessing(
    theirs: tuple[Path, Any], ours: Path, tmp_path: Path
) -> None:
    pixels = np.random.default_rng(2).integers(0, 256, (20, 16, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "image.png")
    [prediction] = load(ours).predict([tmp_path / "image.png"])
    assert list(prediction.to_dict()["probabilities"]) == ["cat", "crane (1)", "dog", "crane (3)"]
    scaled = Image.fromarray(pixels).resize((12, 12), Image.Resampling.BILINEAR)
    normalised = (np.asarray(scaled) / 255 - [0.4, 0.5, 0.6]) / [0.2, 0.25, 0.5]
    with torch.no_grad():
        logits = theirs[1](torch.from_numpy(normalised.transpose(2, 0, 1)[None]).float()).logits
    assert list(prediction.to_dict()["probabilities"].values()) == pytest.approx(
        logits.softmax(-1)[0].tolist(), abs=1e-4
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_act": "relu"}, "hidden_act = 'relu' has no counterpart"),
        ({"qkv_bias": False}, "qkv_bias = False has no counterpart"),
        ({"num_channels": 4}, "4 channels have no counterpart"),
        ({"hidden_size": 32}, "config.json"),
        ({"num_attention_heads": 5}, "must be a multiple of n_heads"),
        ({"num_hidden_layers": 999}, "has fewer layers"),
        ({"image_size": 10_000_000}, "positions"),
    ],
)
def test_what_cannot_be_imported_is_refused(
    theirs: tuple[Path, Any], tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    config = json.loads((theirs[0] / "config.json").read_text()) | changes
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes((theirs[0] / "model.safetensors").read_bytes())
    with pytest.raises(ArtifactError, match=message):
        import_model(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
