"""Trials that nobody waits for any more: their incident has ended without them, or its record is gone.

An incident removes its own trial before it ends. One whose record a hand closes is superseded and leaves no trace, so
its probe or canary would keep the device, and keep everybody else's trials from it, for hours.
"""

from __future__ import annotations

import structlog

from k8s.reading import Undecodable
from k8s.records import Records
from k8s.trials import Standing, Trials
from sickbay import errors
from sickbay.model.device import DeviceKey
from sickbay.model.record import Record
from sickbay.watch.books import Books

log = structlog.get_logger(__name__)


class Leftovers:
    """Removes them, for one term."""

    def __init__(self, trials: Trials, records: Records, books: Books) -> None:
        self._trials = trials
        self._records = records
        self._books = books

    async def remove(self) -> None:
        """Remove what is left over now; a claim goes in the round after its pod.

        Raises:
            SickbayError: something could not be read or deleted; the next round tries again.
        """
        for found in await self._trials.list():
            if found.leaving or awaited(found, self._books.record(found.device)):
                continue
            try:
                record = await self._live(found.device)
            except Undecodable:
                continue  # whether its incident is open is not known
            if awaited(found, record):
                continue
            log.warning("leftover_trial_removed", kind=found.resource.plural, name=found.name, incident=found.incident)
            await self._trials.delete(found)

    async def _live(self, device: DeviceKey) -> Record | None:
        """Read a record past our copy, which may be behind."""
        try:
            return await self._records.get(device.record_name)
        except errors.NotFound:
            return None


def awaited(found: Standing, record: Record | None) -> bool:
    """Say whether a trial is that of the open incident, in whichever run, of its device's record."""
    if record is None or record.closed:
        return False
    return (record.uid, record.spec.incident) == (found.record_uid, found.incident)
