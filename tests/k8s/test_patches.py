"""Merge patches are the smallest that do."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from k8s.patches import difference

VALUES = st.recursive(
    st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


def patched(old: Any, patch: Any) -> Any:
    """Apply a merge patch as RFC 7386 says."""
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = patched(result.get(key), value)
    return result


@given(OBJECTS, OBJECTS)
def test_the_patch_turns_old_into_new(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Applied to the old object it gives the new one."""
    assert patched(old, difference(old, new)) == new


@given(OBJECTS)
def test_equal_objects_differ_in_nothing(same: dict[str, Any]) -> None:
    """The patch of an object to itself is empty."""
    assert difference(same, same) == {}


def test_only_what_differs_is_in_it() -> None:
    """Equal parts of a nested object stay out; a list is replaced as a whole."""
    old = {"a": {"b": 1, "c": [1]}, "d": 1}
    assert difference(old, {"a": {"b": 1, "c": [2]}}) == {"a": {"c": [2]}, "d": None}
