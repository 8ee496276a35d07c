"""How soon a wait looks again."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest
from temporalio.testing import ActivityEnvironment

from activities.polling import LONGEST, SELDOM, SOON, until_next_look


def pause(attempt: int, first: timedelta) -> timedelta:
    """Give the pause after this attempt."""
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(environment.info, attempt=attempt)
    return environment.run(until_next_look, first)


@pytest.mark.parametrize("first", [SOON, SELDOM])
def test_looks_are_soon_at_first_and_seldom_later(first: timedelta) -> None:
    """Most waits are short; a long one must not keep the server busy."""
    pauses = [pause(attempt, first) for attempt in range(1, 40)]
    assert pauses[0] == first
    assert pauses == sorted(pauses)
    assert pauses[-1] == pause(100_000, first) == LONGEST[first]
