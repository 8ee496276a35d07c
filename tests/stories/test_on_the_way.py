"""What can happen to an incident on its way, each on a real cluster with ``sickbay run`` as a process of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest

from k8s.fences import Fences
from k8s.impersonation import impersonating
from k8s.lab.nodes.fleet import NodeShape
from k8s.resources import DEPLOYMENTS, DEVICETAINTRULES, PODDISRUPTIONBUDGETS, PODS, RESOURCECLAIMTEMPLATES
from sickbay.model.record import Phase, Record
from tests.crash.harness import NAMESPACE, Seat, Sickbay, Ward
from tests.installation import BREAK_GLASS
from tests.k8s import cluster

pytestmark = pytest.mark.lab


async def recorded(ward: Ward, seat: Seat, phase: Phase, *, within: float = 60) -> Record:
    """Wait until the device's incident is in a phase."""

    async def look() -> Record | None:
        record = await ward.record(seat)
        return record if record is not None and record.status.phase is phase else None

    try:
        return await cluster.until(look, within=within)
    except TimeoutError:
        record = await ward.record(seat)
        stands = record and (record.status.phase, await ward.temporal.headline(record.spec.incident))
        raise AssertionError(f"{seat.device} is not {phase} but {stands}") from None


async def own_devices(ward: Ward, name: str) -> None:
    """Add a node whose devices no other story uses, and a template that claims one of them."""
    driver = f"{name}.example"
    await ward.lab.fleet.add(1, NodeShape(devices=3, driver=driver, prefix=name))
    await cluster.create_template(ward.lab.gateway, NAMESPACE, name, driver)


async def lone_seat(ward: Ward, name: str, *, told: Mapping[str, str] | None = None, restart: str = "Always") -> Seat:
    """Start a pod without an owner and see which device it got."""
    gateway = ward.lab.gateway
    await own_devices(ward, name)
    await cluster.create_pod(gateway, NAMESPACE, name, behaviour=told, template=name, restart=restart)
    return await only_seat(ward, name)


async def deployed_seat(ward: Ward, name: str, *, told: Mapping[str, str] | None = None) -> Seat:
    """Start a Deployment of one pod and see which device it got."""
    gateway = ward.lab.gateway
    await own_devices(ward, name)
    body = cluster.workload("Deployment", name, behaviour=told, template=name)
    await cluster.create(gateway, DEPLOYMENTS, NAMESPACE, body)
    return await only_seat(ward, name)


async def same_seat(ward: Ward, name: str, seat: Seat) -> Seat:
    """Start a pod that wants exactly the device of another."""
    node = next(n for n in ward.lab.fleet.describe() if n.name == seat.key.pool)
    uuid = next(d.uuid for d in node.devices if d.name == seat.key.device)
    driver = seat.key.driver
    wish = f'device.attributes["{driver}"].uuid == "{uuid}"'
    spec = cluster.claim_spec(driver, selectors=[{"cel": {"expression": wish}}])
    template = {"metadata": {"name": name}, "spec": {"spec": spec}}
    await cluster.create(ward.lab.gateway, RESOURCECLAIMTEMPLATES, NAMESPACE, template)
    await cluster.create_pod(ward.lab.gateway, NAMESPACE, name, template=name)
    return await only_seat(ward, name)


async def only_seat(ward: Ward, name: str) -> Seat:
    """Wait for the one running pod of a job."""

    async def look() -> Seat | None:
        return next(iter(await ward.seats(name)), None)

    return await cluster.until(look, within=60)


async def test_a_bare_pod_is_left_alone(ward: Ward, run: Sickbay) -> None:
    """A pod that nobody would rebuild is not touched; a person is asked, and when it is gone all goes on by itself."""
    seat = await lone_seat(ward, "naked")
    await ward.break_devices([seat])
    record = await recorded(ward, seat, Phase.NEEDS_OPERATOR)
    asked = record.status.condition("NeedsOperator")
    assert asked is not None
    assert "jobs/naked" in asked.message
    await cluster.delete(ward.lab.gateway, PODS, NAMESPACE, "naked")
    await ward.released([seat], within=60)


async def test_a_crash_looping_pod_leaves(ward: Ward, run: Sickbay) -> None:
    """A Deployment's pod that crashes again and again on its bad device has nothing to lose, and is moved."""
    told = {"run-for": "0.2s", "exit-code": "1"}
    seat = await deployed_seat(ward, "loops", told=told)
    await ward.break_devices([seat])
    await ward.released([seat], within=90)
    moved = await only_seat(ward, "loops")
    assert moved.uid != seat.uid
    assert moved.key != seat.key


async def test_a_job_that_died_of_its_device(ward: Ward, run: Sickbay) -> None:
    """A pod that dies with its device takes its report with it; the fence stays and the device is probed."""
    seat = await lone_seat(ward, "mortal", told={"dies-with-device": "true"}, restart="Never")
    await ward.break_devices([seat], probe_fails=True)
    await recorded(ward, seat, Phase.PROBING)
    assert any(name.startswith(seat.key.record_name) for name in await ward.fences())
    await ward.heal([seat])
    await ward.released([seat], within=60)


async def test_a_disruption_budget_is_waited_for(ward: Ward, run: Sickbay) -> None:
    """A budget that allows nothing is named and waited for; nobody is evicted until it lets go."""
    seat = await deployed_seat(ward, "budgeted")
    budget = {
        "metadata": {"name": "keep"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "budgeted"}}},
    }
    await cluster.create(ward.lab.gateway, PODDISRUPTIONBUDGETS, NAMESPACE, budget)
    await ward.break_devices([seat])
    record = await recorded(ward, seat, Phase.EVACUATING)

    async def blocked() -> bool:
        return "budget keep" in await ward.temporal.headline(record.spec.incident)

    await cluster.until(blocked, within=60)
    assert (await only_seat(ward, "budgeted")).uid == seat.uid
    await cluster.delete(ward.lab.gateway, PODDISRUPTIONBUDGETS, NAMESPACE, "keep")
    await ward.released([seat], within=90)


@pytest.mark.parametrize("phase", [Phase.NEEDS_OPERATOR, Phase.RECOVERING])
async def test_a_fence_deleted_by_hand_comes_back(ward: Ward, run: Sickbay, phase: Phase) -> None:
    """A fence that somebody deletes holds while it terminates, and the next one stands before it is gone."""
    seat = await lone_seat(ward, f"robbed-{phase.lower()}")
    await ward.break_devices([seat], probe_fails=phase is Phase.RECOVERING)
    if phase is Phase.RECOVERING:
        await cluster.delete(ward.lab.gateway, PODS, NAMESPACE, seat.pod)
    record = await recorded(ward, seat, phase)
    async with impersonating(ward.lab.gateway, "eve", BREAK_GLASS) as eve:
        await eve.request("DELETE", DEVICETAINTRULES.path(name=record.status.fence.name))

    async def next_one() -> bool:
        numbers = sorted(f.number for f in await Fences(ward.lab.gateway).list(seat.key))
        assert numbers, "there was a gap"
        return numbers[-1] == record.status.counters.fence + 1

    await cluster.until(next_one, within=30)
    if phase is Phase.RECOVERING:
        await ward.heal([seat])
    else:
        await cluster.delete(ward.lab.gateway, PODS, NAMESPACE, seat.pod)
    await ward.released([seat], within=90)


async def test_bad_news_while_the_fence_is_deleted(ward: Ward, run: Sickbay) -> None:
    """A new user that finds the device bad again, while the release waits for its answer, calls the release off."""
    seat = await lone_seat(ward, "relapse")
    await ward.break_devices([seat])
    hold = ward.proxy.hold("DELETE", f"devicetaintrules/{seat.key.numbered(1)}", times=1)
    await cluster.delete(ward.lab.gateway, PODS, NAMESPACE, "relapse")
    await asyncio.wait_for(hold.arrived.wait(), 60)
    again = await same_seat(ward, "relapsed", seat)
    await ward.break_devices([again])
    hold.release()

    async def fenced_again() -> bool:
        return seat.key.numbered(2) in await ward.fences()

    await cluster.until(fenced_again, within=30)
    await cluster.delete(ward.lab.gateway, PODS, NAMESPACE, "relapsed")
    await ward.released([seat], within=90)


async def test_a_reset_after_the_end_does_nothing(ward: Ward, run: Sickbay) -> None:
    """A closed incident that somebody resets finds its record closed and ends without a trace."""
    seat = await lone_seat(ward, "over")
    await ward.break_devices([seat])
    await cluster.delete(ward.lab.gateway, PODS, NAMESPACE, "over")
    await ward.released([seat], within=60)
    record = await ward.record(seat)
    assert record is not None
    client = await ward.temporal.client()
    handle = client.get_workflow_handle(record.spec.incident)
    await handle.result()
    before = await handle.describe()
    answer = await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace="default",
            workflow_execution=WorkflowExecution(workflow_id=before.id, run_id=before.run_id),
            reason="a curious operator",
            workflow_task_finish_event_id=4,
            request_id="reset-1",
        )
    )
    report = await client.get_workflow_handle(before.id, run_id=answer.run_id).result()
    assert report["outcome"] == Phase.SUPERSEDED
    after = await ward.record(seat)
    assert after is not None
    assert after.resource_version == record.resource_version


async def test_a_restart_reopens_nothing(ward: Ward, run: Sickbay) -> None:
    """What an ended incident has seen opens nothing again, after a restart of Sickbay either."""
    seat = await lone_seat(ward, "seen", told={"dies-with-device": "true"}, restart="Never")
    await ward.break_devices([seat])
    await ward.released([seat], within=60)
    before = await ward.record(seat)
    async with ward.sickbay() as another:
        await another.ready()
        ahead = await lone_seat(ward, "ahead")
        await ward.break_devices([ahead])
        await recorded(ward, ahead, Phase.NEEDS_OPERATOR)
    after = await ward.record(seat)
    assert before is not None
    assert after is not None
    assert after.spec == before.spec
    await cluster.delete(ward.lab.gateway, PODS, NAMESPACE, "ahead")
    await ward.released([ahead], within=60)
