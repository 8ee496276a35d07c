"""What a leader holds during one term: its number, whether it still leads, and what the installation says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import structlog

from k8s.control import Control, ControlMap
from k8s.listings import Shared
from sickbay import errors
from sickbay.telemetry.metrics import Metrics, Refusal

log = structlog.get_logger(__name__)

FRESH: Final = 1.0
"""Seconds for which a reading of the pause switch holds for records and fences, which destroy nothing: a read before
each fence would cost a sixth of the time from the status to the fence (measured: 2 of 14 ms)."""

AHEAD: Final = 0.5
"""Seconds between two readings ahead of need."""


class Office:
    """One term of one leader.

    Attributes:
        term: transitions of the leader's Lease; every decision carries it, and the API server refuses another.
        actor: identity of this process.
        namespace_id: of the Temporal namespace that holds our incidents, as last read; ``""`` if none was fixed.
    """

    def __init__(
        self,
        term: int,
        actor: str,
        leads: Callable[[], bool],
        control: ControlMap,
        metrics: Metrics,
        now: Callable[[], datetime],
        clock: Callable[[], float],
    ) -> None:
        """Take office.

        Args:
            term: of the election.
            actor: identity in the election.
            leads: whether we still lead, at this very moment.
            control: the installation's ConfigMap.
            metrics: counts what a pause keeps us from.
            now: the time, for a pause that ends by itself.
            clock: seconds, never going back.
        """
        self.term = term
        self.actor = actor
        self.namespace_id = ""
        self._leads = leads
        self._now = now
        self._metrics = metrics
        self._clock = clock
        self._was_paused = False
        self._last = Control()
        self._last_at = -FRESH
        # Live, and at most one at a time: those who ask while one is under way share the next.
        self._control = Shared(control.read, spacing=timedelta(0))

    @property
    def leads(self) -> bool:
        """Whether we still lead, at this very moment."""
        return self._leads()

    async def serve(self) -> None:
        """Keep a fresh reading at hand until cancelled; a failure is left to whoever asks."""
        while True:
            try:
                await self.read()
            except errors.SickbayError as error:
                log.debug("control_not_read", error=str(error))
            await asyncio.sleep(AHEAD)

    async def read(self) -> Control:
        """Read the installation's ConfigMap, by a request that begins after this call.

        Raises:
            UsageError: Sickbay is not installed.
        """
        began = self._clock()
        self._last = await self._control.get()
        self._last_at = began
        self.namespace_id = self._last.namespace_id
        return self._last

    async def may_act(self) -> bool:
        """Say whether we lead and nobody has paused the installation, by a reading no older than `FRESH`.

        Raises:
            UsageError: Sickbay is not installed.
        """
        fresh = self._clock() - self._last_at <= FRESH
        control = self._last if fresh else await self.read()
        paused = control.paused_at(self._now())
        if paused != self._was_paused:
            self._was_paused = paused
            log.warning("pause_began" if paused else "pause_ended", who=control.who, why=control.why)
        if paused:
            self._metrics.refused(Refusal.PAUSED)
        return self.leads and not paused
