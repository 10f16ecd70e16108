"""How well a language model predicts a text: the loss of every token, and by the length of the context.

B rows that are read in parallel, T tokens of a segment, N tokens, L tokens of a stretch
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import exp, log
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from regard.data import TokenStream
from regard.data.stream import StreamMeta
from regard.evaluate.significance import DEFAULT_SEED, Interval, interval_95, resampled_sums
from regard.models import LanguageModel
from regard.nn import PackedWeights

Losses = NDArray[np.float32]
OnTokens = Callable[[int], None]  # called with the number of tokens that were read

STRETCH = 1_024  # tokens, and as many of context at most
_ROWS = 256  # of logits at a time: 34 MB with a vocabulary of 33,278
_N_TRIALS = 1_000


def token_losses(
    model: LanguageModel, stream: TokenStream, memory: int | None = None, on_tokens: OnTokens = lambda n: None
) -> Losses:
    """(N,): −log p of every token; what the model remembers is carried through the whole text."""
    ids = torch.from_numpy(stream.stretch(0, len(stream)))[None]
    losses: Losses = _read(model, ids, memory, on_tokens)[0]
    return losses


def stretch_losses(
    model: LanguageModel,
    stream: TokenStream,
    n: int,
    memory: int | None = None,
    device: torch.device | str = "cpu",
    on_tokens: OnTokens = lambda n: None,
) -> Losses:
    """(B, L): −log p of every token in n stretches, spread over the text; each is read from a cold start."""
    length = min(STRETCH, len(stream))
    n = min(n, len(stream) - length + 1)
    starts = [i * (len(stream) - length) // max(1, n - 1) for i in range(n)]
    rows = np.stack([stream.stretch(start, start + length) for start in starts])  # (B, L + 1)
    return _read(model, torch.from_numpy(rows).to(device), memory, on_tokens)


def _read(model: LanguageModel, ids: Tensor, memory: int | None, on_tokens: OnTokens) -> Losses:
    """(B, L + 1) → (B, L): of every token after the first, read in segments."""
    losses: list[Tensor] = []
    with torch.inference_mode(), PackedWeights().in_use():
        state = model.start(len(ids), memory)
        for first in range(0, ids.shape[1] - 1, model.evaluation_segment):
            end = min(first + model.evaluation_segment, ids.shape[1] - 1)
            features, state = model.read(ids[:, first:end], state)  # (B, T, D)
            targets = ids[:, first + 1 : end + 1].flatten()  # (B·T,)
            chunks = zip(features.flatten(0, 1).split(_ROWS), targets.split(_ROWS), strict=True)
            nll = torch.cat([F.cross_entropy(model.logits(x).float(), y, reduction="none") for x, y in chunks])
            losses.append(nll.view(len(ids), -1).cpu())
            on_tokens(nll.numel())
    return torch.cat(losses, 1).numpy()


def scores(loss: float, meta: StreamMeta) -> dict[str, float]:
    """The measures for a mean loss per token. Perplexity is per word; the end of a line is one, as it is published."""
    per_word = loss * meta.n_tokens / (meta.n_words + meta.n_lines)
    per_character = loss * meta.n_tokens / (meta.n_characters + meta.n_lines)
    return {"loss": loss, "perplexity": exp(min(700.0, per_word)), "bits_per_character": per_character / log(2)}


def perplexity_interval(losses: Losses, stream: TokenStream) -> Interval:
    """95%, by drawing lines with replacement."""
    ends = np.flatnonzero(np.asarray(stream.ids) == stream.meta.eos_id)
    sums = np.add.reduceat(losses.astype(np.float64), np.concatenate([[0], ends[:-1] + 1]))
    lengths = np.diff(ends, prepend=-1)
    drawn = resampled_sums(np.stack([sums, lengths], 1), _N_TRIALS, DEFAULT_SEED)
    return interval_95(np.array([scores(a / b, stream.meta)["perplexity"] for a, b in drawn.tolist()]))


class ContextLoss(NamedTuple):
    """The mean loss of tokens with so many tokens of the text before them: the smallest and the largest number."""

    first: int
    last: int
    loss: float

    @property
    def label(self) -> str:
        return f"{self.first:,}" if self.first == self.last else f"{self.first:,}–{self.last:,}"


def loss_by_context(losses: Losses) -> list[ContextLoss]:
    """(B, L) losses of stretches → by numbers of tokens that double."""
    length = losses.shape[1]
    bounds = [0, *(2**i for i in range(length.bit_length()) if 2**i < length), length]
    return [ContextLoss(a, b - 1, float(losses[:, a:b].mean(dtype=np.float64))) for a, b in pairwise(bounds)]


def context_table(rows: Sequence[ContextLoss]) -> str:
    """The loss by length of the context, with bars."""
    width, most = max(len(row.label) for row in rows), max(row.loss for row in rows) or 1.0
    lines = [f"  {row.label:>{width}}  {row.loss:6.3f}  {'█' * round(30 * row.loss / most)}" for row in rows]
    return "\n".join(["loss per token, by tokens of the text before it:", *lines]) + "\n"
