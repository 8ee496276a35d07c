"""Every open record has a running workflow: started, started again, or waited for; never two.

The record is the lock, the workflow id only its name. So what decides is the record, read live before anything is
started but what we opened ourselves a moment ago, and Temporal's answer about that one id. While Temporal does not
answer, or is another database than the one that holds our incidents, nothing is started and devices are fenced all the
same.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final

import structlog

from sickbay import errors
from sickbay.errors import TemporalUnavailable
from sickbay.model.device import DeviceKey
from sickbay.model.policy import Policy
from sickbay.model.record import Record
from sickbay.policy.opening import incident_state, ran_before, run_again
from sickbay.telemetry import tracing
from sickbay.telemetry.alert import Alert
from sickbay.telemetry.metrics import Metrics, Started
from sickbay.temporal import Described, Standing, StartOutcome, Temporal
from sickbay.watch.alerts import Alerts
from sickbay.watch.books import Books
from sickbay.watch.office import Office
from sickbay.watch.queue import KeyedQueue
from sickbay.watch.writer import Writer

log = structlog.get_logger(__name__)

WORKERS: Final = 16
"""Incidents looked after at once."""

LOOK: Final = timedelta(seconds=60)
"""Between two looks at an incident whose workflow runs."""

ANOTHER_RUN: Final = timedelta(seconds=2)
"""Between two looks while the workflow of an earlier run finds out that it is superseded."""

WHILE_PAUSED: Final = timedelta(seconds=5)

RETRY: Final = timedelta(seconds=1)
"""Between two looks whether Temporal is there (again): an incident is to start within 5 s of its return."""

CHECK: Final = timedelta(seconds=15)
"""Between two looks at Temporal while it answers."""

RESTARTS_PER_SECOND: Final = 20
"""Lost incidents that are started again; new ones are not held up."""

PATIENCE: Final = timedelta(seconds=10)
"""How long a start waits for fences at most."""

RUN_PAUSE: Final = timedelta(seconds=10)
"""At least so long between two runs of one incident."""


class Caretaker:
    """Looks after the workflows of open records, of one term."""

    def __init__(
        self,
        temporal: Temporal,
        books: Books,
        writer: Writer,
        office: Office,
        policy: Policy,
        metrics: Metrics,
        alerts: Alerts,
        clock: Callable[[], float],
        calm: asyncio.Event,
    ) -> None:
        """Prepare; `serve` looks after incidents.

        Args:
            temporal: where they run; it may be away.
            books: what is written.
            writer: writes the number of the next run.
            office: our term.
            policy: that new incidents begin with.
            metrics: counts starts.
            alerts: told when Temporal is away or another.
            clock: seconds, never going back.
            calm: set while no device waits for its turn to be fenced.
        """
        self._temporal = temporal
        self._books = books
        self._writer = writer
        self._office = office
        self._policy = policy
        self._metrics = metrics
        self._alerts = alerts
        self._clock = clock
        self._calm = calm
        self._new: dict[DeviceKey, str] = {}  # incidents that we opened ourselves and that were never started
        self._restarted_at: dict[str, float] = {}
        self._next_restart = 0.0
        self._usable = asyncio.Event()
        self._doubt = asyncio.Event()
        self._queue: KeyedQueue[DeviceKey] = KeyedQueue(self._look, workers=WORKERS, failed=self._failed)

    def opened(self, device: DeviceKey) -> None:
        """Start the incident that was opened just now."""
        record = self._books.record(device)
        if record is not None:
            self._new[device] = record.spec.incident
            self._queue.add(device)

    def look(self, device: DeviceKey) -> None:
        """See whether a device's incident runs."""
        self._queue.add(device)

    def unreachable(self, error: TemporalUnavailable) -> None:
        """Take note that Temporal did not answer somebody."""
        self._alerts.begin(Alert.TEMPORAL_UNAVAILABLE, error=str(error), fences="go on")
        self._usable.clear()
        self._doubt.set()

    async def serve(self) -> None:
        """Look after incidents until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._check_temporal())
            group.create_task(self._queue.serve())

    async def _check_temporal(self) -> None:
        """Keep up to date whether Temporal answers, and whether it is the database that we think it is."""
        while True:
            self._doubt.clear()
            pause = CHECK if await self._temporal_is_ours() else RETRY
            try:
                async with asyncio.timeout(pause.total_seconds()):
                    await self._doubt.wait()
                await asyncio.sleep(0)
            except TimeoutError:
                continue

    async def _temporal_is_ours(self) -> bool:
        try:
            found = await self._temporal.namespace_id()
            expected = (await self._office.read()).namespace_id
        except TemporalUnavailable as error:
            self._alerts.begin(Alert.TEMPORAL_UNAVAILABLE, error=str(error), fences="go on")
            self._usable.clear()
            return False
        except errors.SickbayError as error:
            log.warning("installation_not_read", error=str(error))
            return self._usable.is_set()
        self._alerts.end(Alert.TEMPORAL_UNAVAILABLE)
        if expected not in {"", found}:
            self._alerts.begin(
                Alert.NAMESPACE_MISMATCH,
                found=found,
                expected=expected,
                remedy="if Temporal's database was replaced on purpose: sickbay install --adopt-namespace",
            )
            self._usable.clear()
            return False
        if self._alerts.holds(Alert.NAMESPACE_MISMATCH):
            self._alerts.end(Alert.NAMESPACE_MISMATCH)
            for record in self._books.open_records:  # none of them runs in an adopted database
                self._queue.add(record.spec.key)
        self._usable.set()
        return True

    async def _look(self, device: DeviceKey) -> timedelta | None:
        await self._usable.wait()
        record = self._books.record(device)
        if record is None or record.closed or not self._office.leads:
            self._new.pop(device, None)
            return None
        if not await self._office.may_act():
            return WHILE_PAUSED
        if self._new.get(device) == record.spec.incident:
            await self._let_fences_go_first()
            await self._start(record)
            self._new.pop(device, None)
            return _about(LOOK)
        described = await self._temporal.describe(record.spec.incident)
        if described.standing is Standing.RUNNING:
            ours = described.run in {None, record.spec.run}
            return _about(LOOK) if ours else ANOTHER_RUN
        return await self._restart(device, described)

    async def _let_fences_go_first(self) -> None:
        """Wait while devices wait for their fences, but not for long: a start costs more than a fence, and can wait."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE.total_seconds()):
                await self._calm.wait()

    async def _restart(self, device: DeviceKey, described: Described) -> timedelta | None:
        """Start an incident whose workflow is not there, in the same run, or in the next if that one has ended."""
        await self._pace()
        if not await self._temporal_is_ours():
            return RETRY
        record = await self._writer.reread(device)
        if record is None or record.closed or not self._office.leads:
            return None
        spec = record.spec
        waited = self._clock() - self._restarted_at.get(spec.incident, -RUN_PAUSE.total_seconds())
        if waited < RUN_PAUSE.total_seconds():
            return timedelta(seconds=RUN_PAUSE.total_seconds() - waited)
        ended = described.standing is Standing.CLOSED
        same = described.run in {None, spec.run} and described.record_uid in {None, record.uid}
        if (ended and same) or spec.namespace_id != self._office.namespace_id:
            run = spec.run + 1 if ended and same else spec.run
            changed = run_again(record, run, self._office.term, self._office.namespace_id)
            written = await self._writer.write(device, record, changed)
            if written is None:
                return timedelta(0)
            record = written
        self._restarted_at[spec.incident] = self._clock()
        await self._start(record)
        if ran_before(record):
            log.warning("incident_restarted", incident=spec.incident, run=record.spec.run, found=described.standing)
        return _about(LOOK)

    async def _start(self, record: Record) -> None:
        with tracing.part("start workflow", record.spec.incident, run=record.spec.run) as part:
            try:
                outcome = await self._temporal.start_incident(incident_state(record, self._policy))
            except TemporalUnavailable:
                part.drop()  # it is tried again every second
                self._metrics.started(Started.UNAVAILABLE)
                raise
            part.note(outcome=outcome)
        self._metrics.started(Started.STARTED if outcome is StartOutcome.STARTED else Started.ALREADY_RUNNING)
        log.info("incident_started", incident=record.spec.incident, run=record.spec.run, outcome=outcome)

    async def _pace(self) -> None:
        """Space restarts, so that a great loss is no storm."""
        now = self._clock()
        self._next_restart = max(self._next_restart, now) + 1 / RESTARTS_PER_SECOND
        await asyncio.sleep(self._next_restart - 1 / RESTARTS_PER_SECOND - now)

    def _failed(self, device: DeviceKey, error: errors.SickbayError) -> None:
        if isinstance(error, TemporalUnavailable):
            self.unreachable(error)
        else:
            log.warning("incident_not_looked_after", device=str(device), error=str(error))


def _about(pause: timedelta) -> timedelta:
    """Vary a pause by a quarter, so that a thousand incidents are not looked at in one second."""
    return pause * random.uniform(0.75, 1.25)  # noqa: S311 - spreads load
