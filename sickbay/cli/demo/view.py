"""What a spectator sees: a line for everything that happens, and on a terminal a phase table that lives below them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

PHASES: Final = (
    "Quarantined",
    "Evacuating",
    "Recovering",
    "Probing",
    "Canary",
    "Soaking",
    "Ramping",
    "Releasing",
    "Released",
)
"""The usual way of an incident: what is still to come is shown from the start."""


@dataclass
class View:
    """Tells the story. Use as a context manager: the table lives inside, the lines stay on the screen."""

    console: Console = field(default_factory=Console)
    title: str = ""
    _began: float = field(default_factory=time.monotonic)
    _entered: dict[str, list[float]] = field(default_factory=dict)
    _now: tuple[str, str] = ("", "")
    _live: Live | None = None

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live = Live(console=self.console, get_renderable=self.table, refresh_per_second=8)
            self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.__exit__(None, None, None)
            self._live = None

    def zero(self) -> None:
        """Count time from now on, and say so: the moment of the fault."""
        self.say("clock", "starts at the fault")
        self._began = time.monotonic()

    def say(self, who: str, what: str) -> None:
        """Tell one thing that happened.

        Args:
            who: ``lab``, ``job``, ``device``, ``sickbay``, ``api`` or ``clock``.
            what: one line.
        """
        line = Text.assemble((f"{self._clock():7.2f}s  ", "dim"), (f"{who:8}", _COLOURS.get(who, "")), what)
        self.console.print(line, soft_wrap=True)  # while the table lives, above it

    def phase(self, name: str, why: str) -> None:
        """Tell where the incident stands and what it waits for."""
        if self._now == (name, why):
            return
        if self._now[0] != name:
            self._entered.setdefault(name, []).append(self._clock())
        self._now = (name, why)
        self.say("sickbay", f"{name}: {why}")

    def table(self) -> Table:
        """Draw the phases in the order in which they were entered, then those that usually follow."""
        table = Table(title=self.title, title_justify="left", expand=False)
        for column in ("phase", "entered"):
            table.add_column(column, no_wrap=True)
        table.add_column("now")  # the one that gives way
        for name in (*self._entered, *(n for n in PHASES if n not in self._entered)):
            times = ", ".join(f"{t:.1f}s" for t in self._entered.get(name, []))
            current = self._now[0] == name
            now = Text(self._now[1] if current else "", no_wrap=True, overflow="ellipsis")  # a small terminal is enough
            table.add_row(name, times, now, style="bold" if current else "")
        return table

    def _clock(self) -> float:
        return time.monotonic() - self._began


_COLOURS: Final = {"lab": "cyan", "job": "blue", "device": "red", "sickbay": "green", "api": "yellow"}
