"""Which head knows what came from where: chosen on held-out pairs, by measure.

There are no alignments made by people, so the pairs themselves have to say which symbols belong together: IBM model 1
(Brown et al., 1993) is estimated on them in both directions, and only links that both directions agree on count. A head
is as good as the weight that it gives, on average, to a target symbol's partner. The weights are those of the step that
produces the symbol (its row in `tgt_out`): many heads look one symbol back instead, and lose by this measure.

B batch, H heads, T target, S source, N all links or cells
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.artifact import LoadedModel
from regard.data import Batch
from regard.errors import ArtifactError
from regard.models import Transformer
from regard.nn import Trace

_EM_STEPS = 5


class HeadScores(NamedTuple):
    """What was measured of each decoder layer's heads, (layers, H)."""

    agreement: Tensor  # weight on the partner, averaged over linked target symbols
    sharpness: Tensor  # largest weight, averaged over all target symbols
    n_links: int


def alignment_head(loaded: LoadedModel) -> tuple[int, int] | None:
    """(layer, head) of the cross-attention head that aligns best, from the model's facts; None if they name no head."""
    named = loaded.facts.get("alignment_head")
    if named is None:
        return None
    match named:
        case {"layer": int(layer), "head": int(head)} if layer in range(
            loaded.config.n_decoder_layers
        ) and head in range(loaded.config.n_heads):
            return layer, head
    raise ArtifactError(f"the model has no alignment head {named!r}", hint="copy it again from where it was made")


def alignment_facts(model: Transformer, batches: Iterable[Batch]) -> dict[str, Any]:
    """A model's facts: the head to read alignments from, and what was measured of all of them.

    A thousand or two held-out pairs are enough; all of them are in memory at once.
    """
    scores = measure_heads(model, list(batches))
    rows = {"agreement": scores.agreement, "sharpness": scores.sharpness}
    measured = {name: [[round(value, 3) for value in row] for row in table.tolist()] for name, table in rows.items()}
    return {"alignment_head": choose_alignment_head(scores), "cross_heads": measured}


def choose_alignment_head(scores: HeadScores) -> dict[str, Any]:
    """The head to read alignments from: its layer, its number, and what was measured of it."""
    agreement, sharpness, n_links = scores
    # without a single link (a handful of pairs) the sharpest head is the best guess
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
def measure_heads(model: Transformer, batches: Sequence[Batch]) -> HeadScores:
    """Agreement and sharpness of every head of every decoder layer."""
    partners = link(batches, model.pad_id)
    n_layers, n_heads = model.config.n_decoder_layers, model.config.n_heads
    agreement, sharpness = torch.zeros(n_layers, n_heads), torch.zeros(n_layers, n_heads)
    n_links = n_symbols = 0
    was_training = model.training
    model.eval()
    for batch, partner in zip(batches, partners, strict=True):
        trace = Trace()
        model.features(batch.src, batch.tgt_in, trace)
        linked = partner.any(-1)  # (B, T)
        real = _real(batch.tgt_out, model.pad_id)
        for i in range(n_layers):
            weights = trace[f"decoder.{i}.cross.weights"].float().transpose(0, 1).cpu()  # (H, B, T, S)
            agreement[i] += (weights * partner).sum((1, 2, 3))
            sharpness[i] += weights.amax(-1)[:, real].sum(-1)
        n_links += int(linked.sum())
        n_symbols += int(real.sum())
    model.train(was_training)
    return HeadScores(agreement / max(n_links, 1), sharpness / max(n_symbols, 1), n_links)


def link(batches: Sequence[Batch], pad_id: int) -> list[Tensor]:
    """For each batch (B, T, S): where a source symbol is the partner of a target symbol.

    Partners are the same in both directions of the model. A partner that stands in the source several times is one in
    all its places, since the model knows no order. The end symbol stands in for "nothing" and is nobody's partner.
    """
    cells = [_cells(batch, pad_id) for batch in batches]
    offsets = torch.tensor([0, *(cell.n_symbols for cell in cells)]).cumsum(0)
    src = torch.cat([cell.src for cell in cells])
    tgt = torch.cat([cell.tgt for cell in cells])
    tgt_place, src_place = (
        torch.cat([getattr(cell, name) + offset for cell, offset in zip(cells, offsets, strict=False)])
        for name in ("tgt_place", "src_place")
    )
    forth = _is_best(_model_1(src, tgt, tgt_place), tgt_place)
    back = _is_best(_model_1(tgt, src, src_place), src_place)
    agreed = (forth & back).split([len(cell.src) for cell in cells])
    partners = []
    for batch, cell, chosen in zip(batches, cells, agreed, strict=True):
        partner = torch.zeros(cell.shape, dtype=torch.bool)
        partner[cell.where] = chosen
        inside = _real(batch.tgt_out, pad_id)[:, :, None] & _real(batch.src, pad_id)[:, None, :]
        partners.append(partner & inside)
    return partners


class _Cells(NamedTuple):
    """Every (target position, source position) of a batch that is not padding, one after the other: (N,)."""

    shape: tuple[int, int, int]  # (B, T, S)
    where: tuple[Tensor, ...]  # row, target position, source position
    src: Tensor  # the symbols
    tgt: Tensor
    src_place: Tensor  # a number for each position of the batch
    tgt_place: Tensor
    n_symbols: int  # places are below this


def _cells(batch: Batch, pad_id: int) -> _Cells:
    src, tgt = batch.src.cpu(), batch.tgt_out.cpu()
    n_rows, n_tgt, n_src = len(src), tgt.shape[1], src.shape[1]
    where = ((tgt != pad_id)[:, :, None] & (src != pad_id)[:, None, :]).nonzero(as_tuple=True)
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


def _model_1(given: Tensor, seen: Tensor, place: Tensor) -> Tensor:
    """t(seen | given) of each cell (N,) by expectation and maximisation; `place` numbers the positions of `seen`."""
    pair, cell_pair = torch.unique(given * (int(seen.max()) + 1) + seen, return_inverse=True)
    n_pairs, n_places, n_given = len(pair), int(place.max()) + 1, int(given.max()) + 1
    pair_given = torch.empty(n_pairs, dtype=torch.long).scatter_(0, cell_pair, given)
    t = torch.ones(n_pairs, dtype=torch.float64)
    for _ in range(_EM_STEPS):
        p = t[cell_pair]
        p = p / torch.zeros(n_places, dtype=p.dtype).index_add_(0, place, p)[place]  # who of the sentence explains it
        count = torch.zeros(n_pairs, dtype=p.dtype).index_add_(0, cell_pair, p)
        t = count / torch.zeros(n_given, dtype=p.dtype).index_add_(0, pair_given, count)[pair_given]
    return t[cell_pair]


def _is_best(t: Tensor, place: Tensor) -> Tensor:
    """Which cells (N,) are their position's likeliest; a symbol that stands there twice is so twice."""
    best = torch.zeros(int(place.max()) + 1, dtype=t.dtype).scatter_reduce_(0, place, t, "amax")
    return t >= best[place] * (1 - 1e-9)


def _real(ids: Tensor, pad_id: int) -> Tensor:
    """(B, T): what is neither padding nor the end symbol, which is the last before it."""
    ids = ids.cpu()
    last = (ids != pad_id).sum(-1, keepdim=True) - 1
    return torch.arange(ids.shape[1])[None] < last
