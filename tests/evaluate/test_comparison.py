"""Comparisons agree with the paired tests of sacreBLEU."""

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest

from regard.errors import UserError
from regard.evaluate import compare, mark_changes
from regard.evaluate.by_length import length_buckets
from regard.evaluate.comparison import Comparison
from regard.evaluate.measures import build_measures
from regard.evaluate.significance import p_value, swapped_sums

NAMES = ("BLEU", "chrF2++", "TER")


@pytest.fixture(scope="module", params=[(0.3, 0.3), (0.3, 0.26), (0.3, 0.2)], ids=["same", "close", "far"])
def systems(request, references, corrupt) -> tuple[list[str], list[str]]:
    return corrupt(references, request.param[0], 2), corrupt(references, request.param[1], 3)


@pytest.mark.parametrize("kind", ["bs", "ar"])
def test_p_values_agree_with_sacrebleu(systems, references, kind) -> None:
    ours = compare(*systems, [references], n_bootstrap=500, n_shuffles=500)
    metrics = {"BLEU": BLEU(force=True), "chrF": CHRF(word_order=2), "TER": TER()}
    test = PairedTest([("a", systems[0]), ("b", systems[1])], metrics, [references], test_type=kind, n_samples=500)
    _, theirs = test()
    for change, name in zip(ours.changes, NAMES, strict=True):
        p = change.p_bootstrap if kind == "bs" else change.p_randomization
        # TER has few distinct values, so trials often equal the observation: we count those, sacreBLEU does not
        assert -0.005 <= p - theirs[name][1].p_value <= (0.1 if name == "TER" else 0.005)
        assert (change.a, change.b) == (theirs[name][0].score, theirs[name][1].score)


def test_system_compared_with_itself_has_no_difference(references, corrupt) -> None:
    outputs = corrupt(references, 0.3, 2)
    comparison = compare(outputs, outputs, [references])
    for change in comparison.changes:
        assert (change.difference, change.interval.low, change.interval.high) == (0, 0, 0)
        assert change.p_bootstrap == change.p_randomization == 1
        assert change.better is None
    assert (comparison.a_wins, comparison.ties, comparison.b_wins) == (0, len(references), 0)
    assert comparison.n_identical == len(references)
    assert comparison.better_in_a == comparison.better_in_b == ()
    assert comparison.verdict == "No significant difference by any measure."


def test_clearly_better_system_wins_by_every_measure(references, corrupt) -> None:
    bad, good = corrupt(references, 0.4, 2), corrupt(references, 0.1, 3)
    comparison = compare(bad, good, [references])
    assert [change.better for change in comparison.changes] == ["B", "B", "B"]
    assert comparison.verdict == "B is better by BLEU, chrF++ and TER."
    for change in comparison.changes:
        assert change.interval.low <= change.difference <= change.interval.high
        assert change.interval.low * change.interval.high > 0
    reversed_ = compare(good, bad, [references])
    assert [change.better for change in reversed_.changes] == ["A", "A", "A"]
    assert [change.difference for change in reversed_.changes] == [-change.difference for change in comparison.changes]
    assert (reversed_.a_wins, reversed_.b_wins) == (comparison.b_wins, comparison.a_wins)


def test_equally_good_systems_rarely_differ_significantly(references, corrupt) -> None:
    chrf = build_measures([references]).chrf
    p_values = []
    for seed in range(15):
        a, b = (chrf.measure(corrupt(references, 0.3, side)) for side in (seed, -seed - 1))
        swapped_a, swapped_b = (chrf.values(sums) for sums in swapped_sums(a.statistics, b.statistics, 200, seed))
        p_values.append(p_value(abs(swapped_a - swapped_b), abs(a.value - b.value)))
    assert sum(p < 0.05 for p in p_values) <= 3
    assert 0.3 < sum(p_values) / len(p_values) < 0.7


def test_buckets_partition_sentences_by_length(systems, references) -> None:
    comparison = compare(*systems, [references], n_bootstrap=40, n_shuffles=40)
    assert sum(bucket.n_sentences for bucket in comparison.buckets) == len(references)
    assert comparison.length_of == "reference" and 3 <= len(comparison.buckets) <= 5
    lengths = [bucket.mean_length for bucket in comparison.buckets]
    assert lengths == sorted(lengths)
    longest = int(comparison.buckets[0].label.rpartition("–")[2])
    short = [i for i, line in enumerate(references) if len(BLEU().tokenizer(line).split()) <= longest]
    a, short_references = [systems[0][i] for i in short], [references[i] for i in short]
    assert comparison.buckets[0].n_sentences == len(short)
    assert comparison.buckets[0].bleu_a == pytest.approx(BLEU(force=True).corpus_score(a, [short_references]).score)
    for bucket in comparison.buckets:
        assert bucket.interval.low <= bucket.bleu_b - bucket.bleu_a <= bucket.interval.high


def test_buckets_are_by_length_of_the_source_if_it_is_given(systems, references) -> None:
    sources = ["one two three" if i % 2 else "one two three four five, six" for i in range(len(references))]
    comparison = compare(*systems, [references], sources=sources, n_bootstrap=40, n_shuffles=40)
    assert comparison.length_of == "source"
    labels = [(bucket.label, bucket.mean_length, bucket.n_sentences) for bucket in comparison.buckets]
    assert labels == [("3", 3, len(references) // 2), ("7", 7, len(references) - len(references) // 2)]
    odd = [i for i in range(len(references)) if i % 2]
    expected = BLEU(force=True).corpus_score([systems[1][i] for i in odd], [[references[i] for i in odd]]).score
    assert comparison.buckets[0].bleu_b == pytest.approx(expected)


@pytest.mark.parametrize(
    ("lengths", "labels"),
    [
        (list(range(1, 11)), ["1–2", "3–4", "5–6", "7–8", "9–10"]),
        ([4, 4, 4, 4, 9], ["4", "9"]),
        ([3], ["3"]),
        ([0, 0, 5, 8], ["0", "5", "8"]),
    ],
)
def test_five_buckets_have_about_as_many_sentences(lengths: list[int], labels: list[str]) -> None:
    buckets = length_buckets(lengths)
    assert [bucket.label for bucket in buckets] == labels
    assert sum(bucket.inside.astype(int) for bucket in buckets).tolist() == [1] * len(lengths)


def test_examples_have_the_largest_differences(systems, references) -> None:
    sources = [f"source {i + 1}" for i in range(len(references))]
    comparison = compare(*systems, [references], sources=sources, n_examples=4, n_bootstrap=40, n_shuffles=40)
    gains = [example.chrf_b - example.chrf_a for example in comparison.better_in_b]
    losses = [example.chrf_b - example.chrf_a for example in comparison.better_in_a]
    assert gains == sorted(gains, reverse=True) and min(gains) > 0
    assert losses == sorted(losses) and max(losses) < 0
    first = comparison.better_in_b[0]
    assert first.source == f"source {first.line}"
    assert first.references == (references[first.line - 1],)
    assert (first.a, first.b) == (systems[0][first.line - 1], systems[1][first.line - 1])
    assert len(comparison.with_examples(2).better_in_a) == 2


def test_single_sentence_is_never_significant() -> None:
    comparison = compare(["ein Hund"], ["eine Katze schläft"], [["eine Katze schläft"]])
    assert [change.better for change in comparison.changes] == [None, None, None]


def test_verdict_of_a_mixed_result(references, corrupt) -> None:
    comparison = compare(
        corrupt(references, 0.4, 2), corrupt(references, 0.1, 3), [references], n_bootstrap=40, n_shuffles=40
    )
    bleu, chrf, ter = comparison.changes
    mixed = Comparison(
        **{**vars(comparison), "changes": (bleu, chrf, type(ter)(**{**vars(ter), "p_randomization": 0.2}))}
    )
    assert mixed.verdict == "B is better by BLEU and chrF++; no significant difference by TER."


def test_lists_of_different_length_are_refused() -> None:
    with pytest.raises(UserError, match="b: 1 lines, but reference 1 has 2"):
        compare(["a", "b"], ["a"], [["a", "b"]])


def test_changed_words_are_marked_and_nothing_is_lost() -> None:
    a, b = mark_changes("ein Hund läuft.", "ein großer Hund läuft!")
    assert a == [(False, "ein Hund läuft"), (True, ".")]
    assert b == [(False, "ein "), (True, "großer"), (False, " Hund läuft"), (True, "!")]
    assert mark_changes("", "neu") == ([], [(True, "neu")])


def test_characters_of_a_script_without_spaces_are_marked_separately() -> None:
    assert mark_changes("白色的狗", "黑色的狗") == (
        [(True, "白"), (False, "色的狗")],
        [(True, "黑"), (False, "色的狗")],
    )


def test_very_long_lines_are_not_marked() -> None:
    long = "wort " * 5000
    assert mark_changes(long, "kurz") == ([(False, long)], [(False, "kurz")])
