"""Names that a watch refuses, for it would wait for ever without a word."""

from __future__ import annotations

import pytest

from sickbay.cli.get import never
from sickbay.cli.look.kinds import Kind
from sickbay.cli.look.rows import Wanted, missing, rows
from tests.sickbay.cli.look.sights import LATER, WARD, key


@pytest.mark.parametrize("kind", Kind)
def test_a_watch_refuses_names_of_nothing(kind: Kind) -> None:
    """Selectors leave out what there is, and do not make it unknown."""
    assert never(kind, WARD, Wanted(("gpu-0", "nobody"), phases=frozenset({"released"}))) == ["nobody"]


def test_a_watch_waits_for_the_first_incident_of_a_device() -> None:
    """Its name is known, although a list has nothing of it."""
    healthy = Wanted(("gpu-3",))
    assert missing(rows(Kind.INCIDENTS, WARD, healthy, LATER), healthy) == ["gpu-3"]
    assert never(Kind.INCIDENTS, WARD, healthy) == []


def test_an_incident_that_has_ended_is_known() -> None:
    """A watch shows how it ended."""
    past = key("gpu-2").incident_id("40")
    assert never(Kind.INCIDENTS, WARD, Wanted((past,))) == []
