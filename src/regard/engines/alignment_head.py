"""Selects the attention head that aligns best, measured on validation pairs.

No human alignments are needed: IBM model 1 (Brown et al., 1993) is estimated on the pairs in both directions, and a
source and a target token are linked if both directions agree. The score of a head is the weight that it gives, on
average, to the tokens linked to a target token, at the step that produces this target token (its row in `tgt_out`).
Many heads attend to the previous token instead and get a low score.

Shapes: B batch, H heads, T target, S source, N cells, i.e. all (target position, source position) of all pairs
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.artifact import LoadedModel
from regard.artifact.directory import COPY_AGAIN
from regard.data import NO_TARGET, Batch
from regard.errors import ArtifactError
from regard.models import TranslationModel, attention_sites, model_sites
from regard.nn import Site, Trace

_EM_STEPS = 5


class HeadScores(NamedTuple):
    """Measures of each head that attends from the target to the source: (layers, H)."""

    agreement: Tensor  # weight on linked source tokens, averaged over linked target tokens
    sharpness: Tensor  # largest weight, averaged over all target tokens
    n_links: int  # linked target tokens


def alignment_head(loaded: LoadedModel) -> tuple[int, int] | None:
    """(layer, head) of the cross-attention head that aligns best, from the model's facts; None if they name no head."""
    named = loaded.facts.get("alignment_head")
    match named:
        case None:
            return None
        case {"layer": int(layer), "head": int(head)}:
            layers = alignment_sites(model_sites(loaded.model))
            if layer in range(len(layers)) and head in range(layers[layer].shape[0]):
                return layer, head
    raise ArtifactError(f"the model has no alignment head {named!r}", hint=COPY_AGAIN)


def alignment_sites(sites: tuple[Site, ...]) -> list[Site]:
    """The attention from the target to the source, one site per layer. A model may have none."""
    return attention_sites(sites, "target", "source")


def alignment_facts(model: TranslationModel, batches: Iterable[Batch]) -> dict[str, Any]:
    """Facts about a model: its alignment head, and the measures of all heads. None without attention to the source.

    One or two thousand validation pairs are enough. All of them are in memory at once.
    """
    if not alignment_sites(model_sites(model)):
        return {}
    scores = score_heads(model, list(batches))
    tables = {"agreement": scores.agreement, "sharpness": scores.sharpness}
    rounded = {name: [[round(value, 3) for value in row] for row in table.tolist()] for name, table in tables.items()}
    return {"alignment_head": select_alignment_head(scores), "cross_heads": rounded}


def select_alignment_head(scores: HeadScores) -> dict[str, Any]:
    """Layer, number and measures of the best head."""
    agreement, sharpness, n_links = scores
    # without any link (very few pairs), the sharpest head is the best guess
    best = int((agreement if n_links else sharpness).argmax())
    layer, head = divmod(best, agreement.shape[1])
    return {
        "layer": layer,
        "head": head,
        "sharpness": round(float(sharpness[layer, head]), 4),
        "agreement": round(float(agreement[layer, head]), 4),
        "n_links": n_links,
    }


@torch.no_grad()
def score_heads(model: TranslationModel, batches: Sequence[Batch]) -> HeadScores:
    """Agreement and sharpness of every head that attends to the source."""
    links = link_tokens(batches, model.pad_id)
    sites = alignment_sites(model_sites(model))
    agreement, sharpness = (torch.zeros(len(sites), max(site.shape[0] for site in sites)) for _ in range(2))
    n_links = n_tokens = 0
    was_training = model.training
    model.eval()
    for batch, batch_links in zip(batches, links, strict=True):
        trace = Trace()
        model.features(batch.inputs[0], batch.inputs[1], trace)
        is_token = _is_token(batch.targets[0], NO_TARGET)  # (B, T)
        for i, site in enumerate(sites):
            weights = trace[site.path].float().transpose(0, 1).cpu()  # (H, B, T, S)
            agreement[i, : len(weights)] += (weights * batch_links).sum((1, 2, 3))
            sharpness[i, : len(weights)] += weights.amax(-1)[:, is_token].sum(-1)
        n_links += int(batch_links.any(-1).sum())
        n_tokens += int(is_token.sum())
    model.train(was_training)
    return HeadScores(agreement / max(n_links, 1), sharpness / max(n_tokens, 1), n_links)


def link_tokens(batches: Sequence[Batch], pad_id: int) -> list[Tensor]:
    """For each batch (B, T, S): whether a target and a source token are linked.

    IBM model 1 ignores word order, so if a linked source token occurs several times, all its occurrences are linked.
    The end token plays the role of the model's NULL word and is never linked.
    """
    cells = [_cells(batch, pad_id) for batch in batches]
    offsets = torch.tensor([0, *(batch_cells.n_positions for batch_cells in cells)]).cumsum(0)
    src = torch.cat([batch_cells.src for batch_cells in cells])
    tgt = torch.cat([batch_cells.tgt for batch_cells in cells])
    tgt_position, src_position = (
        torch.cat([getattr(batch_cells, name) + offset for batch_cells, offset in zip(cells, offsets, strict=False)])
        for name in ("tgt_position", "src_position")
    )
    is_best_source = _is_best(_ibm_model_1(src, tgt, tgt_position), tgt_position)
    is_best_target = _is_best(_ibm_model_1(tgt, src, src_position), src_position)
    is_linked = (is_best_source & is_best_target).split([len(batch_cells.src) for batch_cells in cells])
    links = []
    for batch, batch_cells, batch_is_linked in zip(batches, cells, is_linked, strict=True):
        batch_links = torch.zeros(batch_cells.shape, dtype=torch.bool)  # (B, T, S)
        batch_links[batch_cells.where] = batch_is_linked
        are_tokens = _is_token(batch.targets[0], NO_TARGET)[:, :, None] & _is_token(batch.inputs[0], pad_id)[:, None, :]
        links.append(batch_links & are_tokens)
    return links


class _Cells(NamedTuple):
    """Every (target position, source position) of a batch that is not padding, in one row: (N,)."""

    shape: tuple[int, int, int]  # (B, T, S)
    where: tuple[Tensor, ...]  # row, target position, source position
    src: Tensor  # source token
    tgt: Tensor  # target token
    src_position: Tensor  # numbered across the rows of the batch
    tgt_position: Tensor
    n_positions: int  # upper limit of both


def _cells(batch: Batch, pad_id: int) -> _Cells:
    src, tgt = batch.inputs[0].cpu(), batch.targets[0].cpu()
    n_rows, n_tgt, n_src = len(src), tgt.shape[1], src.shape[1]
    where = ((tgt != NO_TARGET)[:, :, None] & (src != pad_id)[:, None, :]).nonzero(as_tuple=True)
    row, t, s = where
    longest = max(n_src, n_tgt)
    return _Cells(
        (n_rows, n_tgt, n_src),
        where,
        src[row, s],
        tgt[row, t],
        row * longest + s,
        row * longest + t,
        n_rows * longest,
    )


def _ibm_model_1(given: Tensor, observed: Tensor, position: Tensor) -> Tensor:
    """t(observed | given) of each cell (N,), by expectation maximisation. `position` is that of the observed token."""
    pair, cell_pair = torch.unique(given * (int(observed.max()) + 1) + observed, return_inverse=True)
    n_pairs, n_positions, n_given = len(pair), int(position.max()) + 1, int(given.max()) + 1
    pair_given = torch.empty(n_pairs, dtype=torch.long).scatter_(0, cell_pair, given)
    t = torch.ones(n_pairs, dtype=torch.float64)
    for _ in range(_EM_STEPS):
        p = t[cell_pair]  # expectation: how probable is it that this given token explains the observed one?
        p = p / torch.zeros(n_positions, dtype=p.dtype).index_add_(0, position, p)[position]
        count = torch.zeros(n_pairs, dtype=p.dtype).index_add_(0, cell_pair, p)  # maximisation
        t = count / torch.zeros(n_given, dtype=p.dtype).index_add_(0, pair_given, count)[pair_given]
    return t[cell_pair]


def _is_best(t: Tensor, position: Tensor) -> Tensor:
    """Which cells (N,) are the most likely of their position. Equal tokens are equally likely."""
    best = torch.zeros(int(position.max()) + 1, dtype=t.dtype).scatter_reduce_(0, position, t, "amax")
    return t >= best[position] * (1 - 1e-9)


def _is_token(ids: Tensor, pad_id: int) -> Tensor:
    """(B, T): True except for padding and the end token, which is the last one before it."""
    ids = ids.cpu()
    end_position = (ids != pad_id).sum(-1, keepdim=True) - 1  # (B, 1)
    return torch.arange(ids.shape[1])[None] < end_position
