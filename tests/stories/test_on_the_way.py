"""What can happen to an incident on its way, each on a real cluster with ``sickbay run`` as a process of its own."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest

from k8s.fences import Fences
from k8s.impersonation import impersonating
from k8s.lab.audit import AuditLog
from k8s.resources import DEVICETAINTRULES, PODDISRUPTIONBUDGETS
from sickbay.model.record import Phase
from tests.crash.jobs import NAMESPACE
from tests.installation import BREAK_GLASS
from tests.k8s import cluster
from tests.stories.scene import Scene

pytestmark = pytest.mark.lab

TASK_COMPLETED: Final = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED


async def test_a_bare_pod_is_left_alone(scene: Scene) -> None:
    """A pod that nobody would rebuild is not touched; a person is asked, and when it is gone all goes on by itself."""
    seat = await scene.lone_pod("naked")
    await scene.breaks(seat)
    record = await scene.reaches(seat, Phase.NEEDS_OPERATOR)
    asked = record.status.condition("NeedsOperator")
    assert asked is not None
    assert "jobs/naked" in asked.message
    await scene.delete("naked")
    await scene.released(seat)


async def test_a_crash_looping_pod_leaves(scene: Scene) -> None:
    """A Deployment's pod that crashes again and again on its bad device has nothing to lose, and is moved."""
    told = {"run-for": "0.2s", "exit-code": "1"}
    seat = await scene.deployment("loops", told=told)
    await scene.breaks(seat)
    await scene.released(seat)
    moved = await scene.seat("loops")
    assert moved.uid != seat.uid
    assert moved.key != seat.key


async def test_a_job_that_died_of_its_device(scene: Scene) -> None:
    """A pod that dies with its device takes its report with it; the fence stays and the device is probed."""
    seat = await scene.lone_pod("mortal", told={"dies-with-device": "true"}, restart="Never")
    await scene.breaks(seat, for_good=True)
    await scene.reaches(seat, Phase.PROBING)
    assert any(name.startswith(seat.key.record_name) for name in await scene.ward.fences())
    await scene.ward.heal([seat])
    await scene.released(seat)


async def test_a_disruption_budget_is_waited_for(scene: Scene) -> None:
    """A budget that allows nothing is named and waited for; nobody is evicted until it lets go."""
    seat = await scene.deployment("budgeted")
    budget = {
        "metadata": {"name": "keep"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "budgeted"}}},
    }
    await cluster.create(scene.ward.lab.gateway, PODDISRUPTIONBUDGETS, NAMESPACE, budget)
    await scene.breaks(seat)
    record = await scene.reaches(seat, Phase.EVACUATING)

    async def blocked() -> bool:
        return "budget keep" in await scene.headline(record)

    await cluster.until(blocked, within=60)
    assert (await scene.seat("budgeted")).uid == seat.uid
    await cluster.delete(scene.ward.lab.gateway, PODDISRUPTIONBUDGETS, NAMESPACE, "keep")
    await scene.released(seat)


async def test_a_fence_deleted_by_hand_while_a_person_is_asked(scene: Scene) -> None:
    """It holds while it terminates, and the next one stands before it is gone, though nothing else is being done."""
    seat = await scene.lone_pod("robbed")
    await scene.breaks(seat)
    record = await scene.reaches(seat, Phase.NEEDS_OPERATOR)
    async with impersonating(scene.ward.lab.gateway, "eve", BREAK_GLASS) as eve:
        await eve.request("DELETE", DEVICETAINTRULES.path(name=record.status.fence.name))

    async def next_one() -> bool:
        numbers = sorted(f.number for f in await Fences(scene.ward.lab.gateway).list(seat.key))
        assert numbers, "there was a gap"
        return numbers[-1] == record.status.counters.fence + 1

    await cluster.until(next_one, within=30)
    await scene.delete(seat.pod)
    await scene.released(seat)


async def test_bad_news_while_the_fence_is_deleted(scene: Scene) -> None:
    """A new user that finds the device bad again, while the release waits for its answer, calls the release off."""
    seat = await scene.lone_pod("relapse")
    await scene.breaks(seat)
    hold = scene.run.proxy.hold("DELETE", f"devicetaintrules/{seat.key.numbered(1)}", times=1)
    await scene.delete("relapse")
    await asyncio.wait_for(hold.arrived.wait(), 60)
    await scene.wants_device_of("relapsed", seat)
    await scene.breaks(await scene.seat("relapsed"))
    hold.release()

    async def fenced_again() -> bool:
        return seat.key.numbered(2) in await scene.ward.fences()

    await cluster.until(fenced_again, within=30)
    await scene.delete("relapsed")
    await scene.released(seat)


@pytest.mark.soak
async def test_bad_news_that_dies_while_the_fence_is_deleted(scene: Scene) -> None:
    """A pod that reports the device bad during its release, and is gone before anybody could ask it, is not lost."""
    seat = await scene.lone_pod("gasp")
    await scene.breaks(seat)
    hold = scene.run.proxy.hold("DELETE", f"devicetaintrules/{seat.key.numbered(1)}", times=1)
    await scene.delete("gasp")
    await asyncio.wait_for(hold.arrived.wait(), 60)
    first = await scene.record(seat)
    assert first is not None
    await scene.wants_device_of("gasped", seat, told={"dies-with-device": "true"})
    await scene.breaks(await scene.seat("gasped"))
    await scene.delete("gasped")
    hold.release()

    async def fenced_again() -> bool:
        return seat.key.numbered(2) in await scene.ward.fences()

    await cluster.until(fenced_again, within=30)
    await scene.released(seat)


async def test_a_claim_waits_for_its_device(scene: Scene) -> None:
    """The scheduler says why a claim on a fenced device has to wait, and serves it by itself after the release."""
    seat = await scene.lone_pod("first")
    await scene.breaks(seat)
    await scene.reaches(seat, Phase.NEEDS_OPERATOR)
    await scene.wants_device_of("second", seat)
    assert "cannot allocate all claims" in await scene.unschedulable("second")
    await scene.delete("first")
    assert (await scene.seat("second")).key == seat.key
    await scene.released(seat)


async def test_a_reset_after_the_end_does_nothing(scene: Scene) -> None:
    """A closed incident finds its record closed, wherever it is reset to and whatever it was told, and leaves no trace.

    Temporal gives the new run the signals of the old one once more.
    """
    seat = await scene.deployment("over")
    await scene.breaks(seat)
    record = await scene.begins(seat)
    client = await scene.ward.temporal.client()
    handle = client.get_workflow_handle(record.spec.incident)
    await handle.signal("pause", {"until": (datetime.now(UTC) + timedelta(seconds=2)).isoformat()})
    await scene.released(seat)
    await handle.result()
    first = (await handle.describe()).run_id
    tasks = [e.event_id async for e in handle.fetch_history_events() if e.event_type == TASK_COMPLETED]
    record, log = await scene.begins(seat), AuditLog(scene.ward.lab.audit_log, from_end=True)
    # Before the fence, in the migration; and right before the closing write, which finds that it has been made.
    for task, outcome in ((tasks[0], "Superseded"), (tasks[len(tasks) // 2], "Superseded"), (tasks[-2], "Released")):
        answer = await client.workflow_service.reset_workflow_execution(
            ResetWorkflowExecutionRequest(
                namespace="default",
                workflow_execution=WorkflowExecution(workflow_id=record.spec.incident, run_id=first),
                reason="a curious operator",
                workflow_task_finish_event_id=task,
                request_id=f"reset-{task}",
            )
        )
        again = client.get_workflow_handle(record.spec.incident, run_id=answer.run_id)
        report: Any = await asyncio.wait_for(again.result(), 60)
        assert report["outcome"] == outcome
    assert (await scene.begins(seat)).resource_version == record.resource_version
    ours = [e for e in log.read() if e.wrote and e.user.username.endswith(":sickbay:sickbay")]
    assert {e.resource for e in ours} <= {"leases", "configmaps", "selfsubjectaccessreviews"}


@pytest.mark.soak
async def test_a_restart_reopens_nothing(scene: Scene) -> None:
    """What an ended incident has seen opens nothing again, after a restart of Sickbay either."""
    seat = await scene.lone_pod("seen", told={"dies-with-device": "true"}, restart="Never")
    await scene.breaks(seat)
    await scene.reaches(seat, Phase.RECOVERING)
    await scene.delete("seen")
    await scene.released(seat)
    before = await scene.record(seat)
    await scene.run.stop()
    another = await scene.ward.sickbay()
    await another.ready()
    scene = replace(scene, run=another)
    ahead = await scene.lone_pod("ahead")
    await scene.breaks(ahead)
    await scene.reaches(ahead, Phase.NEEDS_OPERATOR)
    after = await scene.record(seat)
    assert before is not None
    assert after is not None
    assert after.spec == before.spec
    await scene.delete("ahead")
    await scene.released(ahead)
