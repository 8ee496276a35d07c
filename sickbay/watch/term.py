"""One term of leadership: look first, then act, until it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

import structlog

from k8s.breaker import ProbeBreaker
from k8s.clock import utc_now
from k8s.control import MemoryMap
from k8s.fences import Fence, Fences
from k8s.records import Records
from k8s.trials import Trials
from sickbay import errors
from sickbay.model.device import DeviceKey
from sickbay.model.policy import Policy
from sickbay.telemetry.alert import Alert
from sickbay.telemetry.metrics import Metrics
from sickbay.temporal import Temporal
from sickbay.watch.alerts import Alerts
from sickbay.watch.caretaker import Caretaker
from sickbay.watch.copy import Copy
from sickbay.watch.directory import Listener
from sickbay.watch.housekeeping import Housekeeping
from sickbay.watch.leader import Leader
from sickbay.watch.ledger import Ledger
from sickbay.watch.leftovers import Leftovers
from sickbay.watch.office import Office
from sickbay.watch.orphans import Orphans
from sickbay.watch.queue import KeyedQueue
from sickbay.watch.retired import Retired
from sickbay.watch.signals import Signals
from sickbay.watch.suspension import Suspension
from sickbay.watch.waiting import WaitingRoom
from sickbay.watch.writer import Writer

log = structlog.get_logger(__name__)

FIRST_LOOK: Final = timedelta(seconds=1)
"""A new leader waits before it acts: several API servers have a cache of the term each (measured: 3.4 ms on one)."""

LIST_RETRY: Final = timedelta(seconds=1)

WORKERS: Final = 96
"""Devices worked on at once; each costs a connection. A busy API server shares itself out by requests in flight: with
fewer than the kubelets' the fences of a burst fall behind its statuses (measured: last fence at 2.1 times the last
status with 16, 1.4 to 1.7 with 64, 1.3 to 1.65 with 96; no better with 160 or 256)."""


@dataclass(frozen=True)
class Parts:
    """What all terms of a process share."""

    temporal: Temporal
    records: Records
    fences: Fences
    memory: MemoryMap
    breaker: ProbeBreaker
    trials: Trials
    copy: Copy
    policy: Policy
    metrics: Metrics
    clock: Callable[[], float]


class Term:
    """Everything that acts, wired for one term.

    Attributes:
        alerts: what it tells a person; they end with it.
    """

    def __init__(self, parts: Parts, office: Office) -> None:
        self._parts = parts
        self._office = office
        self._directory = parts.copy.directory
        policy, metrics, books = parts.policy, parts.metrics, self._directory.books
        alerts = self.alerts = Alerts(metrics)
        self._ledger = Ledger(policy, books, self._published, metrics)
        self._room = WaitingRoom(self._directory, self._ledger, policy, alerts, self._look, utc_now)
        writer = Writer(parts.records, parts.fences, self._directory, office, policy, metrics, alerts, parts.clock)
        self._calm = asyncio.Event()
        self._caretaker = Caretaker(
            parts.temporal, books, writer, office, policy, metrics, alerts, parts.clock, self._calm
        )
        self._signals = Signals(
            parts.temporal, parts.clock, missing=self._missing, unreachable=self._caretaker.unreachable
        )
        orphans = Orphans(books, writer, policy, alerts, parts.clock)
        self._leader = Leader(
            self._directory,
            writer,
            self._room,
            orphans,
            Retired(self._directory.pools, policy, alerts),
            self._caretaker,
            self._signals,
            office,
            policy,
            metrics,
            utc_now,
        )
        self._queue: KeyedQueue[DeviceKey] = KeyedQueue(
            self._leader.process, workers=WORKERS, failed=self._failed, idle=self._calm, lag=metrics.lag
        )
        leftovers = Leftovers(parts.trials, parts.records, books)
        self._housekeeping = Housekeeping(
            self._directory, parts.records, parts.memory, office, policy, leftovers, utc_now
        )
        self._suspension = Suspension(parts.breaker, alerts, metrics)

    async def serve(self) -> None:
        """Act until cancelled."""
        try:
            await asyncio.sleep(FIRST_LOOK.total_seconds())
            await self._look_around()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._office.serve())
                group.create_task(self._queue.serve())
                group.create_task(self._room.serve())
                group.create_task(self._caretaker.serve())
                group.create_task(self._signals.serve())
                group.create_task(self._housekeeping.serve())
                group.create_task(self._suspension.serve())
        finally:
            self.alerts.end_all()

    async def _look_around(self) -> None:
        """Learn past every cache what is written, then listen, then look at every device once."""
        while True:
            try:
                await self._office.read()
                memory = await self._parts.memory.load()
                records = await self._parts.records.list()
                fences = await self._parts.fences.list()
            except errors.UsageError as error:
                self.alerts.begin(Alert.NOT_INSTALLED, error=str(error))
            except errors.SickbayError as error:
                log.warning("term_not_begun", term=self._office.term, error=str(error))
            else:
                break
            await asyncio.sleep(LIST_RETRY.total_seconds())
        self.alerts.end(Alert.NOT_INSTALLED)
        books = self._directory.books
        books.take_list(records)
        for fence in fences:
            books.take_fence(fence)
        self._directory.remember(memory.known)
        self._ledger.remember(books.open_records, utc_now())
        self._directory.listener = Listener(device=self._call, fence=self._on_fence, pools=self._room.changed)
        devices = {*self._directory.devices, *books.fenced_devices, *(r.spec.key for r in books.records)}
        for device in devices:
            self._call(device)
        log.info("term_began", term=self._office.term, devices=len(devices), open=len(books.open_records))

    def _look(self, device: DeviceKey) -> None:
        self._queue.add(device)

    def _call(self, device: DeviceKey) -> None:
        self._look(device)
        self._room.changed()

    def _on_fence(self, device: DeviceKey, before: Fence | None, after: Fence | None) -> None:
        """Look at a device when its fence is not what its incident is to have; most events tell of our own doing."""
        if before is not None:
            self.alerts.end(Alert.FENCE_MISMATCHED, before.name)  # it is gone, or another than it was
        if after is not None:
            record = self._directory.books.record(device)
            its_own = record is not None and not record.closed and after.incident == record.spec.incident
            if before is None and its_own and not after.terminating:
                return
            if before is not None and replace(before, resource_version=after.resource_version) == after:
                return  # Kubernetes wrote its status
        self._queue.add(device)

    def _missing(self, incident: str) -> None:
        for record in self._directory.books.open_records:
            if record.spec.incident == incident:
                self._caretaker.look(record.spec.key)

    def _published(self) -> Mapping[str, int] | None:
        return self._directory.pools.published if self._parts.copy.slices_listed else None

    def _failed(self, device: DeviceKey, error: errors.SickbayError) -> None:
        if isinstance(error, errors.UsageError):
            self.alerts.begin(Alert.NOT_INSTALLED, error=str(error))
        log.warning("device_not_processed", device=str(device), error=str(error))
