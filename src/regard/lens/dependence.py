"""What each output depends on: gradients, and what happens when a source word is left out. For any architecture.

S source tokens, T target tokens, W source words, V symbols, D size of an embedding
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import UserError
from regard.lens.words import TokenizedText
from regard.models import TranslationModel
from regard.nn import Trace

_MAX_LOGITS = 2**24  # at once, while words are left out

Matrix = NDArray[np.float32]


class Dependence(NamedTuple):
    """How much each output depends on the source."""

    gradients: Tensor  # (T, S): ‖∂ log p(y_t) / ∂ e_i‖ for every output y_t and the embedding e_i of a source token
    left_out: Tensor  # (T, W): log p(y_t | source) − log p(y_t | source without the word); 0 for special symbols


def measure_dependence(
    model: TranslationModel, source: TokenizedText, inputs: Sequence[int], outputs: Sequence[int]
) -> Dependence:
    """For given target tokens; `inputs` are the same, one position later."""
    gradients = source_gradients(model, source.ids, inputs, outputs)
    return Dependence(gradients, _falls_without_words(model, source, inputs, outputs))


def source_gradients(
    model: TranslationModel, source: Sequence[int], inputs: Sequence[int], outputs: Sequence[int]
) -> Tensor:
    """(T, S): ‖∂ log p(y_t) / ∂ e_i‖."""
    trace = Trace(gradient=True)
    with torch.inference_mode(False), torch.enable_grad():
        log_probs = model(torch.tensor([source]), torch.tensor([inputs]), trace)[0].log_softmax(-1)  # (T, V)
        embeddings = [site.path for site in trace.sites("embedding") if site.axes == ("source", "unit")]
        if not embeddings:
            raise UserError("this model does not show its source embeddings, so there are no gradients of them")
        chosen = log_probs[range(len(outputs)), list(outputs)]  # (T,)
        rows = [torch.autograd.grad(value, trace[embeddings[0]], retain_graph=True)[0] for value in chosen]
    return torch.stack([row[0].norm(dim=-1) for row in rows])  # T × (1, S, D) → (T, S)


def _falls_without_words(
    model: TranslationModel, source: TokenizedText, inputs: Sequence[int], outputs: Sequence[int]
) -> Tensor:
    """(T, W): how much each log-probability falls when a word is left out; negative if it rises."""
    falls = torch.zeros(len(outputs), len(source.words))
    words = [number for number, word in enumerate(source.words) if not word.special]
    whole = _log_probs(model, [source.ids], inputs, outputs)[0]  # (T,)
    n_at_once = max(1, _MAX_LOGITS // (len(outputs) * len(model.output_weight)))
    for start in range(0, len(words), n_at_once):
        numbers = words[start : start + n_at_once]
        shorter = [[piece.id for piece in source.pieces if piece.word != number] for number in numbers]
        falls[:, numbers] = (whole - _log_probs(model, shorter, inputs, outputs)).T
    return falls


@torch.inference_mode()
def _log_probs(
    model: TranslationModel, sources: list[list[int]], inputs: Sequence[int], outputs: Sequence[int]
) -> Tensor:
    """B sources, T outputs → (B, T)."""
    src = torch.full((len(sources), max(map(len, sources))), model.pad_id)
    for row, ids in zip(src, sources, strict=True):
        row[: len(ids)] = torch.tensor(ids)
    tgt_in, chosen = (torch.tensor([ids]).expand(len(sources), -1) for ids in (inputs, outputs))  # (B, T)
    log_probs: Tensor = model(src, tgt_in).log_softmax(-1)  # (B, T, V)
    return log_probs.gather(2, chosen[:, :, None])[:, :, 0]


def rank_agreement(a: Matrix, b: Matrix) -> NDArray[np.float64]:
    """(T, W), (T, W) → (T,): Kendall's τ-b of each pair of rows.

    1 if both rank the words in the same order, −1 in reverse; NaN if a row is constant, and so ranks nothing.
    """
    signs_a, signs_b = (np.sign(x[:, :, None] - x[:, None, :]) for x in (a, b))  # (T, W, W): +1, 0 or −1 per pair
    concordant = (signs_a * signs_b).sum((1, 2), dtype=np.float64)
    pairs = np.abs(signs_a).sum((1, 2), dtype=np.float64) * np.abs(signs_b).sum((1, 2), dtype=np.float64)
    with np.errstate(invalid="ignore"):
        return np.where(pairs > 0, concordant / np.sqrt(pairs), np.nan)
