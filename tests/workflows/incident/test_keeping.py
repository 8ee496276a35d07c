"""What people told an incident, after somebody terminated it and the leader started it again from its record."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from temporalio.testing import WorkflowEnvironment

from sickbay.model import contracts as c
from sickbay.model.command import CommandVerb
from sickbay.model.incident import IncidentReport
from sickbay.model.record import (
    Admission,
    AdmissionState,
    Counters,
    Phase,
    Record,
    RecordDevice,
    RecordSpec,
    RecordStatus,
)
from sickbay.policy.opening import incident_state
from tests.builders import DEVICE, UUID
from tests.workflows.incident.test_commands import give, quick, stuck, well
from tests.workflows.incident.test_workflow import Handle, begin, working
from tests.workflows.incident.world import World
from workflows.incident.workflow import DeviceIncident


async def terminated(environment: WorkflowEnvironment, handle: Handle, world: World) -> Handle:
    """Terminate an incident, start its next run from what was last written, and wait until that one has written."""
    await handle.terminate("a curious operator")
    last = world.statuses[-1]
    spec = RecordSpec(
        cluster=DEVICE.cluster,
        device=RecordDevice(driver=DEVICE.driver, pool=DEVICE.pool, device=DEVICE.device),
        hardware_id=UUID,
        node="node-1",
        first_bad_at=await environment.get_current_time(),
        incident=last.target.incident,
        status_version=last.target.status_version,
        run=2,
        admission=Admission(state=AdmissionState.ADMITTED),
    )
    status = RecordStatus(
        incident=spec.incident,
        run=1,
        phase=last.phase,
        verified=last.verified,
        counters=Counters(fence=last.fence_number, probe=last.probe_number, release=last.release_number),
        orders=last.orders,
    )
    written = len(world.statuses)
    record = Record(name=DEVICE.record_name, uid="record-1", resource_version="9", spec=spec, status=status)
    state = incident_state(record, quick())
    again: Handle = await environment.client.start_workflow(
        DeviceIncident.run, state, id=handle.id, task_queue=c.Queue.INCIDENT.of("lab")
    )
    await world.until(lambda: len(world.statuses) > written)
    return again


async def test_a_pause_keeps_its_end_and_a_quarantine_its_length(dev_server: WorkflowEnvironment) -> None:
    """Over two of them: the pause ends when it was told to, the device rests until it was told to."""
    world = stuck()
    async with working(dev_server, world):
        handle = await begin(dev_server, policy=quick())
        await world.until(lambda: world.fences == {1})
        began = await dev_server.get_current_time()
        await give(handle, CommandVerb.EXTEND_QUARANTINE, until=began + timedelta(seconds=8))
        await give(handle, CommandVerb.PAUSE, until=began + timedelta(seconds=5))
        await world.until(lambda: world.statuses[-1].orders.pause is not None)
        for _ in range(2):
            handle = await terminated(dev_server, handle, world)
        well(world)
        report: IncidentReport = await asyncio.wait_for(handle.result(), 60)
    assert report.outcome is Phase.RELEASED
    (ended,) = [line.at for line in report.timeline if "the pause of ann has ended" in line.text]
    assert ended - began >= timedelta(seconds=5)
    assert report.ended_at is not None
    assert report.ended_at - began >= timedelta(seconds=8)


async def test_a_retirement_is_not_forgotten(dev_server: WorkflowEnvironment) -> None:
    """Nothing is tried and the fence stays, though the run that was told so is gone."""
    world = stuck()
    async with working(dev_server, world):
        handle = await begin(dev_server, policy=quick())
        await world.until(lambda: world.fences == {1})
        await give(handle, CommandVerb.RETIRE)
        await world.until(lambda: world.statuses[-1].orders.retiring != "")
        handle = await terminated(dev_server, handle, world)
        well(world)
        report: IncidentReport = await asyncio.wait_for(handle.result(), 60)
    assert (report.outcome, world.fences, world.sent) == (Phase.RETIRED, {1}, [])
    assert world.statuses[-1].orders.retiring == "ann: firmware"


async def test_an_order_is_in_the_record_before_the_device_is_read(dev_server: WorkflowEnvironment) -> None:
    """Whoever gave it was told that it holds, and whoever terminates the run the next moment takes nothing back."""
    world, found = stuck(), []
    async with working(dev_server, world):
        handle = await begin(dev_server, policy=quick())
        await world.until(lambda: world.done[c.Activity.AWAIT_USERS] > 0)
        world.on[c.Activity.READ_DEVICE] = lambda: found.append(world.statuses[-1].orders.kept_until)
        await give(
            handle, CommandVerb.EXTEND_QUARANTINE, until=await dev_server.get_current_time() + timedelta(hours=1)
        )
        await world.until(lambda: bool(found))
        await handle.terminate()
    assert found[0] is not None
