"""Search results for every architecture in MODELS."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from regard.decoding import DecodingOptions, EnsembleState, Hypothesis, Sampling, decode, ensemble, score
from regard.decoding.options import gnmt

Maker = Callable[..., nn.Module]
BEGIN, END, PAD = 2, 3, 0
SOURCES = [[5, 6, 7, 8], [9], [4, 4, 10, 11, 12, 13, 14], [7, 8], [6] * 5]
SEARCHES = [
    DecodingOptions(beam=1, extra_length=6),
    DecodingOptions(beam=4, extra_length=6, n_best=3),
    DecodingOptions(beam=3, extra_length=6, no_repeat_ngram=2, min_length=3, banned=(5,)),
    DecodingOptions(sampling=Sampling(top_k=6), extra_length=6, n_best=2),
]


def start_state(model: Any, sources: list[list[int]]) -> Any:
    longest = max(map(len, sources)) + 1
    src = torch.tensor([[*ids, END, *[PAD] * (longest - len(ids) - 1)] for ids in sources])
    return model.start(model.encode(src))


@torch.inference_mode()
def search(model: Any, sources: list[list[int]], options: DecodingOptions, **more: Any) -> list[list[Hypothesis]]:
    return decode(model.step, start_state(model, sources), sources, options, begin_id=BEGIN, end_id=END, **more)


def assert_equal(actual: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    assert [[h.ids for h in hypotheses] for hypotheses in actual] == [[h.ids for h in n_best] for n_best in expected]
    actual_scores, expected_scores = ([h.score for n_best in lists for h in n_best] for lists in (actual, expected))
    assert actual_scores == pytest.approx(expected_scores, abs=1e-4)


@pytest.mark.parametrize("options", SEARCHES)
def test_alone_equals_in_a_batch(make_model: Maker, options: DecodingOptions) -> None:
    model = make_model().eval()
    together = search(model, SOURCES, options)
    assert all(len(hypotheses) == options.n_best for hypotheses in together)
    assert_equal(together, [search(model, [source], options)[0] for source in SOURCES])


@pytest.mark.parametrize("beam", [1, 4])
@torch.inference_mode()
def test_scoring_an_output_gives_its_score(make_model: Maker, beam: int) -> None:
    model = make_model().eval()
    prefixes = [[6, 7], [], [8], [9, 10, 11], []]
    n_best_lists = search(model, SOURCES, DecodingOptions(beam=beam, extra_length=9), prefixes=prefixes)
    hypotheses = [n_best[0] for n_best in n_best_lists]
    for hypothesis, prefix in zip(hypotheses, prefixes, strict=True):
        assert list(hypothesis.ids[: len(prefix)]) == prefix
    targets, state = [hypothesis.ids for hypothesis in hypotheses], start_state(model, SOURCES)
    all_scored = score(model.step, state, targets, begin_id=BEGIN, end_id=END, length_penalty=0.6)
    for hypothesis, scored in zip(hypotheses, all_scored, strict=True):
        n = len(hypothesis.log_probs)  # one less than scored if the search was cut off before the end token
        assert scored.log_probs[:n] == pytest.approx(hypothesis.log_probs, abs=1e-4)
        assert hypothesis.score == pytest.approx(sum(scored.log_probs[:n]) / gnmt(n, 0.6), abs=1e-4)
        if n == len(scored.log_probs):
            assert scored.score == pytest.approx(hypothesis.score, abs=1e-4)


@torch.inference_mode()
def test_an_ensemble_of_a_model_with_itself_changes_nothing(make_model: Maker) -> None:
    model, options = make_model().eval(), SEARCHES[1]
    state = EnsembleState((start_state(model, SOURCES), start_state(model, SOURCES)))
    together = decode(ensemble([model.step, model.step]), state, SOURCES, options, begin_id=BEGIN, end_id=END)
    assert_equal(together, search(model, SOURCES, options))


@torch.inference_mode()
def test_state_select_takes_rows_in_any_order_any_number_of_times(make_model: Maker) -> None:
    """Beams in equal groups, in unequal groups, and mixed: the next step is that of the selected rows."""
    model = make_model().eval()
    last = torch.tensor([5, 6, 7, 8, 9])
    state = model.step(torch.full((5,), BEGIN), start_state(model, SOURCES))[1]
    for rows in ([0, 0, 1, 1, 2, 2, 3, 3, 4, 4], [1, 1, 3, 3], [0, 0, 1], [4, 2, 4, 0], [3], [0, 1, 2, 3, 4]):
        first, second = torch.tensor(rows), torch.arange(len(rows)).flip(0)
        expected, _ = model.step(last, state)
        beams = state.select(first)
        torch.testing.assert_close(model.step(last[first], beams)[0], expected[first], atol=1e-5, rtol=1e-4)
        reversed_beams = beams.select(second)
        both = first[second]
        torch.testing.assert_close(model.step(last[both], reversed_beams)[0], expected[both], atol=1e-5, rtol=1e-4)
