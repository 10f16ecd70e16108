"""Beam search, on step functions about which everything is known."""

import pytest
import torch

from regard.decoding import DecodingOptions, Hypothesis, decode, ensemble, ensemble_state, score
from regard.decoding.beam import BeamStep
from regard.decoding.candidates import best_candidates
from regard.errors import RecipeError

from .toys import BEGIN, END, Toy, sources


def ids(found: list[list[Hypothesis]]) -> list[tuple[int, ...]]:
    return [one[0].ids for one in found]


def test_beam_of_one_is_greedy() -> None:
    toy, lines = Toy(end_bonus=0.5), sources(40)
    greedy = toy.decode(lines, beam=1)
    for line, (found,) in zip(lines, greedy, strict=True):
        state, last, symbols = toy.start([line]), BEGIN, []
        while last != END and len(symbols) < len(line) + 50:
            log_probs, state = toy.step(torch.tensor([last]), state)
            last = int(log_probs[0].argmax())
            symbols.append(last)
        assert [*found.ids] == [symbol for symbol in symbols if symbol != END]


@pytest.mark.parametrize("length_penalty", [0.0, 0.6])
def test_a_bigger_beam_hardly_ever_scores_lower_than_greedy(length_penalty: float) -> None:
    toy, lines = Toy(n_symbols=30, end_bonus=1.0), sources(400)
    greedy = toy.decode(lines, beam=1, length_penalty=length_penalty)
    wide = toy.decode(lines, beam=8, length_penalty=length_penalty)
    as_good = [b[0].score >= a[0].score - 1e-6 for a, b in zip(greedy, wide, strict=True)]
    assert sum(as_good) >= 0.99 * len(lines)


@pytest.mark.parametrize("length_penalty", [-0.5, 0.0, 0.6, 2.0])
def test_a_beam_that_holds_everything_finds_the_best(length_penalty: float) -> None:
    toy = Toy(n_symbols=4, end_bonus=0.3)
    for line in sources(3, longest=2):
        limit = len(line) + 3
        best = toy.exhaustive(line, limit, length_penalty)[:5]
        found = toy.decode([line], beam=1000, extra_length=3, length_penalty=length_penalty, n_best=5)[0]
        assert [one.ids for one in found] == [one.ids for one in best]
        assert [one.score for one in found] == pytest.approx([one.score for one in best])


def test_ending_early_changes_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.decoding import beam

    lines = sources(60)
    quick, slow = Toy(sharpness=4.0), Toy(sharpness=4.0)
    found = quick.decode(lines, beam=6, n_best=2)
    never = torch.full((1,), float("inf"))
    monkeypatch.setattr(beam._Beam, "_best_possible", lambda self, totals, length, alpha: never.expand_as(totals))
    assert slow.decode(lines, beam=6, n_best=2) == found
    assert sum(quick.rows) < sum(slow.rows)


@pytest.mark.parametrize("beam", [1, 4])
def test_watching_a_beam_grow_changes_nothing(beam: int) -> None:
    toy, lines, beam_steps = Toy(end_bonus=0.5), sources(20), list[BeamStep]()
    asked = DecodingOptions(beam=beam)
    watched = decode(toy.step, toy.start(lines), lines, asked, begin_id=BEGIN, end_id=END, beam_steps=beam_steps)
    assert watched == Toy(end_bonus=0.5).decode(lines, beam=beam)
    assert len(beam_steps) == len(toy.rows)  # a step each
    n_finished = [0] * len(lines)
    for step in beam_steps:
        assert step.candidates.totals.shape == (len(step.sentences), 2 * beam)
        for number, over in zip(step.sentences.tolist(), step.finished.sum(1).tolist(), strict=True):
            n_finished[number] += over
        going = step.candidates.totals.gather(1, step.live)
        assert torch.equal(going[step.totals.isfinite()], step.totals[step.totals.isfinite()])
    assert all(n_finished)


def test_alone_equals_in_a_batch() -> None:
    toy, lines = Toy(end_bonus=0.5), sources(30)
    together = toy.decode(lines, beam=4, n_best=3)
    assert together == [toy.decode([line], beam=4, n_best=3)[0] for line in lines]


def test_scoring_an_output_gives_its_beam_score() -> None:
    toy, lines = Toy(end_bonus=0.5), sources(30)
    found = [one[0] for one in toy.decode(lines, beam=4, length_penalty=0.6)]
    ended = [i for i, one in enumerate(found) if len(one.log_probs) > len(one.ids)]
    chosen, outputs = [lines[i] for i in ended], [found[i].ids for i in ended]
    scored = score(toy.step, toy.start(chosen), outputs, begin_id=BEGIN, end_id=END, length_penalty=0.6)
    assert len(ended) > 20
    assert scored == [found[i] for i in ended]


def test_finished_sentences_leave_the_batch() -> None:
    toy, lines = Toy(), sources(50)
    found = toy.decode(lines, beam=4, min_length=3)
    assert toy.rows[0] == 50
    assert all(later <= earlier for earlier, later in zip(toy.rows[1:], toy.rows[2:], strict=False))
    assert toy.rows[-1] < toy.rows[1] == 200
    assert all(one for one in found)


def test_n_best_are_sorted_and_distinct() -> None:
    for found in Toy(end_bonus=0.5).decode(sources(30), beam=6, n_best=6):
        scores = [one.score for one in found]
        assert len(found) >= 5
        assert scores == sorted(scores, reverse=True)
        assert len({one.ids for one in found}) == len(found)


def test_no_sentences_give_no_hypotheses() -> None:
    assert Toy().decode([], beam=4) == []
    assert Toy().decode([], beam=1) == []


def test_a_translation_has_at_most_so_many_symbols_more_than_its_source() -> None:
    lines = sources(20)
    for beam in (1, 4):
        found = Toy(end_bonus=-50.0).decode(lines, beam=beam, extra_length=3)
        assert [len(one[0].log_probs) for one in found] == [len(line) + 3 for line in lines]
        assert [len(one[0].ids) for one in found] == [len(line) + 3 for line in lines]


def test_a_prefix_is_honoured_and_part_of_the_result_and_of_the_score() -> None:
    toy, lines = Toy(end_bonus=0.5), sources(12)
    prefixes = [[2 + i % 5] * (i % 4) for i in range(12)]
    for beam in (1, 4):
        found = toy.decode(lines, prefixes, beam=beam)
        assert all(list(one[0].ids[: len(prefix)]) == prefix for one, prefix in zip(found, prefixes, strict=True))
        free = toy.decode(lines[::4], beam=beam)
        assert found[::4] == free
        alone = [toy.decode([line], [prefix], beam=beam)[0] for line, prefix in zip(lines, prefixes, strict=True)]
        assert alone == found
        outputs = [one[0].ids for one in found]
        scored = score(toy.step, toy.start(lines), outputs, begin_id=BEGIN, end_id=END, length_penalty=0.6)
        assert [one.score for one in scored] == pytest.approx([one[0].score for one in found])


def test_a_prefix_longer_than_the_limit_is_still_whole() -> None:
    found = Toy().decode([[5]], [[2, 3, 4, 5]], beam=4, extra_length=0)
    assert found[0][0].ids[:4] == (2, 3, 4, 5)


def test_an_ensemble_of_a_model_with_itself_changes_nothing() -> None:
    toy, lines = Toy(end_bonus=0.5), sources(30)
    single = toy.decode(lines, beam=4)
    state = ensemble_state([toy.start(lines)] * 3)
    both = decode(ensemble([toy.step] * 3), state, lines, DecodingOptions(), begin_id=BEGIN, end_id=END)
    assert ids(both) == ids(single)
    assert [one[0].score for one in both] == pytest.approx([one[0].score for one in single], abs=1e-5)


def test_an_ensemble_averages_probabilities() -> None:
    one, other = Toy(), Toy(end_bonus=3.0)
    state = ensemble_state([one.start([[5]]), other.start([[5]])])
    mean = ensemble([one.step, other.step])(torch.tensor([BEGIN]), state)[0].exp()
    parts = [toy.step(torch.tensor([BEGIN]), toy.start([[5]]))[0].exp() for toy in (one, other)]
    torch.testing.assert_close(mean, (parts[0] + parts[1]) / 2)


@pytest.mark.parametrize("n_symbols", [5, 1024, 5003])
@pytest.mark.parametrize("n", [1, 8])
def test_candidates_by_groups_are_those_of_a_full_sort(n_symbols: int, n: int) -> None:
    generator = torch.Generator().manual_seed(n_symbols)
    scores, log_probs = torch.randn(3, 4, generator=generator), torch.randn(3, 4, n_symbols, generator=generator)
    found, places = best_candidates(scores, log_probs, n)
    expected = (scores[..., None] + log_probs).flatten(1).sort(descending=True)
    assert torch.equal(found, expected.values[:, :n])
    assert torch.equal(places, expected.indices[:, :n])


@pytest.mark.parametrize("options", [{"beam": 0}, {"beam": 2, "n_best": 3}, {"n_best": 0}, {"extra_length": -1}])
def test_options_that_make_no_sense_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(RecipeError):
        Toy().decode([[5]], **options)
