"""Comparing what is installed with what should be."""

from __future__ import annotations

import pytest

from k8s.drift import difference, drifts
from tests.installation import Installation


@pytest.mark.parametrize(
    ("wanted", "live", "strict", "where"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, False, ""),
        ({"a": 1}, {"a": 1, "b": 2}, True, "spec.b"),
        ({"a": 1}, {"a": 1, "b": {}, "scope": "*", "matchPolicy": "Equivalent"}, True, ""),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, False, "spec.a.b[1]"),
        ({"a": {"b": [1]}}, {"a": {"b": [1, 2]}}, False, "spec.a.b"),
        ({"a": {"b": 1}}, {}, False, "spec.a"),
        ({"a": {"b": 1}}, None, False, "spec"),
        ({"a": [{"b": 1}]}, {"a": [{"b": 1, "c": 2}]}, True, "spec.a[0].c"),
    ],
)
def test_the_first_difference_is_told(wanted: object, live: object, where: str, *, strict: bool) -> None:
    """What others added is left, unless it could weaken the object."""
    assert difference(wanted, live, "spec", strict=strict) == where


async def test_a_fresh_installation_has_not_drifted(sickbay: Installation) -> None:
    """What the API server adds to our objects by itself is no difference."""
    assert await drifts(sickbay.admin) == []
