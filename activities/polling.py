"""How soon to look again: at first at once, because most waits are short, later seldom, because the rest are long."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from temporalio import activity

FIRST: Final = timedelta(milliseconds=250)
LONGEST: Final = timedelta(seconds=10)
FACTOR: Final = 1.5


def until_next_look() -> timedelta:
    """Give the pause before the next attempt of the activity that runs now: `FIRST`, growing up to `LONGEST`."""
    return min(FIRST * FACTOR ** min(activity.info().attempt - 1, 16), LONGEST)
