"""What the leader's desk would send of a device that flaps, by a clock that the test moves: no server is asked."""

from __future__ import annotations

from datetime import timedelta

from sickbay.model.contracts import Observed
from sickbay.model.observation import Health
from sickbay.temporal import Temporal
from sickbay.watch.signals import Signals

INCIDENT = "incident/1"


class Desk:
    """The words about one incident."""

    def __init__(self, known: Health = Health.UNHEALTHY) -> None:
        """Begin with nothing told.

        Args:
            known: severity that its record says.
        """
        self._known = known
        self._now = 0.0
        self._signals = Signals(
            Temporal("127.0.0.1:9"), lambda: self._now, missing=lambda _: None, unreachable=lambda _: None
        )

    def flip(self, second: float, *, half: timedelta = timedelta(seconds=5)) -> Observed | None:
        """Say how a device is that flaps, and give what is sent then, if anything is."""
        bad = int(second / half.total_seconds()) % 2 == 0
        return self.say(second, Observed(health=Health.UNHEALTHY if bad else Health.HEALTHY))

    def say(self, second: float, observed: Observed) -> Observed | None:
        """Have something told at a second, and give what is sent then, if anything is."""
        self._now = second
        self._signals.tell(INCIDENT, observed, known=self._known)
        return self.sends(second)

    def sends(self, second: float) -> Observed | None:
        """Give what is sent at a second of what was told before, if anything is."""
        self._now = second
        desk = self._signals._desks[INCIDENT]
        if desk.word is None or self._signals._wait(desk) is not None:
            return None
        self._signals._desks[INCIDENT] = self._signals._after(desk, desk.word)
        return desk.word
