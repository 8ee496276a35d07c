"""Fences of ours that no open incident answers for: each gets an incident, none is just deleted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Final

import structlog

from k8s.fences import Fence
from sickbay.model.device import DeviceKey
from sickbay.model.observation import SourceRef
from sickbay.model.policy import Mode, Policy
from sickbay.model.record import Record
from sickbay.policy.detect import Decision
from sickbay.policy.opening import orphaned
from sickbay.telemetry.alert import Alert
from sickbay.watch.alerts import Alerts
from sickbay.watch.books import Books
from sickbay.watch.writer import Writer

log = structlog.get_logger(__name__)

GRACE: Final = timedelta(seconds=5)
"""How long a fence may seem to have no incident: record and fence are told by two watches, in any order."""


class Orphans:
    """Finds orphans among the devices that have no open incident."""

    def __init__(
        self,
        books: Books,
        writer: Writer,
        policy: Policy,
        alerts: Alerts,
        clock: Callable[[], float],
        grace: timedelta = GRACE,
    ) -> None:
        self._books = books
        self._writer = writer
        self._policy = policy
        self._alerts = alerts
        self._clock = clock
        self._grace = grace.total_seconds()
        self._since: dict[DeviceKey, float] = {}

    async def look(
        self, device: DeviceKey, *, hurry: bool = False, swapped: Record | None = None
    ) -> Decision | timedelta | None:
        """Look at a device that has no open incident.

        Args:
            device: the device.
            hurry: it is about to get one: find out at once.
            swapped: its record, if it is retired and other hardware is in its slot: its fence has no incident by right,
                and gets one.

        Returns:
            A decision to open one, when to look again, or None when nothing of ours stands before the device.
        """
        if not any(_holds(fence) for fence in self._books.fences(device).values()):
            self._forget(device)
            return None
        waited = self._clock() - self._since.setdefault(device, self._clock())
        if waited < self._grace and not hurry:
            return timedelta(seconds=self._grace - waited)
        fence = await self._standing(device)
        if fence is None:
            self._forget(device)
            return None
        if swapped is None:
            self._alerts.begin(Alert.ORPHAN_FENCE, str(device), fence=fence.name, incident=fence.incident)
        if self._policy.mode is Mode.OBSERVE:
            return None
        source = SourceRef(kind="DeviceTaintRule", name=fence.name, uid=fence.uid)
        return orphaned(device, source, fence.resource_version, swapped=swapped)

    def _forget(self, device: DeviceKey) -> None:
        self._since.pop(device, None)
        self._alerts.end(Alert.ORPHAN_FENCE, str(device))

    async def _standing(self, device: DeviceKey) -> Fence | None:
        """Find out live whether a fence stands and no incident is open."""
        record = await self._writer.reread(device)
        if record is not None and not record.closed:
            return None
        if record is None and self._books.unreadable(device):
            return None
        fences = [fence for fence in await self._writer.reread_fences(device) if _holds(fence)]
        return max(fences, key=lambda fence: fence.number, default=None)


def _holds(fence: Fence) -> bool:
    """Whether a fence is there to stay: one that terminates without our finalizer is as good as gone."""
    return fence.latched or not fence.terminating
