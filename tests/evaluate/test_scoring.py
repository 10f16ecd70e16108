"""Scores and bootstrap resamples equal those of sacreBLEU."""

import subprocess
import sys
from importlib.metadata import version
from inspect import signature
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import _bootstrap_resample
from sacrebleu.tokenizers import tokenizer_ko_mecab

from regard.errors import UserError
from regard.evaluate import score
from regard.evaluate.measures import TOKENIZERS, bleu_values, build_measures, chrf_values, ter_values
from regard.evaluate.significance import resampled_sums

Corpus = tuple[list[str], list[list[str]]]


@pytest.fixture(scope="module")
def corpus(references, corrupt) -> Corpus:
    return corrupt(references, 0.3, 2), [references, corrupt(references, 0.2, 3)]


def sacrebleu_metrics(lowercase: bool = False, tokenize: str = "13a"):
    bleu = BLEU(lowercase=lowercase, tokenize=tokenize, force=True)
    return bleu, CHRF(word_order=2, lowercase=lowercase), TER()


@pytest.mark.parametrize("n_references", [1, 2])
@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("tokenize", ["13a", "intl"])
def test_scores_equal_those_of_sacrebleu(corpus, n_references, lowercase, tokenize) -> None:
    outputs, references = corpus[0], corpus[1][:n_references]
    scores = score(outputs, references, lowercase=lowercase, tokenize=tokenize, n_bootstrap=40)
    for ours, metric in zip(scores.all, sacrebleu_metrics(lowercase, tokenize), strict=True):
        assert ours.value == metric.corpus_score(outputs, references).score


def test_signatures_equal_those_of_sacrebleu(corpus) -> None:
    scores = score(*corpus, n_bootstrap=50)
    for ours, metric in zip(scores.all, sacrebleu_metrics(), strict=True):
        metric.corpus_score(*corpus, n_bootstrap=50)
        assert ours.signature == str(metric.get_signature())


def test_resamples_equal_those_of_sacrebleu_for_its_seed(corpus) -> None:
    for measure in build_measures(corpus[1]):
        statistics = measure.measure(corpus[0]).statistics
        ours = measure.values(resampled_sums(statistics, 100, seed=12345))
        _, theirs = _bootstrap_resample(statistics.tolist(), measure.metric, 100)
        np.testing.assert_allclose(ours, [result.score for result in theirs], rtol=1e-5)


def test_block_size_does_not_change_the_resamples(corpus, monkeypatch) -> None:
    statistics = build_measures(corpus[1]).bleu.measure(corpus[0]).statistics
    at_once = resampled_sums(statistics, 100, seed=1)
    monkeypatch.setattr("regard.evaluate.significance._MAX_CELLS", 1)
    np.testing.assert_array_equal(at_once, resampled_sums(statistics, 100, seed=1))


def test_interval_contains_the_value_and_narrows_with_more_sentences(corpus) -> None:
    few = score(corpus[0][:50], [corpus[1][0][:50]])
    many = score(corpus[0], corpus[1][:1])
    for small, large in zip(few.all, many.all, strict=True):
        assert small.interval.low < small.value < small.interval.high
        assert large.interval.high - large.interval.low < small.interval.high - small.interval.low


def test_same_seed_gives_the_same_interval(corpus) -> None:
    first = score(*corpus, seed=7)
    assert first == score(*corpus, seed=7)
    assert first.bleu.interval != score(*corpus, seed=8).bleu.interval


counts = st.lists(st.integers(0, 30), min_size=24, max_size=24)


@given(rows=st.lists(counts, min_size=1, max_size=5))
@settings(deadline=None, max_examples=50)
def test_vectorised_formulas_equal_sacrebleu_for_any_counts(rows) -> None:
    bleu, chrf, ter = sacrebleu_metrics()
    with_words = [[max(row[0], 1), *row[1:10]] for row in rows]  # an empty output has no matching n-grams
    pairs = [row[:2] for row in rows]
    for values, metric, table in ((bleu_values, bleu, with_words), (chrf_values, chrf, rows), (ter_values, ter, pairs)):
        expected = [metric._compute_score_from_stats(list(row)).score for row in table]
        np.testing.assert_allclose(values(np.array(table, dtype=np.float64)), expected, rtol=1e-9, atol=1e-12)


def test_sentence_scores_equal_those_of_sacrebleu_and_rank_the_worst(corpus) -> None:
    scores = score(*corpus, n_bootstrap=40)
    metric = CHRF(word_order=2)
    for i in range(20):
        expected = metric.sentence_score(corpus[0][i], [lines[i] for lines in corpus[1]]).score
        assert scores.sentence_chrf[i] == pytest.approx(expected)
    worst = scores.worst(5)
    assert [scores.sentence_chrf[i] for i in worst] == sorted(scores.sentence_chrf)[:5]


def test_perfect_and_empty_translations_get_the_extreme_scores(references) -> None:
    perfect = score(references, [references], n_bootstrap=40)
    assert [round(result.value) for result in perfect.all] == [100, 100, 0]
    empty = score([""] * len(references), [references], n_bootstrap=40)
    assert [result.value for result in empty.all] == [0, 0, 100]


def test_one_sentence_and_blank_references_can_be_scored() -> None:
    assert score(["ein Hund"], [["ein Hund"]]).chrf.value == 100
    assert score(["", "ein Hund"], [["", ""]]).bleu.value == 0


def test_scripts_without_spaces_are_scored_by_character() -> None:
    outputs, references = ["一只白色的狗在跑"], [["一只黑色的狗在跑"]]
    assert score(outputs, references, tokenize="zh").ter.value == pytest.approx(100 / 8)
    assert "asian:yes" in score(outputs, references, tokenize="zh").ter.signature
    assert score(outputs, references, tokenize="char").bleu.value > score(outputs, references).bleu.value


def test_missing_tokenizer_names_the_package_to_install(monkeypatch) -> None:
    monkeypatch.setattr(tokenizer_ko_mecab, "MeCab", None)
    with pytest.raises(UserError, match=r"ko-mecab is not installed; hint: pip install 'sacrebleu\[ko\]'"):
        score(["a"], [["a"]], tokenize="ko-mecab")


def test_unknown_tokenizer_lists_the_known_ones() -> None:
    with pytest.raises(UserError, match=", ".join(TOKENIZERS)):
        score(["a"], [["a"]], tokenize="14a")


def test_lists_of_different_length_are_refused() -> None:
    with pytest.raises(UserError, match="outputs: 1 lines, but reference 1 has 2"):
        score(["a"], [["a", "b"]])
    with pytest.raises(UserError, match="no reference to score against"):
        score([], [[]])


def test_a_thousand_resamples_of_a_thousand_sentences_are_vectorised(references, corrupt, count_calls) -> None:
    many = (references * 9)[:1000]
    statistics = np.hstack([measure.measure(corrupt(many, 0.3, 1)).statistics for measure in build_measures([many])])
    assert count_calls(lambda: resampled_sums(statistics, 1000, seed=1)) < 200  # none per sentence or resample


def test_private_methods_of_sacrebleu_are_those_of_the_pinned_version() -> None:
    """`measures.py` calls three private methods, last checked in sacreBLEU 2.6.0; check them again for another one."""
    checked = "2.6.0"
    assert version("sacrebleu") == checked
    assert f"sacrebleu=={checked}\n" in (Path(__file__).parents[2] / "constraints.txt").read_text()
    expected = {
        Metric._extract_corpus_statistics: ["self", "hypotheses", "references"],
        Metric._aggregate_and_compute: ["self", "stats"],
        BLEU._preprocess_segment: ["self", "sent"],
    }
    assert {method: [*signature(method).parameters] for method in expected} == expected


def test_scoring_imports_no_torch() -> None:
    program = "import sys, regard.evaluate, regard.cli.evaluate, regard.cli.compare; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_blank_output_for_a_blank_reference_is_not_among_the_worst() -> None:
    scores = score(["", "a dog runs", "x"], [["", "a dog runs", "a cat sleeps"]], n_bootstrap=10)
    assert scores.worst(1) == [2] and scores.sentence_chrf[0] == 100.0
