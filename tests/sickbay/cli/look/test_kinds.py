"""What can be asked for."""

from __future__ import annotations

import click
import pytest

from sickbay.cli.look.kinds import Kind, KindType

ONE = KindType(Kind.INCIDENTS, Kind.QUARANTINES, one=True)


@pytest.mark.parametrize("word", ["dq", "Quarantine", "quarantines"])
def test_a_kind_has_many_words(word: str) -> None:
    """Where one is asked for as where all are."""
    assert KindType().convert(word, None, None) is Kind.QUARANTINES
    assert ONE.convert(word, None, None) is Kind.QUARANTINES


@pytest.mark.parametrize(
    ("kinds", "word", "told"),
    [
        (KindType(), "pods", "'pods' is none of incidents, devices, quarantines"),
        (ONE, "pods", "'pods' is none of incident, quarantine"),
        (ONE, "device", "'device' is none of incident, quarantine; sickbay explain NAME tells of a device"),
    ],
)
def test_a_word_of_no_kind_is_refused_with_those_there_are(kinds: KindType, word: str, told: str) -> None:
    """In the singular where one is asked for; a device is not described but explained."""
    with pytest.raises(click.BadParameter) as refused:
        kinds.convert(word, None, None)
    assert refused.value.message == told
