"""Who may evict next."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from sickbay.policy.evictions import Granted, Refused, grant

TWO = {"pod-1": "a/evict/1", "pod-2": "b/evict/1"}


@pytest.mark.parametrize(
    ("holders", "limit", "uid", "expected"),
    [
        ({}, 1, "pod-3", Granted({"pod-3": "c/evict/1"})),
        (TWO, 3, "pod-3", Granted({**TWO, "pod-3": "c/evict/1"})),
        (TWO, 2, "pod-3", Refused(holding=2, limit=2)),
        (TWO, 1, "pod-3", Refused(holding=2, limit=1)),
        (TWO, 2, "pod-1", Granted(TWO)),
        (TWO, 1, "pod-1", Granted(TWO)),
    ],
    ids=["free", "below", "full", "over after the limit fell", "holds already", "holds already, over the limit"],
)
def test_the_cap(holders: Mapping[str, str], limit: int, uid: str, expected: Granted | Refused) -> None:
    """A new eviction passes below the limit; one that holds a place keeps it and its first effect key."""
    assert grant(holders, limit, uid, "c/evict/1") == expected


def test_a_refusal_names_the_numbers() -> None:
    """What is counted, the limit and the policy's field stand in the message."""
    message = Refused(holding=5, limit=5).message
    assert "5 evictions" in message
    assert "migration.atOnce" in message
