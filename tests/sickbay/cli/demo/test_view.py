"""What a spectator sees, and what is still there at the end."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from sickbay.cli.demo.view import View

HEIGHT = 24


def screen(*, terminal: bool) -> Console:
    """Make a small screen that remembers."""
    return Console(file=io.StringIO(), force_terminal=terminal, width=80, height=HEIGHT, color_system=None)


def shown(console: Console) -> str:
    """Read everything that was ever written to it."""
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_every_line_survives(*, terminal: bool) -> None:
    """More lines than the screen has, and a long one in one piece: all were printed once, not drawn in the table."""
    view = View(console=screen(terminal=terminal))
    link = "http://127.0.0.1/" + "x" * 120
    with view:
        for n in range(3 * HEIGHT):
            view.say("job", f"line-{n}.")
        view.say("sickbay", link)
    text = shown(view.console)
    assert all(text.count(f"line-{n}.") == 1 for n in range(3 * HEIGHT))
    assert text.count(link) == 1


def test_table_fits_a_small_terminal() -> None:
    """However much an incident has to say: one line a phase."""
    view = View(console=screen(terminal=False), title="One incident")
    for phase in ("Suspect", "Held", "Quarantined", "Evacuating", "NeedsOperator", "Recovering"):
        view.phase(phase, "waits for " + "somebody " * 30)
    before = len(shown(view.console).splitlines())
    view.console.print(view.table())
    drawn = shown(view.console).splitlines()[before:]
    assert len(drawn) == len(view.table().rows) + 5 < HEIGHT  # title, head and edges
    assert max(map(len, drawn)) <= 80
    rows = [[cell.strip() for cell in row.split("│")[1:3]] for row in drawn if row.startswith("│")]
    assert rows[:3] == [["Suspect", "0.0s"], ["Held", "0.0s"], ["Quarantined", "0.0s"]]
    assert ["Releasing", ""] in rows


def test_phases_stand_in_the_order_of_time() -> None:
    """What was entered first is first, again or not; then what usually follows."""
    view = View(console=screen(terminal=False))
    for phase in ("Held", "Quarantined", "Recovering", "Probing", "Recovering"):
        view.phase(phase, "")
    later = ["Evacuating", "Canary", "Soaking", "Ramping", "Releasing", "Released"]
    names = list(view.table().columns[0].cells)
    assert names == ["Held", "Quarantined", "Recovering", "Probing", *later]


def test_the_clock_starts_at_the_fault() -> None:
    """Time goes back to zero, and a line says so."""
    view = View(console=screen(terminal=False))
    view._began -= 100
    view.zero()
    view.say("device", "fails")
    before, after = shown(view.console).splitlines()
    assert re.fullmatch(r" 100\.\d\ds  clock   starts at the fault", before)
    assert re.fullmatch(r"   0\.\d\ds  device  fails", after)
