"""Products by oneDNN: chosen by the processor alone, as exact as before, and nothing is left switched on."""

from collections.abc import Iterator

import pytest
import torch

from regard.training import onednn as products
from regard.training.onednn import quick_products


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    yield
    found = torch.backends.mkldnn.matmul.fp32_precision
    torch.backends.mkldnn.matmul.fp32_precision = "none"
    assert found == "none"
    assert torch.get_float32_matmul_precision() == "highest"  # which torch does not say while the two disagree


def test_products_are_as_exact_as_float32() -> None:
    one, two = torch.randn(300, 200), torch.randn(200, 400)
    exact = one.double() @ two.double()
    with quick_products():
        found = one @ two
    assert (found - exact).abs().max() < 200 * 2**-23 * 16  # bfloat16 would be off by 0.1


def test_the_same_product_twice_is_the_same_to_the_bit() -> None:
    one, two = torch.randn(301, 130), torch.randn(130, 257)
    with quick_products():
        found = one @ two
    with quick_products():
        assert torch.equal(found, one @ two)


@pytest.mark.parametrize(
    ("capability", "vendor", "expected"),
    [("AVX512", "AuthenticAMD", True), ("AVX512", "GenuineIntel", False), ("AVX2", "AuthenticAMD", False)],
)
def test_the_processor_decides(monkeypatch: pytest.MonkeyPatch, capability: str, vendor: str, expected: bool) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(products, "_vendor", lambda: vendor)
    monkeypatch.setattr(products, "_exact", lambda: True)
    with quick_products() as chosen:
        assert chosen is expected
        assert torch.backends.mkldnn.matmul.fp32_precision == ("bf16" if expected else "none")


def test_a_processor_that_would_really_use_bfloat16_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_mkl_is_slow", lambda: True)
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda one, two: one.bfloat16().float())
    with quick_products() as chosen:
        assert not chosen
        assert torch.backends.mkldnn.matmul.fp32_precision == "none"


def test_what_a_person_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_mkl_is_slow", lambda: True)
    torch.backends.mkldnn.matmul.fp32_precision = "ieee"
    with quick_products() as chosen:
        assert not chosen
    assert torch.backends.mkldnn.matmul.fp32_precision == "ieee"
    torch.backends.mkldnn.matmul.fp32_precision = "none"


def test_an_error_switches_it_off_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_mkl_is_slow", lambda: True)
    monkeypatch.setattr(products, "_exact", lambda: True)
    with pytest.raises(KeyError), quick_products() as chosen:
        assert chosen
        raise KeyError
    assert products.MATMUL.fp32_precision == "none"
