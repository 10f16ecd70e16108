"""Linear + softmax + smoothed cross-entropy (sections 3.4 and 5.4) without ever keeping the logits.

The logits of a batch are its largest tensor by far (tokens × vocabulary). Here they exist for a few
hundred tokens at a time, are turned into the gradient where they lie, and are gone.

N tokens, D d_model, V vocabulary
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

CHUNK_BYTES = 32 * 2**20  # of logits at a time: large enough for full speed, small enough for a CPU's last cache


SMALLEST_P = 1e-30


class Scores(NamedTuple):
    """Sums over the real tokens. Only `loss` carries a gradient."""

    loss: Tensor  # with label smoothing: what is minimised
    nll: Tensor  # −log p(right symbol): what perplexity is made of
    n_right: Tensor  # how often the right symbol was the likeliest


def smoothed_cross_entropy(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """The definition: cross-entropy against 1 − ε on the right symbol plus ε/V on every symbol, summed."""
    log_p = logits.log_softmax(-1)  # (N, V)
    right = log_p.gather(-1, targets[:, None]).squeeze(-1)
    return -((1 - smoothing) * right + smoothing * log_p.mean(-1)).sum()


def linear_cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float = 0.0) -> Scores:
    """The same loss of `hidden @ weight.T`: (N, D), (V, D), (N,) → sums."""
    # asked here: inside `apply` gradients look switched off, and a parameter always says that it wants one
    learns = torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad)
    with torch.autocast(hidden.device.type, enabled=False):  # bfloat16 stays outside
        return Scores(*_LinearCrossEntropy.apply(hidden, weight, targets, smoothing, learns))  # type: ignore[no-untyped-call]


class _LinearCrossEntropy(torch.autograd.Function):
    """Gradients are computed in the forward pass, chunk by chunk, so nothing is computed twice.

    With p = softmax(z), d loss / d z = p − (1 − ε)·onehot − ε/V. The two constant parts never need a
    (N, V) tensor: they reach hidden and weight as a row look-up and as a rank-one sum.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, learns: bool
    ) -> tuple[Tensor, ...]:
        n, v = len(hidden), len(weight)
        hidden, weight = hidden.detach(), weight.detach()
        mean_row = weight.mean(0)  # (D,)
        d_hidden, d_weight = (torch.empty_like(hidden), torch.zeros_like(weight)) if learns else (None, None)
        sums = hidden.new_zeros(3, dtype=torch.float64 if hidden.device.type == "cpu" else torch.float32)
        rows = max(16, CHUNK_BYTES // (v * hidden.element_size()))
        logits_buffer = hidden.new_empty(min(rows, n), v)
        for start in range(0, n, rows):
            part = slice(start, min(start + rows, n))
            h, y = hidden[part], targets[part]
            logits = torch.mm(h, weight.t(), out=logits_buffer[: len(h)])  # (n, V)
            peak = logits.amax(-1)
            z_right = logits.gather(-1, y[:, None]).squeeze(-1)
            p = torch.softmax(logits, -1, out=logits)  # in place
            p_right = p.gather(-1, y[:, None]).squeeze(-1)
            nll = -p_right.log()
            lost = p_right < SMALLEST_P  # too small for float32: asked of the likeliest symbol, which never is
            nll[lost] = peak[lost] - p[lost].amax(-1).log() - z_right[lost]
            log_norm = nll + z_right  # log Σ exp z
            smooth = log_norm - h @ mean_row  # −log p, averaged over the vocabulary
            loss = (1 - smoothing) * nll + smoothing * smooth
            sums += torch.stack([loss.sum(), nll.sum(), (z_right >= peak).sum()])
            if d_hidden is not None and d_weight is not None:
                torch.mm(p, weight, out=d_hidden[part])
                d_weight.addmm_(p.t(), h)
        if d_hidden is not None and d_weight is not None:
            d_hidden.sub_(weight[targets], alpha=1 - smoothing).sub_(mean_row, alpha=smoothing)
            d_weight.index_add_(0, targets, hidden, alpha=smoothing - 1)
            d_weight.sub_(hidden.sum(0), alpha=smoothing / v)
            ctx.save_for_backward(d_hidden, d_weight)
        loss, nll, n_right = (sums[i].to(hidden.dtype) for i in range(3))
        ctx.mark_non_differentiable(nll, n_right)
        return loss, nll, n_right

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        d_hidden, d_weight = ctx.saved_tensors
        return d_hidden * grad, d_weight * grad, None, None, None


def linear_symmetric_kl(hidden_a: Tensor, hidden_b: Tensor, weight: Tensor) -> Tensor:
    """½ (KL(p‖q) + KL(q‖p)) of the two softmaxes, summed over tokens; logits live a chunk at a time (R-Drop)."""
    rows = max(16, CHUNK_BYTES // (len(weight) * hidden_a.element_size()))
    with torch.autocast(hidden_a.device.type, enabled=False):  # bfloat16 stays outside
        parts = [
            checkpoint(_symmetric_kl, a, b, weight, use_reentrant=False)
            for a, b in zip(hidden_a.split(rows), hidden_b.split(rows), strict=True)
        ]
    return torch.stack(parts).sum()


def _symmetric_kl(a: Tensor, b: Tensor, weight: Tensor) -> Tensor:
    log_p, log_q = (a @ weight.t()).log_softmax(-1), (b @ weight.t()).log_softmax(-1)
    return 0.5 * ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum()
