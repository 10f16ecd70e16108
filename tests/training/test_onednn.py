"""oneDNN matmul: selected by the CPU model, as exact as float32, and switched off afterwards."""

from collections.abc import Iterator

import pytest
import torch

from regard.training import onednn
from regard.training.onednn import fast_matmul


@pytest.fixture(autouse=True)
def _setting_is_restored() -> Iterator[None]:
    yield
    setting = torch.backends.mkldnn.matmul.fp32_precision
    torch.backends.mkldnn.matmul.fp32_precision = "none"
    assert setting == "none"
    assert torch.get_float32_matmul_precision() == "highest"  # PyTorch raises here while its two settings disagree


def test_results_are_as_exact_as_float32() -> None:
    a, b = torch.randn(300, 200), torch.randn(200, 400)
    exact = a.double() @ b.double()
    with fast_matmul():
        result = a @ b
    assert (result - exact).abs().max() < 200 * 2**-23 * 16  # bfloat16 would be off by 0.1


def test_results_are_reproducible() -> None:
    a, b = torch.randn(301, 130), torch.randn(130, 257)
    with fast_matmul():
        result = a @ b
    with fast_matmul():
        assert torch.equal(result, a @ b)


@pytest.mark.parametrize(
    ("capability", "vendor", "expected"),
    [("AVX512", "AuthenticAMD", True), ("AVX512", "GenuineIntel", False), ("AVX2", "AuthenticAMD", False)],
)
def test_onednn_is_selected_by_cpu_capability_and_vendor(
    monkeypatch: pytest.MonkeyPatch, capability: str, vendor: str, expected: bool
) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(onednn, "_cpu_vendor", lambda: vendor)
    monkeypatch.setattr(onednn, "_keeps_float32_precision", lambda: True)
    with fast_matmul() as uses_onednn:
        assert uses_onednn is expected
        assert torch.backends.mkldnn.matmul.fp32_precision == ("bf16" if expected else "none")


def test_onednn_is_not_used_where_it_would_round_to_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn, "_mkl_is_slow", lambda: True)
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda a, b: a.bfloat16().float())
    with fast_matmul() as uses_onednn:
        assert not uses_onednn
        assert torch.backends.mkldnn.matmul.fp32_precision == "none"


def test_setting_of_the_user_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn, "_mkl_is_slow", lambda: True)
    torch.backends.mkldnn.matmul.fp32_precision = "ieee"
    with fast_matmul() as uses_onednn:
        assert not uses_onednn
    assert torch.backends.mkldnn.matmul.fp32_precision == "ieee"
    torch.backends.mkldnn.matmul.fp32_precision = "none"


def test_setting_is_restored_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn, "_mkl_is_slow", lambda: True)
    monkeypatch.setattr(onednn, "_keeps_float32_precision", lambda: True)
    with pytest.raises(KeyError), fast_matmul() as uses_onednn:
        assert uses_onednn
        raise KeyError
    assert onednn.MATMUL.fp32_precision == "none"
