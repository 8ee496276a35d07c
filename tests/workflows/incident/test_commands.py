"""What people tell an incident, by the update and by signals, on the server that skips time and on the dev server."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment

from sickbay.model import contracts as c
from sickbay.model.command import (
    COMMAND_UPDATE,
    Answer,
    Command,
    CommandVerb,
    Halt,
    Hindrance,
    Outcome,
)
from sickbay.model.incident import IncidentReport, Trial
from sickbay.model.record import Phase
from tests.builders import policy, user
from tests.workflows.incident.test_workflow import Handle, begin, working
from tests.workflows.incident.world import World

DAY = 86_400


def command(verb: CommandVerb, **changes: Any) -> Command:
    """Build a command of ann's."""
    return Command(**{"id": f"c-{verb}", "verb": verb, "actor": "ann", "reason": "firmware", **changes})


async def give(handle: Handle, verb: CommandVerb, **changes: Any) -> Answer:
    """Give one and have its answer."""
    answer: Answer = await handle.execute_update(COMMAND_UPDATE, command(verb, **changes), result_type=Answer)
    return answer


def held(world: World) -> bool:
    """Whether the incident waits for a user that it may not move."""
    return world.done[c.Activity.AWAIT_USERS] > 0


def lines(report: IncidentReport, text: str) -> list[str]:
    """Find lines of the story."""
    return [line.text for line in report.timeline if text in line.text]


def stuck() -> World:
    """Build a world in which a person is asked to move a pod: the incident stays where it is."""
    world = World()
    world.users = (user(may_move=False),)
    return world


def well(world: World) -> None:
    """Let the user end, and the device be as good as new."""
    world.users = ()
    world.says(None)


async def test_a_paused_week_costs_few_events(time_skipping: WorkflowEnvironment) -> None:
    """Nobody is moved, nothing is probed, the fence stays; every day is called to mind, and then it goes on."""
    world = stuck()
    async with working(time_skipping, world):
        handle = await begin(time_skipping)
        await world.until(lambda: held(world))
        assert (await give(handle, CommandVerb.PAUSE)).outcome is Outcome.APPLIED
        before = len((await handle.fetch_history()).events)
        world.users = (user(),)
        await time_skipping.sleep(7 * DAY)
        after = len((await handle.fetch_history()).events)
        assert after - before < 7 * 100
        assert (world.done[c.Activity.EVICT_USER], world.fences) == (0, {1})
        pause = world.statuses[-1].orders.pause
        assert pause is not None
        assert pause.by == "ann"
        assert world.statuses[-1].ask is not None
        well(world)
        assert (await give(handle, CommandVerb.RESUME)).outcome is Outcome.APPLIED
        report = await handle.result()
    assert report.outcome is Phase.RELEASED
    assert world.statuses[-1].orders.pause is None
    assert len(lines(report, "still paused")) >= 6


async def test_a_pause_ends_by_itself(time_skipping: WorkflowEnvironment) -> None:
    """At its time, with a probe that was stopped for it sent again."""
    world = World()
    world.health = None
    async with working(time_skipping, world):
        handle = await begin(time_skipping)
        until = await time_skipping.get_current_time() + timedelta(hours=3)
        await give(handle, CommandVerb.PAUSE, until=until)
        report = await handle.result()
    assert report.outcome is Phase.RELEASED
    assert report.ended_at is not None
    assert report.ended_at > until


async def test_a_pause_in_the_middle_of_a_release_releases_nothing(time_skipping: WorkflowEnvironment) -> None:
    """It is called back before the fence is deleted, and the device is probed anew afterwards."""
    world = World()
    world.health = None
    handle: list[Handle] = []

    async def pause() -> None:
        until = await time_skipping.get_current_time() + timedelta(days=1)
        assert (await give(handle[0], CommandVerb.PAUSE, until=until)).outcome is Outcome.APPLIED

    world.before_unlatched = pause
    async with working(time_skipping, world):
        handle.append(await begin(time_skipping))
        report = await handle[0].result()
    assert (report.outcome, world.sent) == (Phase.RELEASED, [Trial.PROBE, Trial.CANARY] * 2)
    assert (world.done[c.Activity.UNLATCH_FENCE], world.done[c.Activity.DELETE_FENCE]) == (2, 1)
    assert world.done[c.Activity.FENCE_DEVICE] == 2


async def test_an_extended_quarantine_ends_when_it_was_told(time_skipping: WorkflowEnvironment) -> None:
    """Not before, and not later than the policy allows."""
    world = World()
    world.health = None
    async with working(time_skipping, world):
        handle = await begin(time_skipping, policy=policy(quarantine={"longest": "10h"}))
        began = await time_skipping.get_current_time()
        await world.until(lambda: world.fences == {1})
        answer = await give(handle, CommandVerb.EXTEND_QUARANTINE, until=began + timedelta(days=400))
        assert "quarantine.longest" in answer.message
        report = await handle.result()
    assert report.ended_at is not None
    assert timedelta(hours=10) < report.ended_at - began < timedelta(hours=12)


async def test_a_retired_device_keeps_its_fence(time_skipping: WorkflowEnvironment) -> None:
    """The incident ends, and nothing was lifted."""
    world = World()
    world.health = None
    async with working(time_skipping, world):
        handle = await begin(time_skipping)
        await world.until(lambda: world.fences == {1})
        await give(handle, CommandVerb.RETIRE)
        report = await handle.result()
    assert (report.outcome, world.fences) == (Phase.RETIRED, {1})
    assert world.closed is not None
    assert world.closed.outcome is Phase.RETIRED
    assert world.done[c.Activity.UNLATCH_FENCE] == 0


async def test_a_word_from_outside_holds_back_what_cannot_be_undone(time_skipping: WorkflowEnvironment) -> None:
    """A week of it costs next to no history; a person is asked where a node is marked; then it goes on."""
    world = World()
    world.users = (user(),)
    world.halt = Halt(reason=Hindrance.HANDS_OFF, message="node node-1 is marked")
    async with working(time_skipping, world):
        handle = await begin(time_skipping, policy=policy(confirm="0s"))
        await world.until(lambda: world.done[c.Activity.AWAIT_GO] > 0)
        before = len((await handle.fetch_history()).events)
        await time_skipping.sleep(7 * DAY)
        assert len((await handle.fetch_history()).events) - before < 7 * 100
        assert (world.done[c.Activity.EVICT_USER], len(world.users), world.fences) == (1, 1, {1})
        asked = world.statuses[-1].ask
        assert asked is not None
        assert (asked.reason, "marked" in asked.remedy) == ("HandsOff", True)
        world.halt = None
        world.on[c.Activity.EVICT_USER] = lambda: world.says(None)
        report = await handle.result()
    assert report.outcome is Phase.RELEASED
    assert lines(report, "held back")


# --- the table: each command twice, out of order, to a closed incident, by signal, with a bad payload -----------------


@pytest.mark.parametrize("verb", CommandVerb)
async def test_each_command_twice_and_to_a_closed_incident(dev_server: WorkflowEnvironment, verb: CommandVerb) -> None:
    """The second answer is the first one's or says so; the third goes to nobody, and its sender is told."""
    world = stuck()
    async with working(dev_server, world):
        handle = await begin(dev_server, policy=quick())
        await world.until(lambda: any(s.ask for s in world.statuses))
        if verb is CommandVerb.RESUME:
            await give(handle, CommandVerb.PAUSE)
        until = await soon(dev_server) if verb is CommandVerb.EXTEND_QUARANTINE else None
        first = await give(handle, verb, until=until)
        second = await give(handle, verb, until=until)
        expected = Outcome.REFUSED if verb is CommandVerb.PROBE_NOW else Outcome.APPLIED
        again = Outcome.REFUSED if verb is CommandVerb.PROBE_NOW else Outcome.ALREADY_APPLIED
        assert (first.outcome, second.outcome) == (expected, again)
        await handle.terminate()
        with pytest.raises(RPCError, match="already completed"):
            await give(handle, verb, id="late")


@pytest.mark.parametrize("verb", CommandVerb)
async def test_each_command_as_a_signal(dev_server: WorkflowEnvironment, verb: CommandVerb) -> None:
    """As the UI sends them: only two do anything; odd ones are refused, and the incident goes on to its end."""
    world = stuck()
    until = (await soon(dev_server, seconds=2)).isoformat()
    async with working(dev_server, world):
        handle = await begin(dev_server, policy=quick())
        await world.until(lambda: held(world))
        await handle.signal(verb)
        await handle.signal(verb, "because")
        await handle.signal(verb, {"until": until, "actor": "ann", "id": "x"})
        await handle.signal(verb, {"until": until, "id": "x"})
        await handle.signal(verb, args=[1, 2])
        await handle.signal(verb, 7)
        await handle.signal(verb, {"until": "tomorrow"})
        await handle.signal(verb, {"reason": "x" * 1_000_000})
        await handle.signal("force_release", {"id": "s4"})
        await give(handle, CommandVerb.PAUSE, id="p")
        await give(handle, CommandVerb.RESUME, id="r")
        well(world)
        report = await asyncio.wait_for(handle.result(), 60)
    assert report.outcome is Phase.RELEASED
    told = [line.text for line in report.timeline]
    assert any("given 2" in text for text in told)
    assert any("force_release refused" in text for text in told)
    assert any("at most 1000 characters" in text for text in told)
    works = verb in {CommandVerb.PAUSE, CommandVerb.EXTEND_QUARANTINE}
    assert any("by unverified (ann)" in text and "refused" not in text for text in told) is works


async def test_a_resume_before_its_pause_is_refused(dev_server: WorkflowEnvironment) -> None:
    """Out of order the pause stays, and both senders know."""
    world = stuck()
    async with working(dev_server, world):
        handle = await begin(dev_server)
        resumed = await give(handle, CommandVerb.RESUME)
        paused = await give(handle, CommandVerb.PAUSE)
        assert (resumed.outcome, paused.outcome) == (Outcome.REFUSED, Outcome.APPLIED)
        await handle.terminate()


@pytest.mark.parametrize(
    "payload",
    [{}, "pause", {"id": "1", "verb": "release", "actor": "ann"}, {"id": "", "verb": "pause", "actor": "ann"}],
    ids=["nothing", "text", "unknown verb", "no id"],
)
async def test_a_bad_command_is_turned_away(dev_server: WorkflowEnvironment, payload: object) -> None:
    """Its sender is told, the incident is not stopped by it, and takes the next one."""
    world = stuck()
    async with working(dev_server, world):
        handle = await begin(dev_server)
        with pytest.raises(WorkflowUpdateFailedError):
            await handle.execute_update(COMMAND_UPDATE, payload)
        with pytest.raises(WorkflowUpdateFailedError):
            await give(handle, CommandVerb.PAUSE, actor="unverified")
        assert (await give(handle, CommandVerb.PAUSE)).outcome is Outcome.APPLIED
        await handle.terminate()


async def test_no_signal_of_a_burst_is_lost_over_continue_as_new(dev_server: WorkflowEnvironment) -> None:
    """Five hundred arrive while the workflow continues as new, each is written down, and a command is remembered."""
    world = stuck()
    async with working(dev_server, world):
        handle = await begin(dev_server, max_events=30)
        await world.until(lambda: held(world))
        kept = await give(handle, CommandVerb.EXTEND_QUARANTINE, until=await soon(dev_server, seconds=30))
        free = dev_server.client.get_workflow_handle(handle.id)
        for _ in range(10):
            await asyncio.gather(*(free.signal("force_release", {"id": f"s{n}"}) for n in range(50)))
        again = await free.execute_update(
            COMMAND_UPDATE, command(CommandVerb.EXTEND_QUARANTINE), result_type=Answer, id="another"
        )
        last = await free.describe()
        details = str(await free.query("__temporal_workflow_metadata"))
        await free.terminate()
    assert kept.outcome is Outcome.APPLIED
    assert again.outcome is Outcome.ALREADY_APPLIED
    assert last.run_id != handle.first_execution_run_id
    assert "times 500" in details


async def test_a_pause_outlives_a_reset(dev_server: WorkflowEnvironment) -> None:
    """Temporal tells the new run what the old one was told, once; a resume ends it as ever."""
    world = stuck()
    async with working(dev_server, world):
        handle = await begin(dev_server, policy=quick())
        await world.until(lambda: held(world))
        assert (await give(handle, CommandVerb.PAUSE)).outcome is Outcome.APPLIED
        free: Any = dev_server.client.get_workflow_handle(handle.id, run_id=await reset(dev_server, handle))
        again = await free.execute_update(COMMAND_UPDATE, command(CommandVerb.PAUSE), result_type=Answer, id="another")
        assert again.outcome is Outcome.ALREADY_APPLIED
        resumed = await free.execute_update(COMMAND_UPDATE, command(CommandVerb.RESUME), result_type=Answer)
        assert resumed.outcome is Outcome.APPLIED
        well(world)
        report = IncidentReport.model_validate(await asyncio.wait_for(free.result(), 60))
    assert (report.outcome, report.fences, world.fences) == (Phase.RELEASED, 1, set())


async def test_cancel_of_a_paused_incident_keeps_the_pause(dev_server: WorkflowEnvironment) -> None:
    """A click in the UI neither ends it nor lets it go on."""
    world = stuck()
    async with working(dev_server, world):
        handle = await begin(dev_server, policy=quick())
        await world.until(lambda: held(world))
        await give(handle, CommandVerb.PAUSE)
        await handle.cancel()
        well(world)
        assert (await give(handle, CommandVerb.RESUME)).outcome is Outcome.APPLIED
        report = await asyncio.wait_for(handle.result(), 60)
    assert report.outcome is Phase.RELEASED
    assert lines(report, "cancelled by hand")


async def soon(environment: WorkflowEnvironment, *, seconds: float = 3600) -> datetime:
    """Give a time that is to come."""
    return await environment.get_current_time() + timedelta(seconds=seconds)


def quick() -> Any:
    """Build a policy with which an incident ends in seconds of a real clock."""
    times = {"probe": {"first": "100ms"}, "soak": {"time": "100ms", "check": "100ms"}, "ramp": {"time": "0s"}}
    return policy(confirm="0s", stable="100ms", settle="100ms", **times)


async def reset(environment: WorkflowEnvironment, handle: Handle) -> str:
    """Reset a workflow to its second task, as an operator does in the UI, and give the id of its new run."""
    ended = [
        e.event_id
        async for e in handle.fetch_history_events()
        if e.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    ]
    answer = await environment.client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace="default",
            workflow_execution=WorkflowExecution(workflow_id=handle.id, run_id=handle.first_execution_run_id or ""),
            reason="a curious operator",
            workflow_task_finish_event_id=ended[1],
            request_id=handle.id,
        )
    )
    return answer.run_id
