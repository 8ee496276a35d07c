"""How soon a wait looks again."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

from temporalio.testing import ActivityEnvironment

from activities.polling import FIRST, LONGEST, until_next_look


def pause(attempt: int) -> timedelta:
    """Give the pause after this attempt."""
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(environment.info, attempt=attempt)
    return environment.run(until_next_look)


def test_looks_are_soon_at_first_and_seldom_later() -> None:
    """Most waits are short; a long one must not keep the server busy."""
    pauses = [pause(attempt) for attempt in range(1, 40)]
    assert pauses[0] == FIRST
    assert pauses == sorted(pauses)
    assert pauses[-1] == pause(100_000) == LONGEST
