"""Incidents that wait for the guard: Held ones, and those that a person made or that ask by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

import structlog

from sickbay.model.device import DeviceKey
from sickbay.model.observation import Health, Reason
from sickbay.model.policy import Mode, Policy
from sickbay.model.record import APPROVED, WANTS_ADMISSION, AdmissionState, Record, RecordStatus
from sickbay.policy.guard import Candidate, Ruling
from sickbay.telemetry.alert import Alert
from sickbay.watch.alerts import Alerts
from sickbay.watch.directory import Directory
from sickbay.watch.ledger import Ledger

log = structlog.get_logger(__name__)

GATHER: Final = timedelta(milliseconds=200)
"""Changes within this are ruled on together."""

LONGEST: Final = timedelta(seconds=60)
"""The guard rules anew at least this often."""


class WaitingRoom:
    """Has the guard rule whenever a record, the share or the minute changes."""

    def __init__(
        self,
        directory: Directory,
        ledger: Ledger,
        policy: Policy,
        alerts: Alerts,
        call: Callable[[DeviceKey], None],
        now: Callable[[], datetime],
    ) -> None:
        """Prepare; `serve` rules.

        Args:
            directory: what is said and written.
            ledger: the guard.
            policy: in force.
            alerts: told while incidents are held.
            call: have the leader look at a device.
            now: the time.
        """
        self._directory = directory
        self._ledger = ledger
        self._policy = policy
        self._alerts = alerts
        self._call = call
        self._now = now
        self._changed = asyncio.Event()
        self._held: dict[DeviceKey, Ruling] = {}  # said to incidents that have no word of the guard yet

    def changed(self) -> None:
        """Take note that a record or the share changed."""
        self._changed.set()

    def ask(self, candidate: Candidate) -> Ruling:
        """Rule on a device at once; where there is room, those who wait are asked with it, in their order."""
        now = self._now()
        others = []
        if self._directory.books.waiting and self._ledger.has_room(candidate.device.driver, now):
            others = [c for c in self._candidates() if c.device != candidate.device]
        rulings = self._ledger.ask([candidate, *others], now)
        self._spread(r for r in rulings if r.device != candidate.device)
        return next(r for r in rulings if r.device == candidate.device)

    def promise(self, device: DeviceKey) -> Ruling | None:
        """Give what a device was promised and its record may not say yet."""
        return self._ledger.promise(device)

    def ruling(self, record: Record) -> Ruling | None:
        """Give the guard's word that a record does not hold yet."""
        device, state = record.spec.key, record.spec.admission.state
        if state is AdmissionState.ADMITTED:
            return None
        promise = self._ledger.promise(device)
        if promise is not None:
            return promise
        return self._held.get(device) if state is AdmissionState.NONE else None

    def keep(self, device: DeviceKey) -> None:
        """The record says it now."""
        self._held.pop(device, None)
        self._ledger.keep(device)

    def withdraw(self, device: DeviceKey) -> None:
        """It was not written."""
        self._held.pop(device, None)
        self._ledger.withdraw(device)

    async def serve(self) -> None:
        """Rule until cancelled."""
        while True:
            wait = self._rule()
            try:
                async with asyncio.timeout(wait.total_seconds()):
                    await self._changed.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(GATHER.total_seconds())
            self._changed.clear()

    def _rule(self) -> timedelta:
        """Rule on all who wait; say when the answer may change by itself."""
        now = self._now()
        candidates = self._candidates()
        if not candidates:
            self._alerts.end(Alert.INCIDENTS_HELD)
            return LONGEST
        rulings = self._ledger.ask(candidates, now)
        self._spread(rulings)
        held = [r for r in rulings if r.state is AdmissionState.HELD]
        if held:
            self._alerts.begin(Alert.INCIDENTS_HELD, count=len(held), numbers=held[0].numbers)
        else:
            self._alerts.end(Alert.INCIDENTS_HELD)
        due = [r.recheck_at - now for r in held if r.recheck_at is not None]
        return min([*due, LONGEST])

    def _spread(self, rulings: Iterable[Ruling]) -> None:
        """Have written what records do not say yet."""
        for ruling in rulings:
            record = self._directory.books.record(ruling.device)
            new_word = record is not None and record.spec.admission.state is AdmissionState.NONE
            if ruling.state is AdmissionState.HELD and new_word:
                self._held[ruling.device] = ruling
            if ruling.state is AdmissionState.ADMITTED or new_word:
                self._call(ruling.device)

    def _candidates(self) -> list[Candidate]:
        if self._policy.mode is Mode.OBSERVE:
            return []
        found = (self._candidate(record) for record in self._directory.books.waiting)
        return [candidate for candidate in found if candidate is not None]

    def _candidate(self, record: Record) -> Candidate | None:
        spec = record.spec
        # The status may still be the last incident's: what was asked or approved then says nothing of this one.
        status = record.status if record.status.incident in {"", spec.incident} else RecordStatus()
        wants, approved = status.condition(WANTS_ADMISSION), status.condition(APPROVED)
        by = approved.message or "a person" if approved is not None and approved.status == "True" else ""
        asks = spec.severity is Health.UNHEALTHY or (wants is not None and wants.status == "True")
        if not self._policy.matches(spec.device.driver) or not (asks or by):
            return None
        if record.disowned is not None:
            return None
        # Nobody is fenced for a device that says Healthy by now; its incident is about to end.
        said_by_object = spec.reason is not Reason.PERSON
        if (
            not by
            and said_by_object
            and self._directory.track(spec.key).evidence(self._policy).health is Health.HEALTHY
        ):
            return None
        return Candidate(spec.key, spec.severity, spec.first_bad_at, approved_by=by, policy_hash=spec.policy_hash)
