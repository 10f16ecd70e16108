"""The alignment head is the one that looks at the partner of the symbol it helps to produce."""

import random
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from regard.data import Batch, collate
from regard.engines.alignment_head import alignment_facts, choose_alignment_head, link, measure_heads
from regard.models import Transformer, TransformerConfig
from regard.nn import Trace

PARTNERS = {s: s + 100 for s in range(4, 60)}  # a dictionary: each source symbol has one translation


def make_batches(n_pairs: int, seed: int = 1) -> tuple[list[Batch], list[list[list[int]]]]:
    """Pairs in which every symbol is translated and then all are shuffled, and where each came from."""
    rng = random.Random(seed)
    batches, origins = [], []
    for _ in range(n_pairs // 20):
        pairs, where = [], []
        for _ in range(20):
            source = rng.sample(sorted(PARTNERS), rng.randint(3, 9))
            order = rng.sample(range(len(source)), len(source))
            pairs.append((source, [PARTNERS[source[i]] for i in order]))
            where.append(order)
        batches.append(collate(pairs, pad_id=0, bos_id=2, eos_id=3))
        origins.append(where)
    return batches, origins


class Planted:
    """Stands in for a model: its heads look where the test says. (1, 2) looks at the partner with 0.7."""

    pad_id, training = 0, False
    config = SimpleNamespace(n_decoder_layers=2, n_heads=3)

    def eval(self) -> None: ...

    def train(self, mode: bool) -> None: ...

    def features(self, src: Tensor, tgt_in: Tensor, trace: Trace) -> None:
        n_rows, n_tgt, n_src = len(src), tgt_in.shape[1], src.shape[1]
        uniform = torch.full((n_rows, n_tgt, n_src), 1 / n_src)
        one_back = 0.95 * (src[:, None, :] == tgt_in[:, :, None] - 100) + 0.05 / n_src  # at what was just produced
        partner = 0.7 * (src[:, None, :] == self._next(tgt_in)[:, :, None] - 100) + 0.3 / n_src
        end = torch.zeros(n_rows, n_tgt, n_src)
        end[:, :, -1] = 1.0  # as sharp as can be
        trace.record("decoder.0.cross.weights", torch.stack([uniform, one_back, end], 1))
        trace.record("decoder.1.cross.weights", torch.stack([uniform, end, partner], 1))

    @staticmethod
    def _next(tgt_in: Tensor) -> Tensor:
        return torch.cat([tgt_in[:, 1:], torch.zeros_like(tgt_in[:, :1])], 1)


def test_links_are_the_dictionary() -> None:
    batches, origins = make_batches(200)
    found = right = total = 0
    for partner, batch_origins in zip(link(batches, pad_id=0), origins, strict=True):
        for row, order in zip(partner, batch_origins, strict=True):
            total += len(order)
            found += int(row.sum())
            right += sum(bool(row[t, s]) for t, s in enumerate(order))
    assert right == found  # what is linked is right
    assert found > 0.95 * total  # and nearly all is linked


def test_the_head_that_looks_at_the_partner_wins_over_sharper_ones() -> None:
    batches, _ = make_batches(200)
    model: Any = Planted()
    chosen = choose_alignment_head(measure_heads(model, batches))
    assert (chosen["layer"], chosen["head"]) == (1, 2)
    assert 0.7 <= chosen["agreement"] < 0.8
    assert 0.7 <= chosen["sharpness"] < 0.8
    assert chosen["n_links"] > 500
    said = alignment_facts(model, batches)
    assert said["alignment_head"] == chosen
    assert [len(row) for row in said["cross_heads"]["agreement"]] == [3, 3]
    assert said["cross_heads"]["agreement"][1][2] == round(chosen["agreement"], 3)


def test_looking_one_symbol_back_does_not_count() -> None:
    batches, _ = make_batches(200)
    model: Any = Planted()
    measured = measure_heads(model, batches)
    assert measured.sharpness[0, 1] > 0.7
    assert measured.agreement[0, 1] < 0.2


def test_a_symbol_that_comes_twice_is_a_partner_twice() -> None:
    batches = [collate([([5, 6, 5], [105, 106])] * 3 + [([6], [106])], pad_id=0, bos_id=2, eos_id=3)]
    (partner,) = link(batches, pad_id=0)
    assert partner[0].int().tolist() == [[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]


def test_padding_and_the_end_are_nobodys_partner() -> None:
    batches, _ = make_batches(40)
    for batch, partner in zip(batches, link(batches, pad_id=0), strict=True):
        assert not partner[(batch.tgt_out == 0) | (batch.tgt_out == 3)].any()
        assert not partner.transpose(1, 2)[(batch.src == 0) | (batch.src == 3)].any()


def test_any_model_gets_a_head_and_is_left_as_it_was() -> None:
    config = TransformerConfig(n_encoder_layers=1, n_decoder_layers=2, d_model=16, d_ff=16, n_heads=4)
    torch.manual_seed(1)
    model = Transformer(config, 200, 200).train()
    batches, _ = make_batches(20)
    chosen = choose_alignment_head(measure_heads(model, batches))
    assert chosen == choose_alignment_head(measure_heads(model, batches))
    assert chosen["layer"] in range(2)
    assert chosen["head"] in range(4)
    assert model.training


def test_without_any_link_the_sharpest_head_is_taken() -> None:
    model: Any = Planted()
    batches = [collate([([], [])], pad_id=0, bos_id=2, eos_id=3)]
    assert choose_alignment_head(measure_heads(model, batches))["n_links"] == 0
