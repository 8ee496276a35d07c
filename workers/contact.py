"""Whether Temporal answers: asked for as long as the process runs, told once per change."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Final

import structlog

from sickbay.errors import TemporalRefused, TemporalUnavailable
from sickbay.model.searching import SearchAttribute
from sickbay.telemetry.health import Readiness
from sickbay.telemetry.metrics import Metrics
from sickbay.temporal import Temporal

log = structlog.get_logger(__name__)

CHECK: Final = "temporal"
"""Name of the readiness check."""

WHILE_AWAY: Final = timedelta(seconds=1)
"""Between two looks while it does not answer: an incident is to start within 5 s of its return."""

WHILE_THERE: Final = timedelta(seconds=5)


_UNFOUND: Final = "incidents that start now are not found by them in Temporal's list"


class Contact:
    """Keeps readiness, metric and log up to date with whether Temporal answers.

    Attributes:
        made: set once it has answered for the first time.
        up: whether it answered last time.
    """

    def __init__(self, temporal: Temporal, readiness: Readiness, metrics: Metrics, without: str) -> None:
        """Watch over a connection.

        Args:
            temporal: the connection.
            readiness: has the check `CHECK`.
            metrics: has the gauge.
            without: what this process does meanwhile, for the log.
        """
        self.made = asyncio.Event()
        self.up = False
        self._temporal = temporal
        self._readiness = readiness
        self._metrics = metrics
        self._without = without
        self._told = False

    async def keep(self, stop: asyncio.Event) -> None:
        """Look until asked to stop."""
        while not stop.is_set():
            await self.look()
            pause = WHILE_THERE if self.up else WHILE_AWAY
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), pause.total_seconds())

    async def up_before(self, stop: asyncio.Event) -> bool:
        """Wait until it has answered, or until asked to stop; say whether to go on."""
        waits = [asyncio.create_task(event.wait()) for event in (self.made, stop)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
        return not stop.is_set()

    async def look(self) -> None:
        """Ask once."""
        try:
            await self._temporal.namespace_id()
        except TemporalUnavailable as error:
            self._readiness.lacks(CHECK, str(error))
            self._metrics.temporal(up=False)
            if self.up or not self._told:
                log.warning("temporal_did_not_answer", meanwhile=self._without, error=str(error))
            self.up = False
        else:
            self._readiness.has(CHECK)
            self._metrics.temporal(up=True)
            if not self.up:
                log.info("temporal_answered", where=self._temporal.where)
                await self._look_up_attributes()
            self.up = True
            self.made.set()
        self._told = True

    async def _look_up_attributes(self) -> None:
        try:
            known = await self._temporal.look_up_attributes()
        except (TemporalUnavailable, TemporalRefused) as error:
            log.warning("search_attributes_not_known", consequence=_UNFOUND, error=str(error))
            return
        lacking = [name for name in SearchAttribute if name not in known]
        if lacking:
            log.warning(
                "search_attributes_not_registered",
                lacking=lacking,
                consequence=_UNFOUND,
                remedy="run 'sickbay install', then restart",
            )
