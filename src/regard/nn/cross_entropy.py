"""Output matrix, softmax and label-smoothed cross-entropy (sections 3.4 and 5.4), without storing the logits.

The logits are by far the largest tensor of a batch (tokens × vocabulary). Here they are computed for a few hundred
tokens at a time and overwritten by their own gradient.

Shapes: N tokens, n tokens of a chunk, D d_model, V vocabulary, P passes (2 for R-Drop, else 1)
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK_BYTES = 32 * 2**20  # logits at a time: enough for full speed, and they fit into a CPU's last-level cache
BLOCK_BYTES = 2**19  # R-Drop reads its rows a dozen times: they fit into the cache of one core

MIN_P = 1e-30  # a smaller probability may have underflowed in float32


class CrossEntropySums(NamedTuple):
    """Sums over all tokens; for R-Drop, the mean of both passes. Only `loss` has a gradient."""

    loss: Tensor  # with label smoothing: what training minimises
    nll: Tensor  # −log p(correct token), for perplexity
    n_correct: Tensor  # tokens where the correct one was the most likely


def linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    smoothing: float = 0.0,
    agreement: float = 0.0,
    bias: Tensor | None = None,
) -> CrossEntropySums:
    """Cross-entropy of the logits `hidden @ weight.T + bias`: (P, N, D) or (N, D), (V, D), (V,); targets (N,) → sums.

    Label smoothing (section 5.4): the target distribution is 1 − ε on the correct token plus ε/V on every token. With
    two passes: their mean loss, plus a penalty for different predictions (R-Drop, Liang et al., 2021). The penalty is
    ½ · `agreement` · ½ (KL(p‖q) + KL(q‖p)): half of the one in their paper, where the loss is the sum of both passes.
    """
    hidden = hidden if hidden.dim() == 3 else hidden[None]
    # checked here: inside `apply`, gradients are always disabled
    learned = [hidden, weight] if bias is None else [hidden, weight, bias]
    needs_grad = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in learned)
    device = hidden.device.type
    backward_dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
    with torch.autocast(device, enabled=False):  # bfloat16 only for the gradient's matrix products
        return CrossEntropySums(
            *_LinearCrossEntropy.apply(hidden, weight, bias, targets, smoothing, agreement, needs_grad, backward_dtype)  # type: ignore[no-untyped-call]
        )


class _LinearCrossEntropy(torch.autograd.Function):
    """Computes the gradients in the forward pass, chunk by chunk, so that the logits are computed only once.

    With p = softmax(z), d loss / d z = p − (1 − ε)·onehot − ε/V. The term ε/V is the same for all tokens, so its
    part of the gradients is added once, at the end. The matrix products of the other two may use a lower precision,
    `backward_dtype`. The one-hot term is subtracted before rounding: for a confident prediction p − 1 is small and
    would be lost in a rounded p.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        agreement: float,
        needs_grad: bool,
        backward_dtype: torch.dtype,
    ) -> tuple[Tensor, ...]:
        (passes, n_tokens, _), n_symbols = hidden.shape, len(weight)
        hidden, weight = hidden.detach(), weight.detach()
        weight_backward = weight.to(backward_dtype)
        mean_row = weight.mean(0)  # (D,)
        d_hidden, d_weight = (torch.empty_like(hidden), torch.zeros_like(weight)) if needs_grad else (None, None)
        d_bias = torch.zeros_like(bias) if needs_grad and bias is not None else None
        sums = hidden.new_zeros(3, dtype=torch.float64 if hidden.device.type == "cpu" else torch.float32)
        rows = max(16, CHUNK_BYTES // (n_symbols * hidden.element_size() * passes))
        logits_buffer = hidden.new_empty(min(rows, n_tokens) * passes, n_symbols)
        for start in range(0, n_tokens, rows):
            chunk = slice(start, min(start + rows, n_tokens))
            h, y = hidden[:, chunk].flatten(0, 1), targets[chunk].repeat(passes)  # (P·n, D), (P·n,)
            logits = torch.mm(h, weight.t(), out=logits_buffer[: len(h)])  # (P·n, V)
            if bias is not None:
                logits += bias
            difference = logits[: len(h) // 2] - logits[len(h) // 2 :] if passes == 2 else None  # (n, V)
            p, scores = _softmax_in_place(logits, y)
            mean_z = h @ mean_row if bias is None else h @ mean_row + bias.mean()
            mean_nll = scores.log_norm - mean_z  # (P·n,): −log p, averaged over the vocabulary
            loss = (1 - smoothing) * scores.nll + smoothing * mean_nll
            sums += torch.stack([loss.sum(), scores.nll.sum(), scores.n_correct]) / passes
            if difference is not None:
                sums[0] += _r_drop_in_place(p, difference, agreement)
            if d_hidden is not None and d_weight is not None:
                p.scatter_add_(1, y[:, None], p.new_full((len(y), 1), (smoothing - 1) / passes))
                if d_bias is not None:
                    d_bias += p.sum(0)
                d_logits = p.to(backward_dtype)  # (P·n, V)
                d_hidden[:, chunk] = torch.mm(d_logits, weight_backward).view(passes, -1, h.shape[1])  # (P, n, D)
                _add_product(d_weight, d_logits.t(), h.to(backward_dtype))  # (V, D)
        if d_hidden is not None and d_weight is not None:
            d_hidden.sub_(mean_row, alpha=smoothing / passes)
            d_weight.sub_(hidden.sum((0, 1)), alpha=smoothing / n_symbols / passes)
            if d_bias is not None:
                d_bias.sub_(smoothing * n_tokens / n_symbols)
            ctx.save_for_backward(d_hidden, d_weight, d_bias)
        loss, nll, n_correct = (sums[i].to(hidden.dtype) for i in range(3))
        ctx.mark_non_differentiable(nll, n_correct)
        return loss, nll, n_correct

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        d_hidden, d_weight, d_bias = ctx.saved_tensors
        return d_hidden * grad, d_weight * grad, None if d_bias is None else d_bias * grad, *[None] * 5


def _add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """total += a @ b. The sum keeps its own precision if a and b have a lower one."""
    if a.dtype == total.dtype:
        total.addmm_(a, b)
    else:
        total.add_(torch.mm(a, b))


class _RowScores(NamedTuple):
    nll: Tensor  # (N,)
    log_norm: Tensor  # (N,): log Σ exp z
    n_correct: Tensor


def _softmax_in_place(logits: Tensor, targets: Tensor) -> tuple[Tensor, _RowScores]:
    """Overwrites the logits (N, V) by their softmax."""
    max_z = logits.amax(-1)  # (N,)
    target_z = logits.gather(-1, targets[:, None]).squeeze(-1)  # (N,)
    p = torch.softmax(logits, -1, out=logits)
    target_p = p.gather(-1, targets[:, None]).squeeze(-1)  # (N,)
    nll = -target_p.log()
    tiny = target_p < MIN_P  # computed from the most likely token instead, whose probability is never tiny
    if bool(tiny.any()):
        nll[tiny] = max_z[tiny] - p[tiny].amax(-1).log() - target_z[tiny]
    return p, _RowScores(nll, nll + target_z, (target_z >= max_z).sum())


def _r_drop_in_place(p: Tensor, difference: Tensor, agreement: float) -> Tensor:
    """R-Drop's penalty. Overwrites the probabilities of both passes (2·n, V) by their part of the loss's gradient.

    With d = z_p − z_q, ½ (KL(p‖q) + KL(q‖p)) = ½ Σ (p − q) d, and its gradient by z_p is ½ (p (1 + d − Σ p d) − q).
    """
    factor = agreement / 4  # ½ of the penalty times ½ of the divergence
    penalty = difference.new_zeros(())
    rows = max(1, BLOCK_BYTES // (difference.shape[1] * difference.element_size()))
    for p_1, p_2, d in zip(*(tensor.split(rows) for tensor in (*p.chunk(2), difference)), strict=True):
        mean_1, mean_2 = ((each * d).sum(-1, keepdim=True) for each in (p_1, p_2))  # (rows, 1)
        old_p_1 = p_1.clone()
        p_1.mul_((factor * d).add_(0.5 + factor * (1 - mean_1))).sub_(p_2, alpha=factor)
        p_2.mul_((-factor * d).add_(0.5 + factor * (1 + mean_2))).sub_(old_p_1, alpha=factor)
        penalty += factor * (mean_1 - mean_2).sum()
    return penalty
