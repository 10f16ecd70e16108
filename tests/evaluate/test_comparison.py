"""Is B better than A? The same answers as sacreBLEU's own tests give, where those are sound."""

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest

from regard.errors import UserError
from regard.evaluate import compare, mark_changes
from regard.evaluate.comparison import Comparison
from regard.evaluate.measures import measures
from regard.evaluate.significance import p_value, swapped_sums

NAMES = ("BLEU", "chrF2++", "TER")


@pytest.fixture(scope="module", params=[(0.3, 0.3), (0.3, 0.26), (0.3, 0.2)], ids=["same", "close", "far"])
def systems(request, references, spoil) -> tuple[list[str], list[str]]:
    return spoil(references, request.param[0], 2), spoil(references, request.param[1], 3)


@pytest.mark.parametrize("kind", ["bs", "ar"])
def test_p_values_agree_with_sacrebleu(systems, references, kind) -> None:
    ours = compare(*systems, [references], n_bootstrap=500, n_shuffles=500)
    metrics = {"BLEU": BLEU(force=True), "chrF": CHRF(word_order=2), "TER": TER()}
    test = PairedTest([("a", systems[0]), ("b", systems[1])], metrics, [references], test_type=kind, n_samples=500)
    _, theirs = test()
    for change, name in zip(ours.changes, NAMES, strict=True):
        p = change.p_bootstrap if kind == "bs" else change.p_randomization
        # TER has few values, so that trials often equal the observation: those count for us, and not for sacreBLEU
        assert -0.005 <= p - theirs[name][1].p_value <= (0.1 if name == "TER" else 0.005)
        assert (change.a, change.b) == (theirs[name][0].score, theirs[name][1].score)


def test_a_system_against_itself_differs_in_nothing(references, spoil) -> None:
    outputs = spoil(references, 0.3, 2)
    found = compare(outputs, outputs, [references])
    for change in found.changes:
        assert (change.difference, change.interval.low, change.interval.high) == (0, 0, 0)
        assert change.p_bootstrap == change.p_randomization == 1
        assert change.better is None
    assert (found.a_wins, found.ties, found.b_wins) == (0, len(references), 0)
    assert found.n_identical == len(references)
    assert found.better_in_a == found.better_in_b == ()
    assert found.verdict == "No measure shows a difference that chance would not explain."


def test_a_clearly_better_system_is_named_by_every_measure(references, spoil) -> None:
    bad, good = spoil(references, 0.4, 2), spoil(references, 0.1, 3)
    found = compare(bad, good, [references])
    assert [change.better for change in found.changes] == ["B", "B", "B"]
    assert found.verdict == "B is better by BLEU, chrF++ and TER."
    for change in found.changes:
        assert change.interval.low <= change.difference <= change.interval.high
        assert change.interval.low * change.interval.high > 0
    turned = compare(good, bad, [references])
    assert [change.better for change in turned.changes] == ["A", "A", "A"]
    assert [change.difference for change in turned.changes] == [-change.difference for change in found.changes]
    assert (turned.a_wins, turned.b_wins) == (found.b_wins, found.a_wins)


def test_equally_good_systems_are_seldom_told_apart(references, spoil) -> None:
    chrf = measures([references]).chrf
    p_values = []
    for seed in range(15):
        a, b = (chrf.measure(spoil(references, 0.3, one)) for one in (seed, -seed - 1))
        swapped_a, swapped_b = (chrf.values(sums) for sums in swapped_sums(a.statistics, b.statistics, 200, seed))
        p_values.append(p_value(abs(swapped_a - swapped_b), abs(a.value - b.value)))
    assert sum(p < 0.05 for p in p_values) <= 3
    assert 0.3 < sum(p_values) / len(p_values) < 0.7


def test_buckets_divide_all_sentences_by_length(systems, references) -> None:
    found = compare(*systems, [references], n_bootstrap=40, n_shuffles=40)
    assert sum(bucket.n_sentences for bucket in found.buckets) == len(references)
    assert [bucket.label for bucket in found.buckets] == ["1–5", "6–10", "11–20", "21–30", "31+"]
    short = [i for i, line in enumerate(references) if len(BLEU().tokenizer(line).split()) <= 5]
    a, kept = [systems[0][i] for i in short], [references[i] for i in short]
    assert found.buckets[0].n_sentences == len(short)
    assert found.buckets[0].bleu_a == pytest.approx(BLEU(force=True).corpus_score(a, [kept]).score)


def test_examples_are_the_largest_differences_with_their_source(systems, references) -> None:
    sources = [f"source {i + 1}" for i in range(len(references))]
    found = compare(*systems, [references], sources=sources, n_examples=4, n_bootstrap=40, n_shuffles=40)
    gains = [one.chrf_b - one.chrf_a for one in found.better_in_b]
    losses = [one.chrf_b - one.chrf_a for one in found.better_in_a]
    assert gains == sorted(gains, reverse=True) and min(gains) > 0
    assert losses == sorted(losses) and max(losses) < 0
    first = found.better_in_b[0]
    assert first.source == f"source {first.line}"
    assert first.references == (references[first.line - 1],)
    assert (first.a, first.b) == (systems[0][first.line - 1], systems[1][first.line - 1])
    assert len(found.with_examples(2).better_in_a) == 2


def test_a_single_sentence_is_never_evidence() -> None:
    found = compare(["ein Hund"], ["eine Katze schläft"], [["eine Katze schläft"]])
    assert [change.better for change in found.changes] == [None, None, None]


def test_a_mixed_result_is_said_as_one(references, spoil) -> None:
    found = compare(spoil(references, 0.4, 2), spoil(references, 0.1, 3), [references], n_bootstrap=40, n_shuffles=40)
    bleu, chrf, ter = found.changes
    mixed = Comparison(**{**vars(found), "changes": (bleu, chrf, type(ter)(**{**vars(ter), "p_randomization": 0.2}))})
    assert mixed.verdict == "B is better by BLEU and chrF++; by TER, chance explains the difference."


def test_lists_of_different_length_are_refused() -> None:
    with pytest.raises(UserError, match="b: 1 lines, but reference 1 has 2"):
        compare(["a", "b"], ["a"], [["a", "b"]])


def test_changed_words_are_marked_and_nothing_is_lost() -> None:
    a, b = mark_changes("ein Hund läuft.", "ein großer Hund läuft!")
    assert a == [(False, "ein Hund läuft"), (True, ".")]
    assert b == [(False, "ein "), (True, "großer"), (False, " Hund läuft"), (True, "!")]
    assert mark_changes("", "neu") == ([], [(True, "neu")])


def test_signs_of_a_script_without_spaces_are_marked_one_by_one() -> None:
    assert mark_changes("白色的狗", "黑色的狗") == (
        [(True, "白"), (False, "色的狗")],
        [(True, "黑"), (False, "色的狗")],
    )


def test_endless_lines_are_left_unmarked() -> None:
    endless = "wort " * 5000
    assert mark_changes(endless, "kurz") == ([(False, endless)], [(False, "kurz")])
