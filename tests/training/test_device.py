"""Selecting the device and checking its precision."""

from collections.abc import Callable

import pytest
import torch

from regard.errors import RecipeError
from regard.training import Stop, Training, check_precision, fit, has_fast_bfloat16, select_device

Maker = Callable[..., Training]
CPU = torch.device("cpu")
FAST_HERE = has_fast_bfloat16(CPU)


def test_default_device_is_the_first_available_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for cuda, mps, expected in [(True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")]:
        monkeypatch.setattr(torch.cuda, "is_available", lambda available=cuda: available)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda available=mps: available)
        assert select_device().type == expected


def test_requested_device_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert select_device("cpu") == CPU
    assert select_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(RecipeError, match="device cuda:2 is not available"):
        select_device("cuda:2")


def test_unavailable_device_raises_with_the_available_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(RecipeError, match=r"device cuda is not available .*; hint: use one of: cpu$"):
        select_device("cuda")


@pytest.mark.parametrize("name", ["tpu", "", "cpu:x", "cpu:0:1"])
def test_unknown_device_name_raises_with_the_known_ones(name: str) -> None:
    with pytest.raises(RecipeError, match=r"unknown device .*cuda, mps, cpu"):
        select_device(name)


def test_bfloat16_is_refused_without_hardware_support(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    with pytest.raises(RecipeError, match=r"no fast bfloat16; hint: .*float32"):
        check_precision("bfloat16", CPU)
    check_precision("float32", CPU)


@pytest.mark.parametrize(("capability", "onednn"), [("AVX2", True), ("AVX512", False)])
def test_bfloat16_is_refused_where_pytorch_does_not_use_the_hardware_support(
    monkeypatch: pytest.MonkeyPatch, capability: str, onednn: bool
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: onednn)
    with pytest.raises(RecipeError, match="no fast bfloat16"):
        check_precision("bfloat16", CPU)


@pytest.mark.skipif(not FAST_HERE, reason="this CPU has no fast bfloat16")
def test_bfloat16_is_allowed_with_hardware_support() -> None:
    check_precision("bfloat16", CPU)


def test_training_in_bfloat16_learns_and_keeps_float32_weights(make_training: Maker) -> None:
    """Runs on every CPU, only slowly without hardware support."""
    losses = {}
    for precision in ("bfloat16", "float32"):
        training = make_training(precision, precision=precision, steps=30)
        losses[precision] = []
        fit(training, lambda event, p=precision, **f: event == "step" and losses[p].append(f["nll"]), Stop())
        assert {parameter.dtype for parameter in training.model.parameters()} == {torch.float32}
    assert losses["bfloat16"][-1] == pytest.approx(losses["float32"][-1], rel=0.05)
    assert losses["bfloat16"] != losses["float32"]
    assert losses["bfloat16"][-1] < 0.95 * losses["bfloat16"][0]
