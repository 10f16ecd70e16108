"""Intervals of shares and of means."""

import pytest

from regard.evaluate.significance import Interval, interval_of_mean, share_interval


def test_intervals_of_shares() -> None:
    """Of 10 out of 10 the lower end is 1 / (1 + z²/10); of 5 out of 10 the interval is symmetric."""
    certain, half = share_interval(10, 10), share_interval(5, 10)
    assert certain.low == pytest.approx(1 / (1 + 1.959964**2 / 10)) and certain.high == pytest.approx(1)
    assert half.low + half.high == pytest.approx(1) and half.low == pytest.approx(0.2366, abs=1e-4)


@pytest.mark.parametrize(("n_hits", "n"), [(0, 1000), (1000, 1000), (7, 1000), (3, 10)])
def test_the_mean_of_one_share_has_its_interval(n_hits: int, n: int) -> None:
    interval = share_interval(n_hits, n)
    mean = interval_of_mean([n_hits / n], [interval])
    assert mean.low >= 0 and mean.high <= 1  # printed as 0.0%, not as -0.0%
    assert mean.low == pytest.approx(interval.low) and mean.high == pytest.approx(interval.high)


def test_the_mean_of_several_shares_has_a_narrower_interval() -> None:
    mean = interval_of_mean([0.5, 0.5], [Interval(0.4, 0.6), Interval(0.4, 0.6)])
    assert mean.low == pytest.approx(0.5 - 0.1 / 2**0.5) and mean.high == pytest.approx(0.5 + 0.1 / 2**0.5)
