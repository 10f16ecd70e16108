"""Which processor, at what precision."""

from collections.abc import Callable

import pytest
import torch

from regard.errors import RecipeError
from regard.training import Stop, Training, check_precision, choose_device, fit, has_fast_bfloat16

Maker = Callable[..., Training]
CPU = torch.device("cpu")
FAST_HERE = has_fast_bfloat16(CPU)


def test_the_fastest_that_is_there_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    for cuda, mps, chosen in [(True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")]:
        monkeypatch.setattr(torch.cuda, "is_available", lambda found=cuda: found)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda found=mps: found)
        assert choose_device().type == chosen


def test_one_that_is_asked_for_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device("cpu") == CPU
    assert choose_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(RecipeError, match="no cuda:2"):
        choose_device("cuda:2")


def test_one_that_is_not_there_is_refused_with_those_that_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(RecipeError, match=r"no cuda that torch can use; hint: use one of: cpu$"):
        choose_device("cuda")


@pytest.mark.parametrize("name", ["tpu", "", "cpu:x", "cpu:0:1"])
def test_a_name_of_no_device_is_refused_in_words(name: str) -> None:
    with pytest.raises(RecipeError, match=r"no device is called .*cuda, mps, cpu"):
        choose_device(name)


def test_bfloat16_is_refused_where_the_hardware_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    with pytest.raises(RecipeError, match=r"no fast bfloat16; hint: .*float32"):
        check_precision("bfloat16", CPU)
    check_precision("float32", CPU)


@pytest.mark.parametrize(("capability", "onednn"), [("AVX2", True), ("AVX512", False)])
def test_bfloat16_is_refused_where_torch_does_not_use_what_the_hardware_has(
    monkeypatch: pytest.MonkeyPatch, capability: str, onednn: bool
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: onednn)
    with pytest.raises(RecipeError, match="no fast bfloat16"):
        check_precision("bfloat16", CPU)


@pytest.mark.skipif(not FAST_HERE, reason="this processor does not multiply bfloat16")
def test_bfloat16_is_allowed_where_the_hardware_has_it() -> None:
    check_precision("bfloat16", CPU)


def test_training_in_bfloat16_learns_and_keeps_float32_weights(make_training: Maker) -> None:
    """The arithmetic exists on every processor, only not the speed."""
    losses = {}
    for precision in ("bfloat16", "float32"):
        training = make_training(precision, precision=precision, steps=30)
        losses[precision] = []
        fit(training, lambda event, p=precision, **f: event == "step" and losses[p].append(f["nll"]), Stop())
        assert {parameter.dtype for parameter in training.model.parameters()} == {torch.float32}
    assert losses["bfloat16"][-1] == pytest.approx(losses["float32"][-1], rel=0.05)
    assert losses["bfloat16"] != losses["float32"]
    assert losses["bfloat16"][-1] < 0.95 * losses["bfloat16"][0]
