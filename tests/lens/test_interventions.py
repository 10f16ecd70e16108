"""Something is changed in a model: exactly that, and nothing in the model itself."""

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.decoding import DecodingOptions
from regard.errors import UserError
from regard.lens import Head, Interventions, Lens
from regard.lens.ablate import ShuffledPositions, altered, shared_copy
from regard.lens.interventions import all_heads
from regard.lens.search import begin, find
from regard.models import Transformer
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
    """One whose translations are short."""
    return make_lens(norm="pre", ends=0.8)


def test_nothing_changed_is_the_model_itself(model: Transformer) -> None:
    assert altered(model, Interventions(), 5) is model
    assert not Interventions()
    assert all(ALL)


def test_a_copy_shares_every_weight_and_computes_the_same(model: Transformer) -> None:
    copied = shared_copy(model)
    for (name, mine), (other, its) in zip(model.named_parameters(), copied.named_parameters(), strict=True):
        assert name == other
        assert mine is its
    assert torch.equal(run(copied), run(model))


@pytest.mark.parametrize("interventions", ALL, ids=NAMES)
def test_the_model_stays_as_it_was(model: Transformer, interventions: Interventions) -> None:
    before, state = run(model), {name: value.clone() for name, value in model.state_dict().items()}
    changed = run(altered(model, interventions, 5))
    assert not torch.allclose(changed, before, atol=1e-3)
    assert torch.equal(run(model), before)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("head", [Head("encoder", 1, 0), Head("decoder", 0, 3), Head("cross", 1, 2)], ids=str)
@pytest.mark.parametrize("kind", ["scaled_dot_product", "dot_product", "additive"])
def test_a_head_that_is_off_brings_back_zeros(make_lens: LensMaker, head: Head, kind: str) -> None:
    model = make_lens(attention=kind).loaded.model
    plain, trace = Trace(), Trace()
    run(model, plain)
    run(altered(model, Interventions(heads_off=frozenset([head])), 5), trace)
    stack = "encoder" if head.attention == "encoder" else "decoder"
    use = "cross" if head.attention == "cross" else "self"
    place = f"{stack}.{head.layer}.{use}"
    module = getattr(getattr(model, stack)[head.layer], f"{use}_attention")
    heads = plain[f"{place}.heads"].clone()
    heads[:, head.head] = 0
    assert torch.equal(trace[f"{place}.heads"], heads)  # what comes before this head's layer is as it was
    by_hand = heads.transpose(1, 2).flatten(2) @ module.out.weight.t() + module.out.bias
    torch.testing.assert_close(trace[f"{place}.added"], by_hand.detach(), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("interventions", [one for one in ALL if one.mask])
def test_steps_and_one_pass_agree_while_the_mask_is_there(model: Transformer, interventions: Interventions) -> None:
    changed = altered(model, interventions, 5)
    whole = run(changed).log_softmax(-1)
    with torch.no_grad():
        step, state = begin(changed, changed.encode(torch.tensor(SOURCE)), masked=True)
        for place, symbol in enumerate(TARGET[0]):
            log_probs, state = step(torch.tensor([symbol]), state)
            torch.testing.assert_close(log_probs, whole[:, place], atol=1e-4, rtol=1e-4)


def test_heads_off_from_a_step_are_off_too(model: Transformer) -> None:
    """All heads over the source off: the source no longer matters."""
    off = Interventions(heads_off=frozenset(head for head in all_heads(model.config) if head.attention == "cross"))
    changed = altered(model, off, 5)
    ids = {"begin_id": 2, "end_id": 3}
    with torch.no_grad():
        found = [
            find(changed, torch.tensor([row]), [4], DecodingOptions(beam=2), **ids)[0].ids
            for row in (SOURCE[0], [9, 9, 8, 8, 3])
        ]
        plain = [
            find(model, torch.tensor([row]), [4], DecodingOptions(beam=2), **ids)[0].ids
            for row in (SOURCE[0], [9, 9, 8, 8, 3])
        ]
    assert found[0] == found[1]
    assert plain[0] != plain[1]


def test_without_the_scale_scores_stay_raw(model: Transformer) -> None:
    trace = Trace()
    run(altered(model, Interventions(scale=False), 5), trace)
    for place in ("encoder.0.self", "decoder.1.self", "decoder.0.cross"):
        assert torch.equal(trace[f"{place}.scaled"], trace[f"{place}.scores"])


@pytest.mark.parametrize("kind", ["dot_product", "additive"])
def test_a_scale_that_is_not_there_can_not_be_left_out(make_lens: LensMaker, kind: str) -> None:
    lens = make_lens(attention=kind)
    for ask in (lens.change, lambda text, what: lens.look(text, interventions=what)):
        with pytest.raises(UserError, match=rf"\({kind}\) has no scale to leave out; hint: only scaled_dot_product"):
            ask("one two", Interventions(scale=False))


def test_without_the_mask_the_first_position_sees_the_last(model: Transformer) -> None:
    trace = Trace()
    run(altered(model, Interventions(mask=False), 5), trace)
    assert "decoder.0.self.visible" not in trace
    assert bool((trace["decoder.0.self.weights"] > 0).all())


def test_without_the_mask_every_step_reads_the_whole_prefix_again(model: Transformer) -> None:
    changed = altered(model, Interventions(mask=False), 5)
    with torch.no_grad():
        memory = changed.encode(torch.tensor(SOURCE))
        step, state = begin(changed, memory, masked=False)
        cached, cache = begin(changed, memory, masked=True)
        for place, symbol in enumerate(TARGET[0]):
            log_probs, state = step(torch.tensor([symbol]), state)
            wrong, cache = cached(torch.tensor([symbol]), cache)
            prefix = torch.tensor([TARGET[0][: place + 1]])
            expected = changed(torch.tensor(SOURCE), prefix)[:, -1].log_softmax(-1)
            torch.testing.assert_close(log_probs, expected)
        assert not torch.allclose(wrong, log_probs, atol=1e-3)


def test_a_beam_without_the_mask_moves_its_prefixes(model: Transformer) -> None:
    changed = altered(model, Interventions(mask=False), 5)
    ids = {"begin_id": 2, "end_id": 3, "masked": False}
    with torch.no_grad():
        (found,) = find(changed, torch.tensor(SOURCE), [4], DecodingOptions(beam=3), **ids)
        for place in range(len(found.ids)):
            prefix = torch.tensor([[2, *found.ids[:place]]])
            log_probs = changed(torch.tensor(SOURCE), prefix)[0, -1].log_softmax(-1)
            assert float(log_probs[found.ids[place]]) == pytest.approx(found.log_probs[place], abs=1e-4)
    assert len(found.ids) > 1


def test_no_positions_are_zeros_and_order_no_longer_matters(model: Transformer) -> None:
    trace, turned = Trace(), Trace()
    changed = altered(model, Interventions(positions="none"), 5)
    run(changed, trace)
    assert not trace["source.position"].any()
    assert not trace["target.position"].any()
    order = [3, 1, 0, 2, 4]
    with torch.no_grad():
        changed(torch.tensor(SOURCE)[:, order], torch.tensor(TARGET), turned)
    torch.testing.assert_close(turned["logits"], trace["logits"], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("positions", [SinusoidalPositions(16), LearnedPositions(16, 12)])
def test_shuffled_positions_are_the_same_ones_in_another_order(positions: Any) -> None:
    shuffled = ShuffledPositions(positions, 5)
    with torch.no_grad():
        table, found = positions(12 if isinstance(positions, LearnedPositions) else 15), shuffled(12)
    places = [shuffled.place(i) for i in range(12)]
    assert torch.equal(found, table[places])
    assert sorted(places[:5]) == [0, 1, 2, 3, 4]
    assert places[:5] != [0, 1, 2, 3, 4]
    assert sorted(places[5:10]) == [5, 6, 7, 8, 9]
    assert [shuffled.place(i) for i in range(12)] == places
    with torch.no_grad():
        assert torch.equal(shuffled(3, 4), found[4:7])
    if isinstance(positions, LearnedPositions):
        assert sorted(places[10:]) == [10, 11]


def test_two_words_are_swapped_and_one_stays() -> None:
    assert [ShuffledPositions(SinusoidalPositions(4), 2).place(i) for i in range(2)] == [1, 0]
    assert ShuffledPositions(SinusoidalPositions(4), 1).place(0) == 0


@pytest.mark.parametrize("interventions", ALL, ids=NAMES)
def test_a_change_shows_both_translations(brief: Lens, interventions: Interventions) -> None:
    change, plain = brief.change("one two", interventions), brief.look("one two")
    assert change.before.text == plain.target.text
    assert change.before.log_probability == pytest.approx(plain.log_probability, abs=1e-3)
    look = brief.look("one two", interventions=interventions)
    assert look.change == change
    assert look.target.text == change.after.text
    described = look.to_dict()
    assert described["interventions"] == interventions.to_dict()
    assert set(described["change"]["of_before"]) == {"log_probability", "words"}
    assert [word for word, _ in change.of_before.words] == [word for word, _ in change.before.words]
    assert change.of_before.log_probability != pytest.approx(change.before.log_probability, abs=1e-4)
    if interventions.mask:
        assert look.log_probability == pytest.approx(change.after.log_probability, abs=1e-3)


def test_a_given_translation_stays_and_only_its_probabilities_change(brief: Lens) -> None:
    off = Interventions(heads_off=frozenset([Head("cross", 0, 0)]))
    change = brief.look("one two", "three four", interventions=off).change
    assert change is not None
    assert change.before.text == change.after.text == "three four"
    assert change.after == change.of_before
    assert change.before.log_probability == pytest.approx(brief.look("one two", "three four").log_probability, abs=1e-4)
    assert change.after.log_probability != pytest.approx(change.before.log_probability, abs=1e-4)


def test_no_intervention_changes_nothing(brief: Lens) -> None:
    change = brief.change("one two", Interventions())
    assert change.before == change.after
    assert change.of_before.log_probability == pytest.approx(change.before.log_probability, abs=1e-3)
    assert brief.look("one two", interventions=Interventions()).change is None
