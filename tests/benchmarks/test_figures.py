"""Percentiles and targets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.figures import Spread, Target, percentile


def test_percentiles_of_two_hundred_are_the_ranks_that_one_counts_by_hand() -> None:
    """Of 200 values the p50 is the 100th and the p99 the 198th, whatever order they came in."""
    spread = Spread.of([n / 1000 for n in range(200, 0, -1)])
    assert (spread.count, spread.p50, spread.p90, spread.p99, spread.most) == (200, 100, 180, 198, 200)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.integers(1, 100))
def test_a_percentile_is_a_value_with_enough_values_below(values: list[float], percent: int) -> None:
    """At least so many per cent are at most the percentile, and it was measured itself."""
    found = percentile(sorted(values), percent)
    assert found in values
    assert sum(value <= found for value in values) >= len(values) * percent / 100


@pytest.mark.parametrize(("values", "percent"), [([], 50), ([1.0], 0), ([1.0], 101)])
def test_there_is_no_percentile_of_nothing(values: list[float], percent: int) -> None:
    """Nothing measured, or no such percentile, is an error and never a figure."""
    with pytest.raises(ValueError, match="percentile"):
        percentile(values, percent)


@pytest.mark.parametrize(("measured", "reached"), [(1.9, True), (2.0, True), (2.01, False), (None, False)])
def test_what_was_not_measured_misses_its_target(measured: float | None, *, reached: bool) -> None:
    """A target is reached up to its limit, and never by silence."""
    assert Target("ratio", measured, 2.0).reached is reached
