"""Section 5.4: the chunked loss and its gradient equal the definition of label smoothing."""

from math import exp, log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.nn import cross_entropy, linear_cross_entropy

CHUNKS = (1, 16 * 13 * 8, 17 * 13 * 8, 2**24)  # bytes; with a vocabulary of 13 in float64: 16, 16, 17 and all rows


def tensors(n: int = 50, d: int = 6, v: int = 13, seed: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """hidden (N, D), weight (V, D), targets (N,); float64, with gradients."""
    g = torch.Generator().manual_seed(seed)
    hidden, weight = (torch.randn(size, d, generator=g, dtype=torch.float64).requires_grad_() for size in (n, v))
    return hidden, weight, torch.randint(v, (n,), generator=g)


def plain_loss(logits: list[list[float]], targets: list[int], smoothing: float) -> float:
    """Cross-entropy with 1 − ε on the correct token plus ε / V on every token, in plain Python."""
    total = 0.0
    for row, correct in zip(logits, targets, strict=True):
        norm = log(sum(exp(z) for z in row))
        for token, z in enumerate(row):
            truth = smoothing / len(row) + (1 - smoothing if token == correct else 0)
            total -= truth * (z - norm)
    return total


def torch_loss(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    return torch.nn.functional.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
def test_label_smoothing_equals_its_definition(smoothing: float) -> None:
    hidden, weight, targets = tensors()
    logits = hidden @ weight.t()
    expected = plain_loss(logits.tolist(), targets.tolist(), smoothing)
    assert linear_cross_entropy(hidden, weight, targets, smoothing).loss.item() == pytest.approx(expected)
    assert torch_loss(logits, targets, smoothing).item() == pytest.approx(expected)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), st.floats(0, 0.9), st.sampled_from(CHUNKS), st.integers(0, 100))
def test_chunks_of_any_size_give_the_gradient_of_the_definition(n: int, eps: float, chunk: int, seed: int) -> None:
    hidden, weight, targets = tensors(n, seed=seed)
    loss = torch_loss(hidden @ weight.t(), targets, eps)
    expected = torch.autograd.grad(0.3 * loss, (hidden, weight))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cross_entropy, "CHUNK_BYTES", chunk)
        scores = linear_cross_entropy(hidden, weight, targets, eps)
    torch.testing.assert_close(scores.loss, loss.detach())
    torch.testing.assert_close(torch.autograd.grad(0.3 * scores.loss, (hidden, weight)), expected)


@pytest.mark.parametrize("chunk", CHUNKS)
def test_nll_has_no_smoothing_and_n_correct_counts_most_likely_targets(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cross_entropy, "CHUNK_BYTES", chunk)
    hidden, weight, targets = tensors(300)
    logits = (hidden @ weight.t()).detach()
    targets[:100] = logits[:100].argmax(-1)
    scores = linear_cross_entropy(hidden, weight, targets, 0.4)
    assert float(scores.nll) == pytest.approx(plain_loss(logits.tolist(), targets.tolist(), 0.0))
    assert int(scores.n_correct) == int((logits.argmax(-1) == targets).sum())
    assert scores.loss.requires_grad
    assert not scores.nll.requires_grad
    assert not scores.n_correct.requires_grad


def test_extreme_logits_do_not_overflow() -> None:
    hidden = torch.tensor([[1e4, 0.0], [-1e4, 0.0], [0.0, 3e4]], requires_grad=True)
    weight = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]], requires_grad=True)
    scores = linear_cross_entropy(hidden, weight, torch.tensor([0, 0, 1]), 0.1)
    scores.loss.backward()
    expected = torch.nn.functional.cross_entropy(
        (hidden @ weight.t()).double(), torch.tensor([0, 0, 1]), reduction="sum", label_smoothing=0.1
    )
    torch.testing.assert_close(scores.loss.double(), expected, rtol=1e-5, atol=0)
    assert bool(hidden.grad.isfinite().all())
    assert bool(weight.grad.isfinite().all())


def test_a_certain_and_correct_prediction_has_zero_loss_without_smoothing() -> None:
    scores = linear_cross_entropy(torch.eye(4) * 200, torch.eye(4), torch.arange(4))
    assert scores.loss.item() == 0
    assert int(scores.n_correct) == 4


def test_logits_are_computed_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cross_entropy, "CHUNK_BYTES", 20 * 13 * 8)
    chunk_lengths = []
    real = torch.softmax

    def softmax(logits: Tensor, *args: object, **kwargs: object) -> Tensor:
        chunk_lengths.append(len(logits))
        return real(logits, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(torch, "softmax", softmax)
    hidden, weight, targets = tensors(50)
    linear_cross_entropy(hidden, weight, targets, 0.1)
    assert chunk_lengths == [20, 20, 10]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_no_gradient_is_computed_without_grad_mode(mode: type[torch.no_grad], monkeypatch: pytest.MonkeyPatch) -> None:
    hidden, weight, targets = tensors()
    expected = linear_cross_entropy(hidden, weight, targets, 0.1).loss.detach()
    allocated = []
    real = torch.zeros_like
    monkeypatch.setattr(torch, "zeros_like", lambda like: allocated.append(like.shape) or real(like))
    with mode():
        scores = linear_cross_entropy(hidden, weight, targets, 0.1)
    torch.testing.assert_close(scores.loss, expected)
    assert not scores.loss.requires_grad
    assert allocated == []


def plain_r_drop(a: Tensor, b: Tensor, weight: Tensor, targets: Tensor, smoothing: float, agreement: float) -> Tensor:
    logits_a, logits_b = a @ weight.t(), b @ weight.t()
    p, q = logits_a.softmax(-1), logits_b.softmax(-1)
    divergence = ((p * (p / q).log()).sum() + (q * (q / p).log()).sum()) / 2
    losses = [torch_loss(logits, targets, smoothing) for logits in (logits_a, logits_b)]
    return (losses[0] + losses[1] + agreement * divergence) / 2


@pytest.mark.parametrize("agreement", [0.0, 0.7, 5.0])
@pytest.mark.parametrize("chunk", CHUNKS)
def test_r_drop_equals_its_definition_in_value_and_gradient(
    chunk: int, agreement: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cross_entropy, "CHUNK_BYTES", chunk)
    (a, weight, targets), (b, _, _) = tensors(seed=1), tensors(seed=2)
    expected = plain_r_drop(a, b, weight, targets, 0.1, agreement)
    loss = linear_cross_entropy(torch.stack([a, b]), weight, targets, 0.1, agreement).loss
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(torch.autograd.grad(loss, (a, b, weight)), torch.autograd.grad(expected, (a, b, weight)))


def test_r_drop_reports_the_mean_of_both_passes() -> None:
    (a, weight, targets), (b, _, _) = tensors(seed=1), tensors(seed=2)
    first, second = (linear_cross_entropy(hidden, weight, targets, 0.1) for hidden in (a, b))
    both = linear_cross_entropy(torch.stack([a, b]), weight, targets, 0.1, 1.0)
    torch.testing.assert_close(both.nll, (first.nll + second.nll) / 2)
    torch.testing.assert_close(both.n_correct, (first.n_correct + second.n_correct) / 2)


def test_divergence_is_zero_for_equal_predictions_and_finite_for_extreme_ones() -> None:
    hidden, weight, targets = tensors()
    equal = linear_cross_entropy(torch.stack([hidden, hidden]), weight, targets, 0.1, 5.0)
    torch.testing.assert_close(equal.loss, linear_cross_entropy(hidden, weight, targets, 0.1).loss)
    opposite = linear_cross_entropy(torch.stack([1e3 * hidden, -1e3 * hidden]), weight, targets, 0.1, 5.0)
    assert bool(opposite.loss.isfinite())
    assert all(bool(gradient.isfinite().all()) for gradient in torch.autograd.grad(opposite.loss, (hidden, weight)))


def test_autocast_does_not_change_the_loss() -> None:
    hidden, weight, targets = (t if t.dtype == torch.int64 else t.detach().float() + 1 for t in tensors(v=300))
    both = torch.stack([hidden, hidden.flip(0)])
    expected = linear_cross_entropy(hidden, weight, targets, 0.5).loss
    expected_r_drop = linear_cross_entropy(both, weight, targets, 0.5, 1.0).loss
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(linear_cross_entropy(hidden, weight, targets, 0.5).loss, expected)
        torch.testing.assert_close(linear_cross_entropy(both, weight, targets, 0.5, 1.0).loss, expected_r_drop)


@pytest.mark.parametrize("confidence", [1.0, 9.0])  # 9: the correct token has p = 0.995, in bfloat16 0.996
def test_bfloat16_keeps_the_gradient_of_a_confident_prediction_within_1_percent(confidence: float) -> None:
    weight, targets = torch.eye(40).requires_grad_(), torch.arange(200) % 40
    hidden = confidence * torch.eye(40)[targets] + 0.1 * torch.randn(
        200, 40, generator=torch.Generator().manual_seed(1)
    )
    hidden.requires_grad_()
    exact = torch.autograd.grad(linear_cross_entropy(hidden, weight, targets).loss, (hidden, weight))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = linear_cross_entropy(hidden, weight, targets)
    for rounded, expected in zip(torch.autograd.grad(scores.loss, (hidden, weight)), exact, strict=True):
        assert rounded.dtype == torch.float32
        assert 0 < float((rounded - expected).norm() / expected.norm()) < 0.01


def with_bias(n: int = 50, v: int = 13, passes: int = 1) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """hidden (P, N, D), weight (V, D), bias (V,), targets (N,)."""
    _, weight, targets = tensors(n, v=v)
    g = torch.Generator().manual_seed(9)
    hidden, bias = (torch.randn(size, generator=g, dtype=torch.float64) for size in ((passes, n, 6), (v,)))
    return hidden.requires_grad_(), weight, bias.requires_grad_(), targets


def with_a_constant_input(hidden: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """The same logits without a bias: `weight` gets it as one more column, and `hidden` a 1."""
    return torch.cat([hidden, hidden.new_ones(*hidden.shape[:-1], 1)], -1), torch.cat([weight, bias[:, None]], -1)


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
@pytest.mark.parametrize(("passes", "agreement"), [(1, 0.0), (2, 0.0), (2, 0.7), (2, 5.0)])
def test_bias_equals_its_definition_in_value_and_gradient(
    passes: int, agreement: float, smoothing: float, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cross_entropy, "CHUNK_BYTES", chunk)
    hidden, weight, bias, targets = with_bias(passes=passes)
    wide_hidden, wide_weight = with_a_constant_input(hidden, weight, bias)
    if passes == 1:
        expected = torch_loss(hidden[0] @ weight.t() + bias, targets, smoothing)
    else:
        expected = plain_r_drop(wide_hidden[0], wide_hidden[1], wide_weight, targets, smoothing, agreement)
    scores = linear_cross_entropy(hidden, weight, targets, smoothing, agreement, bias)
    without_smoothing = [torch_loss(each @ weight.t() + bias, targets, 0.0) for each in hidden]
    correct = ((hidden @ weight.t() + bias).argmax(-1) == targets).sum() / passes
    torch.testing.assert_close(scores.loss, expected, rtol=1e-12, atol=1e-10)
    torch.testing.assert_close(scores.nll, torch.stack(without_smoothing).mean(), rtol=1e-12, atol=1e-10)
    assert float(scores.n_correct) == float(correct)
    inputs = (hidden, weight, bias)
    actual, plain = torch.autograd.grad(0.3 * scores.loss, inputs), torch.autograd.grad(0.3 * expected, inputs)
    torch.testing.assert_close(actual, plain, rtol=0, atol=1e-10)


def test_bias_alone_can_be_trained() -> None:
    hidden, weight, bias, targets = with_bias()
    loss = linear_cross_entropy(hidden[0].detach(), weight.detach(), targets, 0.1, bias=bias).loss
    expected = torch_loss((hidden[0] @ weight.t()).detach() + bias, targets, 0.1)
    torch.testing.assert_close(torch.autograd.grad(loss, bias), torch.autograd.grad(expected, bias))


@pytest.mark.parametrize("passes", [1, 2])
def test_autocast_changes_neither_the_loss_nor_the_gradient_of_the_bias(passes: int) -> None:
    hidden, weight, bias, targets = with_bias(v=300, passes=passes)
    inputs = [each.detach().float().requires_grad_() for each in (hidden, weight, bias)]
    exact = linear_cross_entropy(*inputs[:2], targets, 0.1, 0.7, inputs[2]).loss
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = linear_cross_entropy(*inputs[:2], targets, 0.1, 0.7, inputs[2]).loss
    assert torch.equal(rounded, exact)
    expected, actual = torch.autograd.grad(exact, inputs), torch.autograd.grad(rounded, inputs)
    assert torch.equal(actual[2], expected[2])
    for i in (0, 1):
        assert 0 < float((actual[i] - expected[i]).norm() / expected[i].norm()) < 0.01


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("passes", [1, 2])
def test_no_targets_give_zero_sums_and_zero_gradients(passes: int, autocast: bool, biased: bool) -> None:
    hidden, weight, bias, targets = with_bias(n=0, passes=passes)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        scores = linear_cross_entropy(hidden, weight, targets, 0.1, 0.7, bias if biased else None)
    assert [each.item() for each in scores] == [0, 0, 0]
    scores.loss.backward()
    for each in (hidden, weight, bias) if biased else (hidden, weight):
        assert each.grad is not None and each.grad.shape == each.shape
        assert not each.grad.any()
