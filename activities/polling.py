"""How soon to look again: soon while something is under way, seldom while nothing but a person can change it."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from temporalio import activity

SOON: Final = timedelta(milliseconds=250)
"""First pause while a pod is on its way out, or a probe runs: most of these waits are short."""

SELDOM: Final = timedelta(seconds=3)
"""First pause otherwise: a poll costs the API server a handful of requests, and a thousand incidents may wait."""

FACTOR: Final = 1.5

LONGEST: Final = {SOON: timedelta(seconds=10), SELDOM: timedelta(seconds=60)}
"""Largest pause that each grows to."""


def until_next_look(first: timedelta = SOON) -> timedelta:
    """Give the pause before the next attempt of the activity that runs now: `SOON` or `SELDOM`, growing."""
    return min(first * FACTOR ** min(activity.info().attempt - 1, 16), LONGEST[first])
