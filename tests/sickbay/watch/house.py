"""The watcher in a lab, and what a test looks at: records, fences, and a stand-in for the incident's workflow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families
from temporalio import workflow
from temporalio.client import WorkflowExecutionStatus

from k8s.control import ControlMap
from k8s.fences import Fence, Fences
from k8s.gateway import Gateway
from k8s.lab.lab import Lab
from k8s.records import Records
from sickbay import errors
from sickbay.model.contracts import ADMITTED_SIGNAL, INCIDENT_WORKFLOW, OBSERVE_SIGNAL, Admitted, Observed
from sickbay.model.device import DeviceKey
from sickbay.model.incident import IncidentState
from sickbay.model.observation import Health, Reason, digest_of
from sickbay.model.policy import Guard, Policy
from sickbay.model.record import Closed, Counters, FenceRef, Phase, Record, SeenSource
from sickbay.telemetry.metrics import Metrics
from sickbay.temporal import Temporal
from sickbay.watch.directory import Directory
from sickbay.watch.watcher import Watcher
from tests.conftest import AddNodes
from tests.installation import CLUSTER
from tests.k8s import cluster

UNHEALTHY: Final = digest_of(Health.UNHEALTHY, Reason.REPORTED)
"""Digest of what a broken device's pod says."""


def policy(namespace: str, **changes: Any) -> Policy:
    """Build an enforcing policy for the test's own devices, of which every one may be fenced."""
    base: dict[str, Any] = {
        "match": {"drivers": [f"{namespace}.example"]},
        "mode": "enforce",
        "stable": "1s",
        "guard": Guard(share=1.0, ceiling=1000, per_minute=1000),
    }
    return Policy.model_validate(base | changes)


@workflow.defn(name=INCIDENT_WORKFLOW)
class StandIn:
    """Stands in for the incident's workflow: it is told things and does nothing; ``told`` answers what."""

    def __init__(self) -> None:
        """Begin untold."""
        self._told: list[str] = []

    @workflow.run
    async def run(self, state: IncidentState) -> None:
        """Wait for ever; how it began is the first thing it was told."""
        self._told.insert(0, f"began run {state.target.run} {state.severity} admitted={state.admitted}")
        await workflow.wait_condition(lambda: False)

    @workflow.signal(name=OBSERVE_SIGNAL)
    def observe(self, observed: Observed) -> None:
        """Note it."""
        urgent = "fence lost " * observed.fence_lost + "given up " * observed.disowned
        self._told.append(f"{urgent}{observed.health} x{observed.count}")

    @workflow.signal(name=ADMITTED_SIGNAL)
    def admitted(self, admitted: Admitted) -> None:
        """Note it."""
        self._told.append(f"admitted by {admitted.by}")

    @workflow.query
    def told(self) -> list[str]:
        """Say what was told so far."""
        return self._told


@dataclass
class House:
    """Sickbay's watcher in a lab, and what a test looks at."""

    lab: Lab
    gateway: Gateway
    temporal: Temporal
    records: Records = field(init=False)
    fences: Fences = field(init=False)
    control: ControlMap = field(init=False)

    def __post_init__(self) -> None:
        """Look as Sickbay's own account."""
        self.records = Records(self.gateway)
        self.fences = Fences(self.gateway)
        self.control = ControlMap(self.gateway)

    @asynccontextmanager
    async def watching(self, policy: Policy, **more: Any) -> AsyncIterator[Watcher]:
        """Run a watcher of this policy until the block ends."""
        watcher = Watcher(self.gateway, self.temporal, policy, CLUSTER, meter=Metrics(), **more)
        stop = asyncio.Event()
        running = asyncio.create_task(watcher.run(stop))
        try:
            yield watcher
        finally:
            stop.set()
            await running

    async def leading(self, *watchers: Watcher) -> Watcher:
        """Wait until one of some watchers acts."""

        async def look() -> Watcher | None:
            return next((w for w in watchers if w.acting and not w.missing), None)

        return await cluster.until(look)

    async def held_devices(self, namespace: str, add_nodes: AddNodes, count: int = 1, **shape: Any) -> list[DeviceKey]:
        """Make a node whose devices are all held by running pods that report them Healthy."""
        admin = self.lab.gateway
        await add_nodes(1, cluster.shape(namespace, devices=count, **shape))
        await cluster.create_template(admin, namespace, "gpu", f"{namespace}.example")
        found = []
        for n in range(count):
            await cluster.create_pod(admin, namespace, f"pod-{n}", template="gpu")
            found.append(await cluster.device_of(admin, await cluster.running(admin, namespace, f"pod-{n}")))
        return found

    async def record(self, device: DeviceKey, *, when: Callable[[Record], object] = lambda _: True) -> Record:
        """Wait for a device's record, in a certain state."""

        async def look() -> Record | None:
            try:
                found = await self.records.get(device.record_name)
            except errors.NotFound:
                return None
            return found if when(found) else None

        return await cluster.until(look)

    async def fence(self, device: DeviceKey, number: int = 1) -> Fence:
        """Wait for a fence of a device."""

        async def look() -> Fence | None:
            try:
                return await self.fences.get(device.numbered(number))
            except errors.NotFound:
                return None

        return await cluster.until(look)

    async def broken(self, device: DeviceKey) -> tuple[Fence, Record]:
        """Break a device, and wait until its incident runs; give its first fence and its record."""
        await self.lab.fleet.break_device(device.pool, device.device)
        fence, record = await self.fence(device), await self.record(device)
        await self.told(record.spec.incident)
        return fence, record

    async def none_of(self, device: DeviceKey) -> bool:
        """Say whether nothing is written of a device."""
        try:
            await self.records.get(device.record_name)
        except errors.NotFound:
            return not await self.fences.list(device)
        return False

    async def told(
        self, incident: str, *, when: Callable[[list[str]], object] = bool, within: float = 30.0
    ) -> list[str]:
        """Wait for an incident to run and to have been told something."""

        async def look() -> list[str] | None:
            told = await self._told(incident)
            return told if told is not None and when(told) else None

        return await cluster.until(look, within=within)

    async def _told(self, incident: str) -> list[str] | None:
        handle = (await self.temporal.client()).get_workflow_handle(incident)
        if (await self.temporal.describe(incident)).standing != "Running":
            return None
        answer: list[str] = await handle.query(StandIn.told)
        return answer

    async def says(self, record: Record, phase: Phase, **status: Any) -> Record:
        """Write what the incident's activities would: phase and counters."""
        known = record.status.model_copy(
            update={"incident": record.spec.incident, "run": record.spec.run, "phase": phase, **status}
        )
        return await self.records.write_status(record, known)

    async def release(
        self, device: DeviceKey, *seen: SeenSource, outcome: Phase = Phase.RELEASED, lease_version: str = ""
    ) -> Record:
        """End a device's incident as its workflow does: fence off and gone, then the record closed."""
        record = await self.records.get(device.record_name)
        await self.told(record.spec.incident)  # it has begun
        record = await self.says(
            record,
            Phase.RELEASING,
            counters=Counters(fence=max((f.number for f in await self.fences.list(device)), default=0)),
        )
        for fence in await self.fences.list(device):
            left = await self.fences.unlatch(fence.name, fence.uid, "release/1/unlatch")
            if left is not None:
                await self.fences.delete(left.name, left.uid, left.resource_version)
        closed = Closed(at=record.spec.first_bad_at, outcome=outcome, seen=seen, lease_version=lease_version)
        record = await self.says(record, outcome, closed=closed, fence=FenceRef())
        handle = (await self.temporal.client()).get_workflow_handle(record.spec.incident)
        await handle.terminate("ended by the test")
        return await self.records.unlatch(record, "close/1")


def directory_of(watcher: Watcher) -> Directory:
    """Look into a watcher's directory."""
    return watcher._copy.directory


def sample(watcher: Watcher, name: str, **labels: str) -> float:
    """Read one sample of a watcher's metrics, 0 if there is none."""
    families = text_string_to_metric_families(watcher._meter.exposed().decode())
    found = (s.value for family in families for s in family.samples if (s.name, s.labels) == (name, labels))
    return next(found, 0.0)


async def clean(house: House) -> None:
    """Remove all records, fences and running workflows."""
    for record in (await house.records.list()).records:
        freed = await house.records.unlatch(record, "clean")
        await house.records.delete(freed)
    for fence in await house.fences.list():
        left = await house.fences.unlatch(fence.name, fence.uid, "clean")
        if left is not None:
            await house.fences.delete(left.name, left.uid, left.resource_version)
    client = await house.temporal.client()
    async for found in client.list_workflows('ExecutionStatus = "Running"'):
        if found.status is WorkflowExecutionStatus.RUNNING:
            await client.get_workflow_handle(found.id, run_id=found.run_id).terminate("cleaned up")
