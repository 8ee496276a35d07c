"""What the guard has promised: decisions are taken in one place, at once, and count before their record is written."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

import structlog

from sickbay.model.device import DeviceKey
from sickbay.model.policy import Policy
from sickbay.model.record import AdmissionState, Record
from sickbay.policy.guard import RATE_WINDOW, Candidate, Fleet, Ruling, allowed, rule
from sickbay.telemetry.metrics import Metrics
from sickbay.watch.books import Books

log = structlog.get_logger(__name__)


class Ledger:
    """The guard's books of one term.

    A promise counts like a fence from the moment it is made until its record is seen, or the write is known to have
    failed. Nothing here awaits anything, so that two devices can never be promised the same place.
    """

    def __init__(
        self,
        policy: Policy,
        books: Books,
        published: Callable[[], Mapping[str, int] | None],
        metrics: Metrics,
    ) -> None:
        """Begin a term.

        Args:
            policy: in force.
            books: what is written.
            published: devices by driver, None while that is not known.
            metrics: counts rulings.
        """
        self._policy = policy
        self._books = books
        self._published = published
        self._metrics = metrics
        self._promised: dict[DeviceKey, tuple[Ruling, datetime]] = {}
        self._admitted_at: deque[datetime] = deque()
        self._last: dict[DeviceKey, str] = {}  # reason of the last ruling, so that a repetition is counted once

    def remember(self, records: Iterable[Record], now: datetime) -> None:
        """Take over the admissions of the last minute from their records, as the leader before us wrote them."""
        times = (r.spec.admission.at for r in records if r.admitted)
        recent = (min(at, now) for at in times if at is not None and at > now - RATE_WINDOW)
        self._admitted_at.extend(sorted(recent))

    def ask(self, candidates: Iterable[Candidate], now: datetime) -> tuple[Ruling, ...]:
        """Have the guard rule, and count what it admits from here on; whoever holds a promise is told it again."""
        self._forget_before(now - RATE_WINDOW)
        candidates = list(candidates)
        asking = [c for c in candidates if c.device not in self._promised]
        again = tuple(self._promised[c.device][0] for c in candidates if c.device in self._promised)
        rulings = rule(asking, self._fleet(), self._policy, now)
        for ruling in rulings:
            if self._last.get(ruling.device) != ruling.reason:
                self._last[ruling.device] = ruling.reason
                self._metrics.admission(ruling.state)
            if ruling.state is AdmissionState.ADMITTED:
                self._promised[ruling.device] = (ruling, now)
                self._admitted_at.append(now)
        return again + rulings

    def has_room(self, driver: str, now: datetime) -> bool:
        """Say whether one more device of a pool could be admitted now, whoever it is."""
        self._forget_before(now - RATE_WINDOW)
        fleet, guard = self._fleet(), self._policy.guard
        if fleet.published is None or len(self._admitted_at) >= guard.per_minute:
            return False
        return fleet.fenced.get(driver, 0) < allowed(guard, fleet.published.get(driver, 0))

    def promise(self, device: DeviceKey) -> Ruling | None:
        """Give the promise that a device holds while its record is not known to be written."""
        promise = self._promised.get(device)
        return promise[0] if promise is not None else None

    def keep(self, device: DeviceKey) -> None:
        """Let a promise go over into the record that holds it now, and that is counted itself."""
        if self._promised.pop(device, None) is not None:
            self._last.pop(device, None)

    def withdraw(self, device: DeviceKey) -> None:
        """Take back a promise whose write is known to have failed."""
        self._last.pop(device, None)
        promise = self._promised.pop(device, None)
        if promise is not None and promise[1] in self._admitted_at:
            self._admitted_at.remove(promise[1])

    def _forget_before(self, since: datetime) -> None:
        while self._admitted_at and self._admitted_at[0] <= since:
            self._admitted_at.popleft()

    def _fleet(self) -> Fleet:
        return Fleet(self._fenced(), self._published(), self._admitted_at)

    def _fenced(self) -> Counter[str]:
        fenced = Counter(self._books.taken)
        # What is promised is written soon.
        fenced.update(device.driver for device in self._promised if not self._books.takes_place(device))
        return fenced
