"""The watcher: a copy of the cluster that is always warm, and one term of leadership after another.

Several may run; the one that holds the Lease acts, the others stand by with a copy of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

import structlog

from k8s.breaker import ProbeBreaker
from k8s.clock import utc_now
from k8s.configmaps import NAMESPACE
from k8s.control import ControlMap, MemoryMap
from k8s.election import Election, Timing, boot_clock
from k8s.fences import Fences
from k8s.gateway import Gateway
from k8s.install import LEADER_LEASE
from k8s.records import Records
from k8s.trials import Trials
from sickbay.model.policy import Mode, Policy
from sickbay.model.record import AdmissionState, Phase
from sickbay.telemetry.alert import Alert
from sickbay.telemetry.metrics import Metrics
from sickbay.temporal import Temporal
from sickbay.watch.alerts import Alerts
from sickbay.watch.copy import Copy
from sickbay.watch.directory import NOBODY
from sickbay.watch.office import Office
from sickbay.watch.term import Parts, Term

log = structlog.get_logger(__name__)

TICK: Final = timedelta(seconds=1)
"""Between two looks at what time alone changes."""

STALE_AFTER: Final = 120.0
"""Seconds after which our copy of the cluster counts as old: a silent API server proves itself about once a minute."""


class Watcher:
    """Watches one cluster, and leads when it is its turn."""

    def __init__(
        self,
        gateway: Gateway,
        temporal: Temporal,
        policy: Policy,
        cluster: str,
        *,
        meter: Metrics,
        election: Gateway | None = None,
        timing: Timing | None = None,
        clock: Callable[[], float] = boot_clock,
    ) -> None:
        """Wire the parts; nothing is sent before `run`.

        Args:
            gateway: the API server.
            temporal: where incidents run; it may be away.
            policy: in force.
            cluster: our name of the cluster.
            meter: the process' metrics.
            election: the API server through connections that nothing else uses: a burst must not hold up a renewal.
            timing: of the election.
            clock: seconds, never going back.
        """
        self._gateway = election or gateway
        self._policy = policy
        self._meter = meter
        self._clock = clock
        self._timing = timing
        self._alerts = Alerts(meter)
        self._copy = Copy(gateway, cluster, policy, meter, self._alerts, clock=clock)
        self._control = ControlMap(gateway)
        self._parts = Parts(
            temporal=temporal,
            records=Records(gateway),
            fences=Fences(gateway),
            memory=MemoryMap(gateway),
            breaker=ProbeBreaker(gateway),
            trials=Trials(gateway),
            copy=self._copy,
            policy=policy,
            metrics=meter,
            clock=clock,
        )
        self._election: Election | None = None
        self._serving: Term | None = None

    @property
    def missing(self) -> str:
        """What keeps it from acting or standing by, ``""`` if nothing does."""
        missing = self._copy.missing
        if missing:
            return f"not listed yet: {', '.join(missing)}"
        if self._copy.staleness > STALE_AFTER:
            return f"the copy of the cluster is {self._copy.staleness:.0f} s old"
        election = self._election
        if election is not None and election.problem is not None:
            return f"the election does not work: {election.problem}"
        if election is None or not election.holder:
            return "nobody leads yet"
        if self.leading and not self.acting:
            return "it leads, and has not begun its term yet"
        return ""

    @property
    def leading(self) -> bool:
        """Whether this process acts at this moment."""
        return self._election is not None and self._election.leading

    @property
    def term(self) -> int:
        """Number of the last term that this process served, 0 before the first."""
        return self._election.term if self._election is not None else 0

    @property
    def acting(self) -> bool:
        """Whether this process leads, has looked around, and acts on what it is told."""
        return self.leading and self._copy.directory.listener is not NOBODY

    def tells(self, alert: Alert, about: str = "") -> bool:
        """Say whether a condition is known to hold now."""
        tellers = [self._alerts, self._serving.alerts] if self._serving is not None else [self._alerts]
        return any(alerts.holds(alert, about) for alerts in tellers)

    async def run(self, stop: asyncio.Event) -> None:
        """Watch until asked to stop.

        Raises:
            UsageError: the cluster lacks what we need.
        """
        if self._policy.mode is Mode.OBSERVE:
            log.warning("policy_only_observes", remedy="give a policy with mode shadow, approve or enforce")
        async with asyncio.TaskGroup() as group:
            watching = [group.create_task(part) for part in (self._copy.run(), self._tick(), self._lead(stop))]
            await stop.wait()
            await watching.pop()  # the last term ends in order; the copy is not needed after it
            for task in watching:
                task.cancel()

    async def _lead(self, stop: asyncio.Event) -> None:
        """Stand for election again and again, and serve each term that is won."""
        if not await first(stop, self._copy.synced()):
            return
        while not stop.is_set():
            async with Election(
                self._gateway, namespace=NAMESPACE, name=LEADER_LEASE, timing=self._timing
            ) as self._election:
                if await first(stop, self._election.acquired()):
                    await self._serve(self._election, stop)
            self._meter.leading(yes=False)

    async def _serve(self, election: Election, stop: asyncio.Event) -> None:
        office = Office(
            election.term,
            election.identity,
            lambda: election.leading,
            self._control,
            self._meter,
            utc_now,
            self._clock,
        )
        self._meter.leading(yes=True)
        self._serving = Term(self._parts, office)
        term = asyncio.create_task(self._serving.serve())
        try:
            await until(stop, election.lost, term)
        finally:
            term.cancel()
            self._serving = None
            self._copy.directory.listener = NOBODY
            with suppress(asyncio.CancelledError):
                await term

    async def _tick(self) -> None:
        """Let time pass: Leases age, gauges move."""
        last = self._clock()
        while True:
            await asyncio.sleep(TICK.total_seconds())
            last, passed = self._clock(), self._clock() - last
            directory = self._copy.directory
            self._copy.check()
            if not self._copy.missing:
                directory.sweep()
            if self.acting and directory.in_doubt:
                self._alerts.begin(Alert.FLEET_IN_DOUBT, unknown=len(directory.doubted), devices=len(directory.devices))
            else:
                self._alerts.end(Alert.FLEET_IN_DOUBT)
            staleness = self._copy.staleness
            if staleness > STALE_AFTER:
                self._alerts.begin(Alert.WATCH_STALE, seconds=round(staleness))
            else:
                self._alerts.end(Alert.WATCH_STALE)
            self._meter.staleness(staleness)
            self._meter.status_age(directory.oldest_lease())
            self._meter.leading(yes=self.leading)
            counts = dict.fromkeys(AdmissionState, 0)
            for record in directory.books.open_records:
                counts[record.spec.admission.state] += 1
            for state, count in counts.items():
                self._meter.records(state, count)
            self._meter.unknown(len(directory.doubted), passed if self.acting else 0)
            for device in directory.books.fenced_devices if self.acting else ():
                known = directory.books.record(device)
                told = known is not None and known.status.incident == known.spec.incident
                self._meter.fenced_time((known.status.phase if known and told else None) or Phase.QUARANTINED, passed)


async def first(stop: asyncio.Event, what: Awaitable[Any]) -> bool:
    """Wait for something, or until asked to stop; say whether it came first."""
    task, stopped = asyncio.ensure_future(what), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        return task.done() and not stop.is_set()
    finally:
        task.cancel()
        stopped.cancel()


async def until(stop: asyncio.Event, lost: asyncio.Event, term: asyncio.Task[None]) -> None:
    """Wait until a term is over: asked to stop, lost, or ended by an error of its own, which is raised."""
    ends = [asyncio.ensure_future(event.wait()) for event in (stop, lost)]
    try:
        await asyncio.wait({*ends, term}, return_when=asyncio.FIRST_COMPLETED)
        if term.done():
            await term
    finally:
        for end in ends:
            end.cancel()
