"""Interventions change exactly what they should, and never the original model."""

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.decoding import DecodingOptions
from regard.errors import UserError
from regard.lens import Head, Interventions, Lens
from regard.lens.ablate import ShuffledPositions, ablate, shared_copy
from regard.lens.anatomy import all_heads
from regard.lens.search import search, start_search
from regard.models import Transformer, model_sites
from regard.nn import LearnedPositions, SinusoidalPositions, Trace

from .conftest import LensMaker

SOURCE, TARGET = [[21, 305, 44, 310, 3]], [[2, 33, 290, 301, 18, 7]]
ALL = [
    Interventions(heads_off=frozenset([Head("encoder", 0, 1), Head("decoder", 1, 2), Head("cross", 1, 3)])),
    Interventions(scale=False),
    Interventions(mask=False),
    Interventions(positions="shuffled"),
    Interventions(positions="none"),
]
NAMES = ["heads", "scale", "mask", "shuffled", "no positions"]


def run(model: Transformer, trace: Trace | None = None) -> Tensor:
    with torch.no_grad():
        logits: Tensor = model(torch.tensor(SOURCE), torch.tensor(TARGET), trace)
    return logits


@pytest.fixture(scope="module")
def model(lens: Lens) -> Transformer:
    return lens.loaded.model


@pytest.fixture(scope="module")
def brief(make_lens: LensMaker) -> Lens:
    """A lens whose translations are short."""
    return make_lens(norm="pre", ends=0.8)


def test_no_intervention_returns_the_model_itself(model: Transformer) -> None:
    assert ablate(model, Interventions(), 5) is model
    assert not Interventions()
    assert all(ALL)


def test_copy_shares_every_weight_and_computes_the_same(model: Transformer) -> None:
    copied = shared_copy(model)
    for (name, weight), (copied_name, copied_weight) in zip(
        model.named_parameters(), copied.named_parameters(), strict=True
    ):
        assert name == copied_name
        assert weight is copied_weight
    assert torch.equal(run(copied), run(model))


@pytest.mark.parametrize("interventions", ALL, ids=NAMES)
def test_original_model_is_unchanged(model: Transformer, interventions: Interventions) -> None:
    before, state = run(model), {name: value.clone() for name, value in model.state_dict().items()}
    changed = run(ablate(model, interventions, 5))
    assert not torch.allclose(changed, before, atol=1e-3)
    assert torch.equal(run(model), before)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("head", [Head("encoder", 1, 0), Head("decoder", 0, 3), Head("cross", 1, 2)], ids=str)
@pytest.mark.parametrize("kind", ["scaled_dot_product", "dot_product", "additive"])
def test_ablated_head_outputs_zeros(make_lens: LensMaker, head: Head, kind: str) -> None:
    model = make_lens(attention=kind).loaded.model
    plain, trace = Trace(), Trace()
    run(model, plain)
    run(ablate(model, Interventions(heads_off=frozenset([head])), 5), trace)
    stack = "encoder" if head.attention == "encoder" else "decoder"
    use = "cross" if head.attention == "cross" else "self"
    path = f"{stack}.{head.layer}.{use}_attention"
    module = getattr(getattr(model, stack)[head.layer], f"{use}_attention")
    heads = plain[f"{path}.heads"].clone()
    heads[:, head.head] = 0
    assert torch.equal(trace[f"{path}.heads"], heads)  # earlier layers are unchanged
    by_hand = heads.transpose(1, 2).flatten(2) @ module.out.weight.t() + module.out.bias
    torch.testing.assert_close(trace[f"{path}.added"], by_hand.detach(), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("interventions", [interventions for interventions in ALL if interventions.mask])
def test_steps_and_one_pass_agree_with_the_mask(model: Transformer, interventions: Interventions) -> None:
    ablated = ablate(model, interventions, 5)
    whole = run(ablated).log_softmax(-1)
    with torch.no_grad():
        step, state = start_search(ablated, torch.tensor(SOURCE), masked=True)
        for position, token in enumerate(TARGET[0]):
            log_probs, state = step(torch.tensor([token]), state)
            torch.testing.assert_close(log_probs, whole[:, position], atol=1e-4, rtol=1e-4)


def test_ablation_applies_in_step_decoding(model: Transformer) -> None:
    """With all encoder–decoder heads off, the translation does not depend on the source."""
    off = Interventions(
        heads_off=frozenset(head for head in all_heads(model_sites(model)) if head.attention == "cross")
    )
    ablated = ablate(model, off, 5)
    ids = {"begin_id": 2, "end_id": 3}
    with torch.no_grad():
        ablated_ids = [
            search(ablated, torch.tensor([row]), DecodingOptions(beam=2), **ids)[0].ids
            for row in (SOURCE[0], [9, 9, 8, 8, 3])
        ]
        original_ids = [
            search(model, torch.tensor([row]), DecodingOptions(beam=2), **ids)[0].ids
            for row in (SOURCE[0], [9, 9, 8, 8, 3])
        ]
    assert ablated_ids[0] == ablated_ids[1]
    assert original_ids[0] != original_ids[1]


def test_without_the_scale_scores_are_not_divided(model: Transformer) -> None:
    trace = Trace()
    run(ablate(model, Interventions(scale=False), 5), trace)
    for path in ("encoder.0.self_attention", "decoder.1.self_attention", "decoder.0.cross_attention"):
        assert torch.equal(trace[f"{path}.scaled"], trace[f"{path}.scores"])


@pytest.mark.parametrize("kind", ["dot_product", "additive"])
def test_removing_a_scale_that_does_not_exist_is_an_error(make_lens: LensMaker, kind: str) -> None:
    lens = make_lens(attention=kind)
    for call in (lens.change, lambda text, change: lens.look(text, interventions=change)):
        with pytest.raises(UserError, match=r"has no scale to remove; hint: only scaled_dot_product"):
            call("one two", Interventions(scale=False))


def test_without_the_mask_the_first_position_sees_the_last(model: Transformer) -> None:
    trace = Trace()
    run(ablate(model, Interventions(mask=False), 5), trace)
    assert "decoder.0.self_attention.visible" not in trace
    assert bool((trace["decoder.0.self_attention.weights"] > 0).all())


def test_without_the_mask_every_step_recomputes_the_prefix(model: Transformer) -> None:
    ablated = ablate(model, Interventions(mask=False), 5)
    with torch.no_grad():
        step, state = start_search(ablated, torch.tensor(SOURCE), masked=False)
        cached, cache = start_search(ablated, torch.tensor(SOURCE), masked=True)
        for position, token in enumerate(TARGET[0]):
            log_probs, state = step(torch.tensor([token]), state)
            stale, cache = cached(torch.tensor([token]), cache)
            prefix = torch.tensor([TARGET[0][: position + 1]])
            expected = ablated(torch.tensor(SOURCE), prefix)[:, -1].log_softmax(-1)
            torch.testing.assert_close(log_probs, expected)
        assert not torch.allclose(stale, log_probs, atol=1e-3)


def test_beam_without_the_mask_reorders_its_prefixes(model: Transformer) -> None:
    ablated = ablate(model, Interventions(mask=False), 5)
    ids = {"begin_id": 2, "end_id": 3, "masked": False}
    with torch.no_grad():
        (hypothesis,) = search(ablated, torch.tensor(SOURCE), DecodingOptions(beam=3), **ids)
        for position in range(len(hypothesis.ids)):
            prefix = torch.tensor([[2, *hypothesis.ids[:position]]])
            log_probs = ablated(torch.tensor(SOURCE), prefix)[0, -1].log_softmax(-1)
            assert float(log_probs[hypothesis.ids[position]]) == pytest.approx(hypothesis.log_probs[position], abs=1e-4)
    assert len(hypothesis.ids) > 1


def test_without_positions_the_encoding_is_zero_and_order_has_no_effect(model: Transformer) -> None:
    trace, reordered = Trace(), Trace()
    ablated = ablate(model, Interventions(positions="none"), 5)
    run(ablated, trace)
    assert not trace["source.position"].any()
    assert not trace["target.position"].any()
    order = [3, 1, 0, 2, 4]
    with torch.no_grad():
        ablated(torch.tensor(SOURCE)[:, order], torch.tensor(TARGET), reordered)
    torch.testing.assert_close(reordered["logits"], trace["logits"], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("positions", [SinusoidalPositions(16), LearnedPositions(16, 12)])
def test_shuffled_positions_are_a_permutation_within_blocks(positions: Any) -> None:
    shuffled = ShuffledPositions(positions, 5)
    with torch.no_grad():
        table, encoding = positions(12 if isinstance(positions, LearnedPositions) else 15), shuffled(12)
    order = [shuffled.shuffled(i) for i in range(12)]
    assert torch.equal(encoding, table[order])
    assert sorted(order[:5]) == [0, 1, 2, 3, 4]
    assert order[:5] != [0, 1, 2, 3, 4]
    assert sorted(order[5:10]) == [5, 6, 7, 8, 9]
    assert [shuffled.shuffled(i) for i in range(12)] == order
    with torch.no_grad():
        assert torch.equal(shuffled(3, 4), encoding[4:7])
    if isinstance(positions, LearnedPositions):
        assert sorted(order[10:]) == [10, 11]


def test_two_positions_are_swapped_and_a_single_one_stays() -> None:
    assert [ShuffledPositions(SinusoidalPositions(4), 2).shuffled(i) for i in range(2)] == [1, 0]
    assert ShuffledPositions(SinusoidalPositions(4), 1).shuffled(0) == 0


@pytest.mark.parametrize("interventions", ALL, ids=NAMES)
def test_change_has_both_translations(brief: Lens, interventions: Interventions) -> None:
    change, plain = brief.change("one two", interventions), brief.look("one two")
    assert change.before.text == plain.target.text
    assert change.before.log_probability == pytest.approx(plain.log_probability, abs=1e-3)
    look = brief.look("one two", interventions=interventions)
    assert look.change == change
    assert look.target.text == change.after.text
    record = look.to_dict()
    assert record["interventions"] == interventions.to_dict()
    assert set(record["change"]["of_before"]) == {"log_probability", "words"}
    assert [word for word, _ in change.of_before.words] == [word for word, _ in change.before.words]
    assert change.of_before.log_probability != pytest.approx(change.before.log_probability, abs=1e-4)
    if interventions.mask:
        assert look.log_probability == pytest.approx(change.after.log_probability, abs=1e-3)
        assert change.of_before_in_use == change.of_before
    else:
        assert change.of_before_in_use.log_probability != pytest.approx(change.of_before.log_probability, abs=1e-4)


def test_score_in_use_without_the_mask_is_that_of_the_search(brief: Lens) -> None:
    same = [brief.change(text, Interventions(mask=False), beam=1) for text in ("one two", "two", "one", "two two")]
    same = [change for change in same if change.after.text == change.before.text]
    assert same
    for change in same:
        assert change.of_before_in_use.log_probability == pytest.approx(change.after.log_probability, abs=1e-4)


def test_given_translation_is_kept_and_only_its_probabilities_change(brief: Lens) -> None:
    off = Interventions(heads_off=frozenset([Head("cross", 0, 0)]))
    change = brief.look("one two", "three four", interventions=off).change
    assert change is not None
    assert change.before.text == change.after.text == "three four"
    assert change.after == change.of_before
    assert change.before.log_probability == pytest.approx(brief.look("one two", "three four").log_probability, abs=1e-4)
    assert change.after.log_probability != pytest.approx(change.before.log_probability, abs=1e-4)


def test_change_without_interventions_is_empty(brief: Lens) -> None:
    change = brief.change("one two", Interventions())
    assert change.before == change.after
    assert change.of_before.log_probability == pytest.approx(change.before.log_probability, abs=1e-3)
    assert brief.look("one two", interventions=Interventions()).change is None
