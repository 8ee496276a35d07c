"""How a pause of the installation is told beside what there is."""

from __future__ import annotations

from datetime import timedelta

import pytest

from k8s.control import Control
from sickbay.cli.look.pausing import notice
from tests.builders import NOW


@pytest.mark.parametrize(
    ("control", "told"),
    [
        (None, ""),
        (Control(), ""),
        (Control(paused=True, who="ann", until=NOW), ""),
        (
            Control(paused=True, who="ann", why="firmware", until=NOW + timedelta(hours=1, microseconds=7)),
            "paused by ann until 2026-01-10 11:00:00Z: new incidents wait",
        ),
        (Control(paused=True), "paused by nobody named until somebody resumes: new incidents wait"),
        (Control(paused=True, who="a\nb"), "paused by a b until somebody resumes: new incidents wait"),
    ],
)
def test_a_pause_is_one_line_as_long_as_it_holds(control: Control | None, told: str) -> None:
    """Whoever may not read the switch is told nothing; people write it by hand, so it forges no line."""
    assert notice(control, NOW) == told
