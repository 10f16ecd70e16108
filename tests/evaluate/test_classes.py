"""Measures of a confusion matrix, against their definitions."""

from math import sqrt

import numpy as np
import pytest

from regard.evaluate.classes import Confusion, calibration_error
from regard.evaluate.significance import mean_interval


def test_two_classes_against_the_textbook() -> None:
    tp, fn, fp, tn = 45, 5, 20, 30
    gold = [1] * (tp + fn) + [0] * (fp + tn)
    predicted = [1] * tp + [0] * fn + [1] * fp + [0] * tn
    confusion = Confusion.of(["no", "yes"], gold, predicted)
    assert confusion.counts.tolist() == [[tn, fp], [fn, tp]]
    matthews = (tp * tn - fp * fn) / sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    f1 = (2 * tp / (2 * tp + fp + fn) + 2 * tn / (2 * tn + fp + fn)) / 2
    assert confusion.measures == pytest.approx({"accuracy": 0.75, "macro_f1": f1, "matthews": matthews})


def test_matthews_of_several_classes_is_their_correlation() -> None:
    rng = np.random.default_rng(1)
    gold = rng.integers(0, 4, 300)
    predicted = np.where(rng.random(300) < 0.6, gold, rng.integers(0, 4, 300))
    one_hot = [np.eye(4)[labels] - np.eye(4)[labels].mean(0) for labels in (gold, predicted)]
    covariances = [(a * b).sum() for a, b in ((one_hot[0], one_hot[1]), (one_hot[0],) * 2, (one_hot[1],) * 2)]
    expected = covariances[0] / sqrt(covariances[1] * covariances[2])
    assert Confusion.of(list("abcd"), gold, predicted).measures["matthews"] == pytest.approx(expected)


def test_one_class_for_everything_has_no_correlation() -> None:
    confusion = Confusion.of(["a", "b", "c"], [0, 1, 1, 0], [1, 1, 1, 1])
    assert confusion.measures == pytest.approx({"accuracy": 0.5, "macro_f1": 2 / 9, "matthews": 0.0})


def test_intervals_contain_the_value_and_shrink_with_the_number_of_examples() -> None:
    few = Confusion.of(["a", "b"], [0, 1] * 50, [0, 1, 1, 1] * 25)
    many = Confusion(few.classes, 100 * few.counts)
    for name, value in few.measures.items():
        narrow, wide = many.intervals()[name], few.intervals()[name]
        assert wide.low < value < wide.high
        assert 7 < (wide.high - wide.low) / (narrow.high - narrow.low) < 13  # about the square root of 100
    exact = 1.96 * sqrt(0.75 * 0.25 / 100)
    assert few.intervals()["accuracy"].high == pytest.approx(0.75 + exact, abs=0.02)


def test_table_has_the_counts_below_the_labels() -> None:
    table = Confusion.of(["no", "perhaps"], [0, 0, 1], [0, 1, 1]).to_text()
    assert table == "true \\ predicted\n         no  perhaps\nno        1        1\nperhaps   0        1\n"
    assert "30 classes" in Confusion.of([str(i) for i in range(30)], [0], [0]).to_text()


def test_calibration_error_is_the_gap_between_probability_and_success() -> None:
    assert calibration_error([0.8] * 10, [True] * 8 + [False] * 2) == pytest.approx(0)
    assert calibration_error([1.0] * 10, [True] * 7 + [False] * 3) == pytest.approx(0.3)
    mixed = calibration_error([0.95] * 10 + [0.55] * 10, [True] * 5 + [False] * 5 + [True] * 10)
    assert mixed == pytest.approx(0.45)


def test_interval_of_a_mean_is_students() -> None:
    interval = mean_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert (interval.low, interval.high) == pytest.approx((3 - 1.9632, 3 + 1.9632), abs=1e-3)
    many = mean_interval([float(i % 2) for i in range(40)])
    assert many.high - 0.5 == pytest.approx(2.0227 * 0.50637 / sqrt(40), abs=1e-3)
