"""Figures of a sample, and targets that they are held against. Nothing here measures."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """What is told of a sample of durations, in milliseconds."""

    count: int
    p50: float
    p90: float
    p99: float
    most: float

    @classmethod
    def of(cls, seconds: Collection[float]) -> Spread:
        """Sum up durations that were measured in seconds.

        Raises:
            ValueError: there are none.
        """
        values = sorted(1000 * value for value in seconds)
        return cls(
            count=len(values),
            p50=percentile(values, 50),
            p90=percentile(values, 90),
            p99=percentile(values, 99),
            most=percentile(values, 100),
        )


def percentile(ordered: Sequence[float], percent: int) -> float:
    """Give the nearest-rank percentile: a value that was measured, never one in between.

    Args:
        ordered: ascending, not empty.
        percent: above 0, up to 100.

    Raises:
        ValueError: nothing was measured, or there is no such percentile.
    """
    if not ordered:
        raise ValueError("nothing was measured, so it has no percentile")
    if not 0 < percent <= 100:
        raise ValueError(f"percentile {percent}: use 1 to 100")
    return ordered[math.ceil(len(ordered) * percent / 100) - 1]


@dataclass(frozen=True)
class Target:
    """Something that is to hold; it is told whether it does, and never fails a run.

    Attributes:
        what: in words.
        measured: None if it could not be measured, which misses the target.
        limit: the largest value that reaches it.
        unit: of both, ``""`` for a ratio.
    """

    what: str
    measured: float | None
    limit: float
    unit: str = ""

    @property
    def reached(self) -> bool:
        """Whether it holds."""
        return self.measured is not None and self.measured <= self.limit
