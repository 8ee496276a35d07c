"""What the leader does beside its duties: remember what no list gives back, remove what outlived its incident."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import structlog

from k8s.control import Memory, MemoryMap
from k8s.records import Records
from sickbay import errors
from sickbay.model.policy import Policy
from sickbay.model.record import FINALIZER, Record
from sickbay.policy.detect import Action, decide
from sickbay.policy.opening import target_of
from sickbay.watch.directory import Directory
from sickbay.watch.leftovers import Leftovers
from sickbay.watch.office import Office

log = structlog.get_logger(__name__)

ROUND: Final = timedelta(seconds=10)
"""Between two rounds: the memory is written at most so often."""


class Housekeeping:
    """Rounds of one term."""

    def __init__(
        self,
        directory: Directory,
        records: Records,
        memory: MemoryMap,
        office: Office,
        policy: Policy,
        leftovers: Leftovers,
        now: Callable[[], datetime],
    ) -> None:
        self._directory = directory
        self._records = records
        self._memory = memory
        self._office = office
        self._policy = policy
        self._leftovers = leftovers
        self._now = now

    async def serve(self) -> None:
        """Make rounds until cancelled."""
        while True:
            await asyncio.sleep(ROUND.total_seconds())
            try:
                if await self._office.may_act():
                    await self._memory.store(Memory(known=self._directory.known))
                    for record in self._outlived():
                        await self._remove(record)
                    await self._leftovers.remove()
            except errors.SickbayError as error:
                log.warning("housekeeping_failed", error=str(error))

    def _outlived(self) -> list[Record]:
        """Name closed records that were kept long enough and whose device nothing bad is said of.

        A record remembers which sticky report was outvoted: without it that report would open an incident.
        """
        now, found = self._now(), []
        for record in self._directory.books.records:
            closed = record.status.closed
            if not record.closed or record.retired or closed is None:
                continue
            old = now - closed.at >= self._policy.keep or record.deleting
            quiet = decide(self._directory.track(record.spec.key), None, self._policy).action is Action.IGNORE
            if old and quiet:
                found.append(record)
        return found

    async def _remove(self, record: Record) -> None:
        target = target_of(record)
        if FINALIZER in record.finalizers:
            # Its incident ended between its last two writes.
            record = await self._records.unlatch(record, target.effect_key("close", target.run))
        if not record.deleting:
            await self._records.delete(record)
        log.info("record_removed", record=record.name, incident=record.spec.incident)
