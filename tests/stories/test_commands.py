"""People in command of an incident, from the command line and from Temporal's UI, on a real cluster."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest

from k8s.gateway import MERGE_PATCH, Gateway
from k8s.impersonation import impersonating
from k8s.lab.audit import AuditLog
from k8s.resources import NODES
from sickbay import errors
from sickbay.cli.command import give
from sickbay.cli.quarantine import take_out
from sickbay.model.command import Command, CommandVerb
from sickbay.model.record import Phase, Record
from tests.crash.jobs import Seat
from tests.installation import OPERATORS
from tests.k8s import cluster
from tests.stories.scene import Scene

pytestmark = pytest.mark.lab


@dataclass(frozen=True)
class Ann:
    """Somebody at a command line."""

    scene: Scene
    gateway: Gateway

    async def says(self, verb: CommandVerb, target: str, **changes: Any) -> str:
        """Give a command, and have the answer or the error."""
        at = datetime.now(UTC)
        command = Command(id=uuid.uuid4().hex, verb=verb, actor="nobody", reason="firmware", at=at, **changes)
        try:
            return await give(self.gateway, self.scene.ward.temporal, command, target)
        except errors.SickbayError as error:
            return f"error: {error}"


@asynccontextmanager
async def ann(scene: Scene, group: str = OPERATORS) -> AsyncIterator[Ann]:
    """Be a member of a group."""
    async with impersonating(scene.ward.lab.gateway, "ann", group) as gateway:
        yield Ann(scene, gateway)


async def paused_by(scene: Scene, seat: Seat) -> str:
    """Wait until the record says that the incident is paused, and give by whom."""

    async def said() -> str | None:
        record = await scene.record(seat)
        paused = record and record.status.condition("Paused")
        return paused.message if paused and paused.status == "True" else None

    return await cluster.until(said, within=30)


async def handle_of(scene: Scene, record: Record) -> Any:
    """Give the incident's workflow, as the UI has it."""
    return (await scene.ward.temporal.client()).get_workflow_handle(record.spec.incident)


async def test_pause_resume_extend_and_approve_from_the_command_line(scene: Scene) -> None:
    """Nothing is tried while it is paused or kept, the record says by whom, and after the end the sender is told so."""
    seat = await scene.lone_pod("halted")
    async with ann(scene) as who:
        assert "no incident of such a device" in await who.says(CommandVerb.PAUSE, str(seat.key))
        await scene.breaks(seat)
        record = await scene.reaches(seat, Phase.NEEDS_OPERATOR)
        assert "WillNotMove: tries again now" in await who.says(CommandVerb.APPROVE, record.name)
        until = datetime.now(UTC) + timedelta(seconds=10)
        assert "out of service until" in await who.says(CommandVerb.EXTEND_QUARANTINE, record.name, until=until)
        sooner = until - timedelta(seconds=5)
        assert "only lengthens" in await who.says(CommandVerb.EXTEND_QUARANTINE, record.name, until=sooner)
        assert "the fence stays" in await who.says(CommandVerb.PAUSE, record.name)
        assert (await paused_by(scene, seat)).startswith("ann until somebody resumes: firmware")
        await scene.delete("halted")
        record = await scene.reaches(seat, Phase.QUARANTINED)
        assert "it is paused" in await who.says(CommandVerb.PROBE_NOW, seat.device)
        assert (await scene.reaches(seat, Phase.QUARANTINED)).status.counters.probe == 0
        assert "goes on" in await who.says(CommandVerb.RESUME, record.spec.incident)
        await scene.released(seat)
        ended = await scene.record(seat)
        assert ended is not None
        assert ended.status.closed is not None
        assert ended.status.closed.at > until
        assert "already closed" in await who.says(CommandVerb.PAUSE, str(seat.key))


async def test_a_pause_from_the_ui(scene: Scene) -> None:
    """A signal without any input pauses, and nobody knows who sent it; odd input changes nothing."""
    seat = await scene.lone_pod("clicked")
    await scene.breaks(seat)
    record = await scene.reaches(seat, Phase.NEEDS_OPERATOR)
    workflow = await handle_of(scene, record)
    for arguments in ([1, 2], ["tomorrow", {}], [["list"]]):
        await workflow.signal("extend_quarantine", args=arguments)
    await workflow.signal("force_release", "x" * 1_000_000)
    await workflow.signal("retire", {"actor": "ann", "reason": "I say so"})
    await workflow.signal("pause")
    assert (await paused_by(scene, seat)).startswith("unverified until somebody resumes")
    await scene.delete("clicked")
    async with ann(scene) as who:
        assert "goes on" in await who.says(CommandVerb.RESUME, seat.device)
    await scene.released(seat)
    report = await workflow.result()
    told = "\n".join(line["text"] for line in report["timeline"])
    assert all(text in told for text in ("given 2", "force_release refused", "retire by unverified (ann) refused"))


@pytest.mark.soak
async def test_a_terminated_incident_is_started_again(scene: Scene) -> None:
    """In its next run, told what it was told before; a command that was given to that run does not reach the next."""
    seat = await scene.lone_pod("ended")
    await scene.breaks(seat)
    record = await scene.reaches(seat, Phase.NEEDS_OPERATOR)
    workflow = await handle_of(scene, record)
    until, kept = (datetime.now(UTC).replace(microsecond=0) + timedelta(hours=n) for n in (2, 3))
    async with ann(scene) as who:
        await who.says(CommandVerb.EXTEND_QUARANTINE, record.name, until=kept)
        await who.says(CommandVerb.PAUSE, record.name, until=until)
    told = await paused_by(scene, seat)
    assert told == f"ann until {until:%Y-%m-%d %H:%M:%SZ}: firmware"
    await workflow.terminate("a curious operator")
    before = datetime.now(UTC) - timedelta(hours=1)

    async def again() -> bool:
        now = await scene.record(seat)
        return now is not None and now.status.run == record.spec.run + 1

    await cluster.until(again, within=120)
    old = Command(id="old", verb=CommandVerb.PAUSE, actor="ann", at=before)
    answer = await scene.ward.temporal.command(record.spec.incident, old)
    assert answer is not None
    assert "before this run" in answer.message
    assert await paused_by(scene, seat) == told
    async with ann(scene) as who:
        assert "goes on" in await who.says(CommandVerb.RESUME, record.name)
        await scene.delete("ended")
        record = await scene.reaches(seat, Phase.RECOVERING)
        assert (record.status.orders.kept_until, record.status.counters.probe) == (kept, 0)
        assert "stays fenced" in await who.says(CommandVerb.RETIRE, record.name)
    assert seat.key.numbered(record.status.counters.fence) in await scene.ward.fences()
    await scene.reaches(seat, Phase.RETIRED)


@pytest.mark.parametrize("task", [0, 2], ids=["before the fence", "in the migration"])
async def test_a_reset_of_an_open_incident_does_nothing_twice(scene: Scene, task: int) -> None:
    """It goes the same way again, finds what it did, and ends as it would have."""
    seat = await scene.lone_pod(f"reset-{task}")
    await scene.breaks(seat)
    record = await scene.reaches(seat, Phase.NEEDS_OPERATOR)
    fence = record.status.fence
    await reset(scene, record, task=task)
    await scene.delete(f"reset-{task}")
    await scene.released(seat)
    after = await scene.record(seat)
    assert after is not None
    assert after.spec.run == record.spec.run
    assert (after.status.counters.fence, fence.name) == (1, seat.key.numbered(1))


@pytest.mark.soak
async def test_a_reset_in_the_middle_of_an_eviction_evicts_nobody_else(scene: Scene) -> None:
    """The pod goes once, though the run that sent it away never heard so; the one that came for it is left alone."""
    seat, log = await scene.deployment("thrown"), AuditLog(scene.ward.lab.audit_log, from_end=True)
    answer = scene.run.proxy.hold("POST", f"pods/{seat.pod}/eviction", times=1)
    await scene.breaks(seat)
    await asyncio.wait_for(answer.arrived.wait(), 60)
    record = await scene.begins(seat)
    await reset(scene, record, task=-1)
    answer.release()
    await scene.released(seat)
    evicted = [e.object_ref.name for e in log.read() if e.wrote and e.resource == "pods/eviction"]
    assert evicted == [seat.pod]
    after = await scene.begins(seat)
    assert (after.spec.run, after.status.counters.fence) == (record.spec.run, 1)


async def reset(scene: Scene, record: Record, *, task: int) -> None:
    """Reset an incident to one of its tasks, as an operator does in the UI."""
    workflow = await handle_of(scene, record)
    completed = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    done = [event.event_id async for event in workflow.fetch_history_events() if event.event_type == completed]
    client = await scene.ward.temporal.client()
    await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace="default",
            workflow_execution=WorkflowExecution(workflow_id=record.spec.incident),
            reason="a curious operator",
            workflow_task_finish_event_id=done[task],
            request_id=record.uid,
        )
    )


async def test_hands_off_a_node(scene: Scene) -> None:
    """Nobody is moved off a marked node; the person who is asked reads why, and without the mark it goes on."""
    seat = await scene.deployment("untouched")
    node = NODES.path(name=seat.key.pool)
    gateway = scene.ward.lab.gateway

    async def mark(value: str | None) -> None:
        body = {"metadata": {"labels": {"sickbay.dev/managed": value}}}
        await gateway.request("PATCH", node, body=body, content_type=MERGE_PATCH)

    await mark("false")
    await scene.breaks(seat)
    record = await scene.reaches(seat, Phase.NEEDS_OPERATOR)
    asked = record.status.condition("NeedsOperator")
    assert asked is not None
    assert (asked.reason, "sickbay.dev/managed=false" in asked.message) == ("HandsOff", True)
    assert (await scene.seat("untouched")).uid == seat.uid
    await mark(None)
    await scene.released(seat)


async def test_a_device_is_retired(scene: Scene) -> None:
    """Its incident ends, its fence stays and is nobody's orphan, and nothing that is said of it opens another."""
    seat = await scene.lone_pod("worn")
    await scene.breaks(seat, for_good=True)
    await scene.reaches(seat, Phase.NEEDS_OPERATOR)
    async with ann(scene) as who:
        assert "stays fenced" in await who.says(CommandVerb.RETIRE, seat.device)
        await scene.delete("worn")
        record = await scene.reaches(seat, Phase.RETIRED)
        assert record.closed
        # Another incident's whole life: time in which the leader would have found an orphan.
        other = await scene.lone_pod("younger")
        await scene.breaks(other)
        await scene.delete("younger")
        await scene.released(other)
        after = await scene.record(seat)
        assert after is not None
        assert (after.spec.incident, after.status.phase) == (record.spec.incident, Phase.RETIRED)
        assert seat.key.numbered(1) in await scene.ward.fences()
        with pytest.raises(errors.UsageError, match="is retired"):
            await take_out(who.gateway, seat.device, None, "again")


@pytest.mark.soak
async def test_a_person_takes_a_device_out_of_service(scene: Scene) -> None:
    """It is fenced in their name and comes back by a probe; the record of then is taken over the next time."""
    seat = await scene.lone_pod("spare")
    async with ann(scene) as who:
        with pytest.raises(errors.SickbayError, match="no driver publishes"):
            await take_out(who.gateway, "gpu-of-nobody", None, "noise")
        told = await take_out(who.gateway, seat.device, seat.key.pool, "fan noise")
        assert seat.key.record_name in told
        with pytest.raises(errors.UsageError, match="has an open incident"):
            await take_out(who.gateway, seat.device, None, "once more")
        record = await scene.reaches(seat, Phase.QUARANTINED)
        assert (record.spec.actor, record.spec.reason, record.spec.message) == ("ann", "Person", "fan noise")
        await scene.delete("spare")
        await scene.released(seat)
        await take_out(who.gateway, seat.device, None, "again")
        await scene.released(seat)
    after = await scene.record(seat)
    assert after is not None
    assert [past.reason for past in after.status.history] == ["Person", "Person"]
    assert after.status.counters.fence == 2
