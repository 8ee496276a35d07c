"""Places in a PromQL query: whatever a driver names its devices, the query stays the one that was written."""

from __future__ import annotations

import ast
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sickbay.model.promql import LONGEST, check, filled, places

VALUES = {"device": "gpu-0", "node": "a.b", "driver": "gpu.example.com", "pool": "a.b", "hardware": "GPU-1"}
ODD = "x\"} or vector(1) # \\ ' ` \n $device {{"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("vector(1)", "vector(1)"),
        ('up{d="$device"}', 'up{d="gpu-0"}'),
        ('up{d="$node:9400", h!="$hardware"}', 'up{d="a.b:9400", h!="GPU-1"}'),
        ("up{d='$device'}", "up{d='gpu-0'}"),
        ('up{d=~"$node|c.*"}', 'up{d=~"a\\\\.b|c.*"}'),
        ('up{d !~ # not\n "$node"}', 'up{d !~ # not\n "a\\\\.b"}'),
        ('up{d="$$device", e=~"gpu.*$"}', 'up{d="$device", e=~"gpu.*$"}'),
        ('label_replace(up, "a", "$1", "b", "(.*)")', 'label_replace(up, "a", "$1", "b", "(.*)")'),
        ('up{d="$device"} # isn\'t "$device" it', 'up{d="gpu-0"} # isn\'t "$device" it'),
        ('up{d=~`gpu.*$`, e="$device"}', 'up{d=~`gpu.*$`, e="gpu-0"}'),
        (r'up{d="a\"$device"}', r'up{d="a\"gpu-0"}'),
        (r'up{d="\\$device"}', r'up{d="\\gpu-0"}'),
    ],
)
def test_a_place_is_filled_where_it_is_a_value(query: str, expected: str) -> None:
    """Within quotes, and nowhere else; what is no place stays."""
    assert filled(check(query), VALUES) == expected


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("up{d=$device}", '$device stands outside of quotes; write it as the value of a label, like x="$device"'),
        ("$device", "$device stands outside of quotes"),
        ("up{d=`$device`}", "$device stands in backticks, where nothing can be escaped; use double quotes"),
        ('up{d="$uuid"}', "$uuid is not known; known here: $device, $node, $driver, $pool, $hardware; write $$uuid"),
        ('up{d="$device}', "$device stands outside of quotes"),
        ("x" * (LONGEST + 1), "is longer than 4,000 characters"),
    ],
)
def test_a_place_that_could_not_be_filled_safely_is_refused(query: str, told: str) -> None:
    """When the policy is read, and not when a device waits for it."""
    with pytest.raises(ValueError, match=re.escape(told)):
        check(query)


def test_the_places_of_a_query_are_known() -> None:
    """Those in comments and backticks are none."""
    assert places('a{x="$node"} / b{y=~"$device$$pool"} # "$driver"') == {"node", "device"}


@pytest.mark.parametrize("quote", ['"', "'"])
@given(value=st.text() | st.just(ODD))
def test_any_value_stays_a_value(quote: str, value: str) -> None:
    """The literal means exactly the value, by the rules of Go that it shares with Python, and nothing is around it."""
    query = filled(f"up{{d={quote}a$device{quote}}}", {"device": value})
    literal = query.removeprefix("up{d=").removesuffix("}")
    assert ast.literal_eval(literal) == "a" + re.sub("[\ud800-\udfff]", "\ufffd", value)


@given(value=st.text(st.characters(exclude_categories=["Cs"])) | st.just(ODD))
def test_any_value_in_a_regular_expression_means_itself(value: str) -> None:
    """A device that is named ``.*`` does not answer for all others."""
    query = filled('up{d=~"$device"}', {"device": value})
    pattern = ast.literal_eval(query.removeprefix("up{d=~").removesuffix("}"))
    assert re.fullmatch(pattern, value)
    assert not re.fullmatch(pattern, value + "x")
