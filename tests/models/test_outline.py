"""The outline of a model: names and shapes of its weights without memory, and without PyTorch's compiler."""

import subprocess
import sys

import pytest
import torch

from regard.models import ARCHITECTURES, ModelSpec

SIZES = {
    "translation": {"n_src_symbols": 19, "n_tgt_symbols": 19, "pad_id": 0},
    "classification": {"n_symbols": 19, "n_classes": 3, "pad_id": 0},
    "language": {"n_symbols": 19, "segment": 8},
    "pretraining": {"n_symbols": 19, "pad_id": 0},
    "answering": {"n_symbols": 19, "n_times": 5, "n_places": 6},
    "images": {"n_classes": 3, "height": 12, "width": 12, "n_channels": 1},
}
SPECS = [
    ModelSpec(task, name, next(iter(architecture.presets.values())), SIZES[task])
    for name, architecture in ARCHITECTURES.items()
    for task in architecture.models
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.task}-{spec.architecture}")
def test_outline_has_the_names_and_shapes_of_the_model(spec: ModelSpec) -> None:
    outline, model = spec.outline(), spec.build()
    assert {tensor.device.type for tensor in (*outline.parameters(), *outline.buffers())} == {"meta"}
    for ours, theirs in (
        (outline.state_dict(), model.state_dict()),
        (dict(outline.named_buffers()), dict(model.named_buffers())),
    ):
        assert {name: (it.shape, it.dtype) for name, it in ours.items()} == {
            name: (it.shape, it.dtype) for name, it in theirs.items()
        }


def test_random_state_is_not_touched() -> None:
    before = torch.get_rng_state()
    SPECS[0].outline()
    assert torch.equal(torch.get_rng_state(), before)


def test_compiler_of_pytorch_is_not_imported() -> None:
    code = (
        f"import runpy, sys; specs = runpy.run_path({__file__!r})['SPECS']; "
        "[spec.outline() for spec in specs if spec.architecture != 'memory-network']; "  # it computes weights of places
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
