"""Linear + softmax + smoothed cross-entropy (sections 3.4 and 5.4) without ever keeping the logits.

The logits of a batch are its largest tensor by far (tokens × vocabulary). Here they exist for a few
hundred tokens at a time, are turned into the gradient where they lie, and are gone.

N tokens, D d_model, V vocabulary, P passes: 2 for R-Drop, else 1
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK_BYTES = 32 * 2**20  # of logits at a time: large enough for full speed, small enough for a CPU's last cache
BLOCK_BYTES = 2**19  # of what is passed over a dozen times: small enough for the cache of a core

SMALLEST_P = 1e-30


class LossSums(NamedTuple):
    """Sums over the real tokens (of several passes, their mean). Only `loss` carries a gradient."""

    loss: Tensor  # with label smoothing: what is minimised
    nll: Tensor  # −log p(right symbol): what perplexity is made of
    n_correct: Tensor  # how often the right symbol was the likeliest


def smoothed_cross_entropy(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """The definition: cross-entropy against 1 − ε on the right symbol plus ε/V on every symbol, summed."""
    log_p = logits.log_softmax(-1)  # (N, V)
    right = log_p.gather(-1, targets[:, None]).squeeze(-1)
    return -((1 - smoothing) * right + smoothing * log_p.mean(-1)).sum()


def linear_cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float = 0.0) -> LossSums:
    """The same loss of `hidden @ weight.T`: (N, D), (V, D), (N,) → sums."""
    return _scores(hidden[None], weight, targets, smoothing, 0.0)


def linear_r_drop(hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, agreement: float) -> LossSums:
    """The mean loss of two passes, (2, N, D), and a penalty for predicting differently (R-Drop, Liang et al., 2021).

    The penalty is ½ · `agreement` · ½ (KL(p‖q) + KL(q‖p)): half of what their paper writes, as the mean is of the sum.
    """
    return _scores(hidden, weight, targets, smoothing, agreement)


def _scores(hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, agreement: float) -> LossSums:
    # asked here: inside `apply` gradients look switched off, and a parameter always says that it wants one
    learns = torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad)
    device = hidden.device.type
    back = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
    with torch.autocast(device, enabled=False):  # bfloat16 stays outside, but for the way back
        return LossSums(*_LinearCrossEntropy.apply(hidden, weight, targets, smoothing, agreement, learns, back))  # type: ignore[no-untyped-call]


class _LinearCrossEntropy(torch.autograd.Function):
    """Gradients are computed in the forward pass, chunk by chunk, so nothing is computed twice.

    With p = softmax(z), d loss / d z = p − (1 − ε)·onehot − ε/V. The last part reaches hidden and weight as a rank-one
    sum. The products that bring the rest there may be of a lower precision, `back`. The right symbol's share is taken
    off first: p − 1 of a sure prediction is small, and would be lost in a p that is rounded.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        targets: Tensor,
        smoothing: float,
        agreement: float,
        learns: bool,
        back: torch.dtype,
    ) -> tuple[Tensor, ...]:
        (passes, n, _), v = hidden.shape, len(weight)
        hidden, weight = hidden.detach(), weight.detach()
        weight_back = weight.to(back)
        mean_row = weight.mean(0)  # (D,)
        d_hidden, d_weight = (torch.empty_like(hidden), torch.zeros_like(weight)) if learns else (None, None)
        sums = hidden.new_zeros(3, dtype=torch.float64 if hidden.device.type == "cpu" else torch.float32)
        rows = max(16, CHUNK_BYTES // (v * hidden.element_size() * passes))
        logits_buffer = hidden.new_empty(min(rows, n) * passes, v)
        for start in range(0, n, rows):
            part = slice(start, min(start + rows, n))
            h, y = hidden[:, part].flatten(0, 1), targets[part].repeat(passes)  # (P·n, D), (P·n,)
            logits = torch.mm(h, weight.t(), out=logits_buffer[: len(h)])  # (P·n, V)
            apart = logits[: len(h) // 2] - logits[len(h) // 2 :] if passes == 2 else None  # (n, V)
            p, scores = _softmax_in_place(logits, y)
            smooth = scores.log_norm - h @ mean_row  # −log p, averaged over the vocabulary
            loss = (1 - smoothing) * scores.nll + smoothing * smooth
            sums += torch.stack([loss.sum(), scores.nll.sum(), scores.n_correct]) / passes
            if apart is not None:
                sums[0] += _disagreement_in_place(p, apart, agreement)
            if d_hidden is not None and d_weight is not None:
                p.scatter_add_(1, y[:, None], p.new_full((len(y), 1), (smoothing - 1) / passes))
                d_logits = p.to(back)
                d_hidden[:, part] = torch.mm(d_logits, weight_back).view(passes, -1, h.shape[1])
                _add_product(d_weight, d_logits.t(), h.to(back))
        if d_hidden is not None and d_weight is not None:
            d_hidden.sub_(mean_row, alpha=smoothing / passes)
            d_weight.sub_(hidden.sum((0, 1)), alpha=smoothing / v / passes)
            ctx.save_for_backward(d_hidden, d_weight)
        loss, nll, n_correct = (sums[i].to(hidden.dtype) for i in range(3))
        ctx.mark_non_differentiable(nll, n_correct)
        return loss, nll, n_correct

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        d_hidden, d_weight = ctx.saved_tensors
        return d_hidden * grad, d_weight * grad, None, None, None, None, None


def _add_product(total: Tensor, one: Tensor, two: Tensor) -> None:
    """The sum stays as exact as it is, whatever the product's precision."""
    if one.dtype == total.dtype:
        total.addmm_(one, two)
    else:
        total.add_(torch.mm(one, two))


class _RowScores(NamedTuple):
    nll: Tensor
    log_norm: Tensor  # log Σ exp z
    n_correct: Tensor


def _softmax_in_place(logits: Tensor, targets: Tensor) -> tuple[Tensor, _RowScores]:
    peak = logits.amax(-1)
    z_right = logits.gather(-1, targets[:, None]).squeeze(-1)
    p = torch.softmax(logits, -1, out=logits)
    p_right = p.gather(-1, targets[:, None]).squeeze(-1)
    nll = -p_right.log()
    lost = p_right < SMALLEST_P  # too small for float32: asked of the likeliest symbol, which never is
    nll[lost] = peak[lost] - p[lost].amax(-1).log() - z_right[lost]
    return p, _RowScores(nll, nll + z_right, (z_right >= peak).sum())


def _disagreement_in_place(p: Tensor, apart: Tensor, agreement: float) -> Tensor:
    """R-Drop's penalty; turns both passes' p (2·n, V) into the gradient of the whole loss.

    With d = z_p − z_q, ½ (KL(p‖q) + KL(q‖p)) = ½ Σ (p − q) d, and its gradient by z_p is ½ (p (1 + d − Σ p d) − q).
    """
    half = agreement / 4  # of the penalty's ½ and of the divergence's
    total = apart.new_zeros(())
    rows = max(1, BLOCK_BYTES // (apart.shape[1] * apart.element_size()))
    for one, two, d in zip(*(part.split(rows) for part in (*p.chunk(2), apart)), strict=True):
        mean_one, mean_two = ((each * d).sum(-1, keepdim=True) for each in (one, two))  # (rows, 1)
        was_one = one.clone()
        one.mul_((half * d).add_(0.5 + half * (1 - mean_one))).sub_(two, alpha=half)
        two.mul_((-half * d).add_(0.5 + half * (1 + mean_two))).sub_(was_one, alpha=half)
        total += half * (mean_one - mean_two).sum()
    return total
