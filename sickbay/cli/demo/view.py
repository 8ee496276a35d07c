"""What a spectator sees: on a terminal a phase table that lives, elsewhere a line for everything that happens."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

PHASES: Final = ("Quarantined", "Evacuating", "Recovering", "Probing", "Releasing", "Released")
"""The way of an incident, as the table shows it; every other phase is shown when it happens."""

TAIL: Final = 14
"""Lines of the story that the live view shows."""


@dataclass
class View:
    """Tells the story. Use as a context manager."""

    console: Console = field(default_factory=Console)
    title: str = ""
    _began: float = field(default_factory=time.monotonic)
    _lines: list[Text] = field(default_factory=list)
    _entered: dict[str, list[float]] = field(default_factory=dict)
    _now: tuple[str, str] = ("", "")
    _live: Live | None = None

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live = Live(console=self.console, get_renderable=self._picture, refresh_per_second=8)
            self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.__exit__(None, None, None)
            self._live = None

    def zero(self) -> None:
        """Count time from now on: the moment of the fault."""
        self._began = time.monotonic()

    def say(self, who: str, what: str) -> None:
        """Tell one thing that happened.

        Args:
            who: ``lab``, ``job``, ``device``, ``sickbay`` or ``api``.
            what: one line.
        """
        line = Text.assemble((f"{self._clock():7.2f}s  ", "dim"), (f"{who:8}", _COLOURS.get(who, "")), what)
        self._lines.append(line)
        if self._live is None:
            self.console.print(line, soft_wrap=True)

    def phase(self, name: str, why: str) -> None:
        """Tell where the incident stands and what it waits for."""
        if self._now == (name, why):
            return
        if self._now[0] != name:
            self._entered.setdefault(name, []).append(self._clock())
        self._now = (name, why)
        self.say("sickbay", f"{name}: {why}")

    def _clock(self) -> float:
        return time.monotonic() - self._began

    def _picture(self) -> Group:
        table = Table(title=self.title, title_justify="left", expand=False)
        for column in ("phase", "entered", "now"):
            table.add_column(column)
        for name in (*PHASES, *(n for n in self._entered if n not in PHASES)):
            times = ", ".join(f"{t:.1f}s" for t in self._entered.get(name, []))
            current = self._now[0] == name
            table.add_row(name, times, self._now[1] if current else "", style="bold" if current else "")
        return Group(table, *self._lines[-TAIL:])


_COLOURS: Final = {"lab": "cyan", "job": "blue", "device": "red", "sickbay": "green", "api": "yellow"}
