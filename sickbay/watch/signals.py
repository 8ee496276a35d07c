"""What open incidents are told: little, the latest, and bad news at once.

An incident reads live before it believes anything, so a word is only a reason to look: one per `INTERVAL` is enough,
the latest stands for those before it. Of a device that goes on flapping ever fewer are sent, for each costs history. A
health above the highest it was told, a lost fence, a device that was given up and an admission do not wait.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

import structlog

from sickbay.errors import TemporalUnavailable
from sickbay.model.contracts import Admitted, Observed
from sickbay.model.observation import Health
from sickbay.temporal import Temporal
from sickbay.watch.queue import KeyedQueue

log = structlog.get_logger(__name__)

INTERVAL: Final = timedelta(seconds=30)
"""Between two words to one incident, unless it cannot wait."""

LONGEST: Final = timedelta(minutes=4)
"""Between two words about a device that flaps: the pause doubles while each word stands for several."""

WORKERS: Final = 8
"""Incidents told at once."""


@dataclass(frozen=True, slots=True)
class _Desk:
    """What is kept of one incident.

    Attributes:
        highest: it was told, or its record says.
        word: not sent yet.
        urgent: whether that word may not wait.
        admitted: not sent yet.
        sent_at: of the last word, on our clock; None = never.
        pause: after that word.
    """

    highest: Health
    word: Observed | None = None
    urgent: bool = False
    admitted: Admitted | None = None
    sent_at: float | None = None
    pause: timedelta | None = None


class Signals:
    """Words to open incidents, of one term."""

    def __init__(
        self,
        temporal: Temporal,
        clock: Callable[[], float],
        *,
        missing: Callable[[str], None],
        unreachable: Callable[[TemporalUnavailable], None],
    ) -> None:
        """Prepare; `serve` sends.

        Args:
            temporal: where incidents run.
            clock: seconds, never going back.
            missing: told an incident whose workflow does not run.
            unreachable: told that Temporal does not answer; words are kept and sent later.
        """
        self._temporal = temporal
        self._clock = clock
        self._missing = missing
        self._unreachable = unreachable
        self._desks: dict[str, _Desk] = {}
        self._queue: KeyedQueue[str] = KeyedQueue(self._send, workers=WORKERS, failed=self._not_sent)

    async def serve(self) -> None:
        """Send until cancelled."""
        await self._queue.serve()

    def tell(self, incident: str, observed: Observed, *, known: Health) -> None:
        """Have an incident told that something was said.

        Args:
            incident: its id.
            observed: the word.
            known: severity that its record says.
        """
        desk = self._desks.get(incident) or _Desk(highest=known)
        highest = max(desk.highest, known, key=lambda h: h.severity)
        urgent = observed.fence_lost or observed.disowned or observed.health.severity > highest.severity
        waiting = desk.word
        if waiting is not None:
            observed = observed.model_copy(
                update={
                    "count": waiting.count + observed.count,
                    "fence_lost": waiting.fence_lost or observed.fence_lost,
                    "disowned": waiting.disowned or observed.disowned,
                }
            )
        self._desks[incident] = replace(desk, highest=highest, word=observed, urgent=desk.urgent or urgent)
        self._queue.add(incident)

    def admit(self, incident: str, admitted: Admitted) -> None:
        """Have an incident told that it may act."""
        desk = self._desks.get(incident) or _Desk(highest=admitted.severity)
        self._desks[incident] = replace(desk, admitted=admitted)
        self._queue.add(incident)

    def forget(self, incident: str) -> None:
        """Tell an incident nothing more: it has ended."""
        self._desks.pop(incident, None)

    async def _send(self, incident: str) -> timedelta | None:
        desk = self._desks.get(incident)
        if desk is None:
            return None
        if desk.admitted is not None:
            self._answer(incident, await self._temporal.admitted(incident, desk.admitted))
            self._update(incident, lambda now: replace(now, admitted=None) if now.admitted == desk.admitted else now)
        if desk.word is None:
            return None
        wait = self._wait(desk)
        if wait is not None:
            return wait
        sent = desk.word
        self._answer(incident, await self._temporal.observe(incident, sent))
        self._update(incident, lambda now: self._after(now, sent))
        return None

    def _wait(self, desk: _Desk) -> timedelta | None:
        if desk.urgent or desk.sent_at is None:
            return None
        rest = (desk.pause or INTERVAL).total_seconds() - (self._clock() - desk.sent_at)
        return timedelta(seconds=rest) if rest > 0 else None

    def _after(self, desk: _Desk, sent: Observed) -> _Desk:
        """Keep what was said while the word was on its way."""
        highest = max(desk.highest, sent.health, key=lambda h: h.severity)
        pause = min((desk.pause or INTERVAL) * 2, max(LONGEST, INTERVAL)) if sent.count > 1 else INTERVAL
        desk = replace(desk, sent_at=self._clock(), pause=pause)
        if desk.word is None or desk.word == sent:
            return replace(desk, highest=highest, word=None, urgent=False)
        later = desk.word.model_copy(update={"count": max(1, desk.word.count - sent.count)})
        new = (later.fence_lost and not sent.fence_lost) or (later.disowned and not sent.disowned)
        urgent = new or later.health.severity > highest.severity
        return replace(desk, highest=highest, word=later, urgent=urgent)

    def _update(self, incident: str, change: Callable[[_Desk], _Desk]) -> None:
        if incident in self._desks:
            self._desks[incident] = change(self._desks[incident])

    def _answer(self, incident: str, arrived: bool) -> None:  # noqa: FBT001 - the answer itself
        if not arrived:
            log.info("incident_not_running", incident=incident)
            self._missing(incident)

    def _not_sent(self, incident: str, error: Exception) -> None:
        if isinstance(error, TemporalUnavailable):
            self._unreachable(error)
            return
        log.warning("signal_not_sent", incident=incident, error=str(error))
