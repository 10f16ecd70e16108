"""Beam search over a toy step function."""

from itertools import pairwise

import pytest
import torch

from regard.decoding import DecodingOptions, EnsembleState, Hypothesis, decode, ensemble, score
from regard.decoding.beam import BeamStep, _Beam
from regard.decoding.candidates import best_candidates
from regard.errors import RecipeError

from .toys import BEGIN, END, Toy, make_sources


def best(n_best_lists: list[list[Hypothesis]]) -> list[Hypothesis]:
    return [hypotheses[0] for hypotheses in n_best_lists]


def test_beam_of_one_is_greedy() -> None:
    toy, sources = Toy(end_bonus=0.5), make_sources(40)
    for source, hypothesis in zip(sources, best(toy.decode(sources, beam=1)), strict=True):
        state, last, tokens = toy.start([source]), BEGIN, []
        while last != END and len(tokens) < len(source) + 50:
            log_probs, state = toy.step(torch.tensor([last]), state)
            last = int(log_probs[0].argmax())
            tokens.append(last)
        assert [*hypothesis.ids] == [token for token in tokens if token != END]


@pytest.mark.parametrize("length_penalty", [0.0, 0.6])
def test_a_larger_beam_rarely_scores_lower_than_greedy(length_penalty: float) -> None:
    toy, sources = Toy(vocab_size=30, end_bonus=1.0), make_sources(400)
    greedy = best(toy.decode(sources, beam=1, length_penalty=length_penalty))
    wide = best(toy.decode(sources, beam=8, length_penalty=length_penalty))
    n_as_good = sum(w.score >= g.score - 1e-6 for g, w in zip(greedy, wide, strict=True))
    assert n_as_good >= 0.99 * len(sources)


@pytest.mark.parametrize("length_penalty", [-0.5, 0.0, 0.6, 2.0])
def test_a_beam_of_all_translations_finds_the_best_ones(length_penalty: float) -> None:
    toy = Toy(vocab_size=4, end_bonus=0.3)
    for source in make_sources(3, longest=2):
        expected = toy.exhaustive(source, len(source) + 3, length_penalty)[:5]
        (hypotheses,) = toy.decode([source], beam=1000, extra_length=3, length_penalty=length_penalty, n_best=5)
        assert [hypothesis.ids for hypothesis in hypotheses] == [hypothesis.ids for hypothesis in expected]
        assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx([each.score for each in expected])


def test_stopping_early_changes_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = make_sources(60)
    early, late = Toy(sharpness=4.0), Toy(sharpness=4.0)
    stopped_early = early.decode(sources, beam=6, n_best=2)
    never = torch.full((1,), float("inf"))
    monkeypatch.setattr(_Beam, "_best_possible", lambda self, totals, length, alpha: never.expand_as(totals))
    assert late.decode(sources, beam=6, n_best=2) == stopped_early
    assert sum(early.batch_sizes) < sum(late.batch_sizes)


@pytest.mark.parametrize("beam", [1, 4])
def test_recording_beam_steps_changes_no_result(beam: int) -> None:
    toy, sources, steps = Toy(end_bonus=0.5), make_sources(20), list[BeamStep]()
    options = DecodingOptions(beam=beam)
    recorded = decode(toy.step, toy.start(sources), sources, options, begin_id=BEGIN, end_id=END, beam_steps=steps)
    assert recorded == Toy(end_bonus=0.5).decode(sources, beam=beam)
    assert len(steps) == len(toy.batch_sizes)
    n_finished = [0] * len(sources)
    for step in steps:
        assert step.candidates.totals.shape == (len(step.sentences), 2 * beam)
        for sentence, n in zip(step.sentences.tolist(), step.finished.sum(1).tolist(), strict=True):
            n_finished[sentence] += n
        live_totals = step.candidates.totals.gather(1, step.live)
        assert torch.equal(live_totals[step.totals.isfinite()], step.totals[step.totals.isfinite()])
    assert all(n_finished)


def test_alone_equals_in_a_batch() -> None:
    toy, sources = Toy(end_bonus=0.5), make_sources(30)
    together = toy.decode(sources, beam=4, n_best=3)
    assert together == [toy.decode([source], beam=4, n_best=3)[0] for source in sources]


def test_scoring_an_output_gives_its_beam_score() -> None:
    toy, sources = Toy(end_bonus=0.5), make_sources(30)
    hypotheses = best(toy.decode(sources, beam=4, length_penalty=0.6))
    ended = [i for i, hypothesis in enumerate(hypotheses) if len(hypothesis.log_probs) > len(hypothesis.ids)]
    state, targets = toy.start([sources[i] for i in ended]), [hypotheses[i].ids for i in ended]
    scored = score(toy.step, state, targets, begin_id=BEGIN, end_id=END, length_penalty=0.6)
    assert len(ended) > 20
    assert scored == [hypotheses[i] for i in ended]


def test_finished_sentences_leave_the_batch() -> None:
    toy, sources = Toy(), make_sources(50)
    n_best_lists = toy.decode(sources, beam=4, min_length=3)
    sizes = toy.batch_sizes
    assert sizes[0] == 50
    assert all(later <= earlier for earlier, later in pairwise(sizes[1:]))
    assert sizes[-1] < sizes[1] == 200
    assert all(n_best_lists)


def test_n_best_are_sorted_and_distinct() -> None:
    for hypotheses in Toy(end_bonus=0.5).decode(make_sources(30), beam=6, n_best=6):
        scores = [hypothesis.score for hypothesis in hypotheses]
        assert len(hypotheses) >= 5
        assert scores == sorted(scores, reverse=True)
        assert len({hypothesis.ids for hypothesis in hypotheses}) == len(hypotheses)


def test_no_sentences_give_no_hypotheses() -> None:
    assert Toy().decode([], beam=4) == []
    assert Toy().decode([], beam=1) == []


def test_a_translation_has_at_most_extra_length_tokens_more_than_its_source() -> None:
    sources = make_sources(20)
    for beam in (1, 4):
        hypotheses = best(Toy(end_bonus=-50.0).decode(sources, beam=beam, extra_length=3))
        assert [len(hypothesis.log_probs) for hypothesis in hypotheses] == [len(source) + 3 for source in sources]
        assert [len(hypothesis.ids) for hypothesis in hypotheses] == [len(source) + 3 for source in sources]


def test_a_prefix_is_part_of_the_result_and_of_its_score() -> None:
    toy, sources = Toy(end_bonus=0.5), make_sources(12)
    prefixes = [[2 + i % 5] * (i % 4) for i in range(12)]
    for beam in (1, 4):
        n_best_lists = toy.decode(sources, prefixes, beam=beam)
        targets = [hypothesis.ids for hypothesis in best(n_best_lists)]
        assert all(list(ids[: len(prefix)]) == prefix for ids, prefix in zip(targets, prefixes, strict=True))
        assert n_best_lists[::4] == toy.decode(sources[::4], beam=beam)  # these prefixes are empty
        assert n_best_lists == [
            toy.decode([source], [prefix], beam=beam)[0] for source, prefix in zip(sources, prefixes, strict=True)
        ]
        scored = score(toy.step, toy.start(sources), targets, begin_id=BEGIN, end_id=END, length_penalty=0.6)
        assert [each.score for each in scored] == pytest.approx([hypothesis.score for hypothesis in best(n_best_lists)])


def test_a_prefix_longer_than_the_limit_is_complete() -> None:
    ((hypothesis,),) = Toy().decode([[5]], [[2, 3, 4, 5]], beam=4, extra_length=0)
    assert hypothesis.ids[:4] == (2, 3, 4, 5)


def test_an_ensemble_of_a_model_with_itself_changes_nothing() -> None:
    toy, sources = Toy(end_bonus=0.5), make_sources(30)
    single = best(toy.decode(sources, beam=4))
    state = EnsembleState((toy.start(sources),) * 3)
    triple = best(decode(ensemble([toy.step] * 3), state, sources, DecodingOptions(), begin_id=BEGIN, end_id=END))
    assert [hypothesis.ids for hypothesis in triple] == [hypothesis.ids for hypothesis in single]
    scores = [hypothesis.score for hypothesis in single]
    assert [hypothesis.score for hypothesis in triple] == pytest.approx(scores, abs=1e-5)


def test_an_ensemble_averages_probabilities() -> None:
    toys, last = (Toy(), Toy(end_bonus=3.0)), torch.tensor([BEGIN])
    state = EnsembleState(tuple(toy.start([[5]]) for toy in toys))
    mean = ensemble([toy.step for toy in toys])(last, state)[0].exp()
    first, second = (toy.step(last, toy.start([[5]]))[0].exp() for toy in toys)
    torch.testing.assert_close(mean, (first + second) / 2)


@pytest.mark.parametrize("vocab_size", [5, 1024, 5003])
@pytest.mark.parametrize("n", [1, 8])
def test_candidates_by_groups_equal_those_of_a_full_sort(vocab_size: int, n: int) -> None:
    generator = torch.Generator().manual_seed(vocab_size)
    scores, log_probs = torch.randn(3, 4, generator=generator), torch.randn(3, 4, vocab_size, generator=generator)
    sums, indices = best_candidates(scores, log_probs, n)
    expected = (scores[..., None] + log_probs).flatten(1).sort(descending=True)
    assert torch.equal(sums, expected.values[:, :n])
    assert torch.equal(indices, expected.indices[:, :n])


@pytest.mark.parametrize("options", [{"beam": 0}, {"beam": 2, "n_best": 3}, {"n_best": 0}, {"extra_length": -1}])
def test_invalid_options_raise_recipe_error(options: dict[str, int]) -> None:
    with pytest.raises(RecipeError):
        Toy().decode([[5]], **options)
