"""The alignment head is the head that attends to the translation of the token that it helps to produce."""

import random
from typing import Any

import torch
from torch import Tensor

from regard.data import Batch, collate_pairs
from regard.engines.alignment_head import alignment_facts, link_tokens, score_heads, select_alignment_head
from regard.models import Transformer, TransformerConfig
from regard.nn import Trace

DICTIONARY = {source: source + 100 for source in range(4, 60)}  # each source token has one translation


def make_batches(n_pairs: int, seed: int = 1) -> tuple[list[Batch], list[list[list[int]]]]:
    """Pairs whose target is the translated source in random order, and the source position of each target token."""
    rng = random.Random(seed)
    batches, orders = [], []
    for _ in range(n_pairs // 20):
        pairs, batch_orders = [], []
        for _ in range(20):
            source = rng.sample(sorted(DICTIONARY), rng.randint(3, 9))
            order = rng.sample(range(len(source)), len(source))
            pairs.append((source, [DICTIONARY[source[i]] for i in order]))
            batch_orders.append(order)
        batches.append(collate_pairs(pairs, pad_id=0, bos_id=2, eos_id=3))
        orders.append(batch_orders)
    return batches, orders


class FakeModel:
    """A model whose heads have known weights. Head (1, 2) gives 0.7 to the translation of the produced token."""

    pad_id, training = 0, False
    output_weight = torch.zeros(1)

    def eval(self) -> None: ...

    def train(self, mode: bool) -> None: ...

    def __call__(self, src: Tensor, tgt_in: Tensor, trace: Trace) -> None:
        self.features(src, tgt_in, trace)

    def features(self, src: Tensor, tgt_in: Tensor, trace: Trace) -> None:
        n_rows, n_tgt, n_src = len(src), tgt_in.shape[1], src.shape[1]
        produced = torch.cat([tgt_in[:, 1:], torch.zeros_like(tgt_in[:, :1])], 1)  # (B, T)
        uniform = torch.full((n_rows, n_tgt, n_src), 1 / n_src)
        previous = 0.95 * (src[:, None, :] == tgt_in[:, :, None] - 100) + 0.05 / n_src
        aligned = 0.7 * (src[:, None, :] == produced[:, :, None] - 100) + 0.3 / n_src
        end = torch.zeros(n_rows, n_tgt, n_src)
        end[:, :, -1] = 1.0  # the sharpest possible
        for name, heads in (("first", [uniform, previous, end]), ("second", [uniform, end, aligned])):
            trace.record(name, torch.stack(heads, 1), kind="attention", axes=("head", "target", "source"))


def test_links_equal_the_dictionary() -> None:
    batches, orders = make_batches(200)
    n_links = n_correct = n_tokens = 0
    for links, batch_orders in zip(link_tokens(batches, pad_id=0), orders, strict=True):
        for row, order in zip(links, batch_orders, strict=True):
            n_tokens += len(order)
            n_links += int(row.sum())
            n_correct += sum(bool(row[t, s]) for t, s in enumerate(order))
    assert n_correct == n_links
    assert n_links > 0.95 * n_tokens


def test_the_head_on_the_linked_token_is_selected_over_sharper_ones() -> None:
    batches, _ = make_batches(200)
    model: Any = FakeModel()
    selected = select_alignment_head(score_heads(model, batches))
    assert (selected["layer"], selected["head"]) == (1, 2)
    assert 0.7 <= selected["agreement"] < 0.8
    assert 0.7 <= selected["sharpness"] < 0.8
    assert selected["n_links"] > 500
    facts = alignment_facts(model, batches)
    assert facts["alignment_head"] == selected
    assert [len(row) for row in facts["cross_heads"]["agreement"]] == [3, 3]
    assert facts["cross_heads"]["agreement"][1][2] == round(selected["agreement"], 3)


def test_a_head_on_the_previous_token_has_low_agreement() -> None:
    batches, _ = make_batches(200)
    model: Any = FakeModel()
    scores = score_heads(model, batches)
    assert scores.sharpness[0, 1] > 0.7
    assert scores.agreement[0, 1] < 0.2


def test_all_occurrences_of_a_linked_token_are_linked() -> None:
    batches = [collate_pairs([([5, 6, 5], [105, 106])] * 3 + [([6], [106])], pad_id=0, bos_id=2, eos_id=3)]
    (links,) = link_tokens(batches, pad_id=0)
    assert links[0].int().tolist() == [[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]


def test_padding_and_the_end_token_are_never_linked() -> None:
    batches, _ = make_batches(40)
    for batch, links in zip(batches, link_tokens(batches, pad_id=0), strict=True):
        assert not links[(batch.targets[0] == 0) | (batch.targets[0] == 3)].any()
        assert not links.transpose(1, 2)[(batch.inputs[0] == 0) | (batch.inputs[0] == 3)].any()


def test_measuring_is_deterministic_and_keeps_the_training_mode() -> None:
    config = TransformerConfig(n_encoder_layers=1, n_decoder_layers=2, d_model=16, d_ff=16, n_heads=4)
    torch.manual_seed(1)
    model = Transformer(config, 200, 200).train()
    batches, _ = make_batches(20)
    selected = select_alignment_head(score_heads(model, batches))
    assert selected == select_alignment_head(score_heads(model, batches))
    assert selected["layer"] in range(2)
    assert selected["head"] in range(4)
    assert model.training


def test_without_any_link_the_sharpest_head_is_selected() -> None:
    model: Any = FakeModel()
    batches = [collate_pairs([([], [])], pad_id=0, bos_id=2, eos_id=3)]
    scores = score_heads(model, batches)
    scores.sharpness[1, 0] = 2.0  # a single end token has no sharpness
    selected = select_alignment_head(scores)
    assert (selected["layer"], selected["head"], selected["n_links"]) == (1, 0, 0)
