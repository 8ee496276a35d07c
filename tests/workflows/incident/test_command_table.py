"""The table of commands: each of the six in each situation in which somebody gives one, by each door."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Final

import pytest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment

from sickbay.cli.command import tell
from sickbay.errors import UsageError
from sickbay.model import contracts as c
from sickbay.model.command import COMMAND_UPDATE, Answer, CommandVerb, Halt, Hindrance, Outcome
from sickbay.model.incident import IncidentState
from sickbay.model.record import Phase
from sickbay.temporal import Temporal
from tests.builders import policy
from tests.workflows.incident.test_commands import command, give, quick, soon, stuck, well
from tests.workflows.incident.test_workflow import Handle, begin, working
from tests.workflows.incident.world import World

RESTS: Final = {"confirm": "0s", "stable": "100ms", "settle": "100ms", "probe": {"first": "1h"}}
"""A policy by which a free device rests for long."""


def world_for(verb: CommandVerb) -> World:
    """Build a world in which an incident comes to where a command has an effect, and stays."""
    if verb is not CommandVerb.PROBE_NOW:
        return stuck()
    world = World()
    world.health = None
    world.halt = Halt(reason=Hindrance.PAUSED, message="no probe is sent, but it is tried")
    return world


async def there(environment: WorkflowEnvironment, world: World, verb: CommandVerb, **facts: Any) -> Handle:
    """Begin an incident and wait until it is where this command has an effect."""
    rests = verb is CommandVerb.PROBE_NOW
    handle = await begin(environment, policy=policy(**RESTS) if rests else quick(), **facts)
    phase = Phase.RECOVERING if rests else Phase.NEEDS_OPERATOR
    await world.until(lambda: any(status.phase is phase for status in world.statuses))
    if verb is CommandVerb.RESUME:
        free = environment.client.get_workflow_handle(handle.id)
        paused = command(CommandVerb.PAUSE, id="before")
        await free.execute_update(COMMAND_UPDATE, paused, result_type=Answer)
    return handle


async def details(environment: WorkflowEnvironment, verb: CommandVerb) -> dict[str, Any]:
    """Give what a command of this kind needs beside its name."""
    return {"until": await soon(environment)} if verb is CommandVerb.EXTEND_QUARANTINE else {}


async def state_of(environment: WorkflowEnvironment, handle: Handle) -> IncidentState:
    """Ask an incident's newest run for all that it knows."""
    free = environment.client.get_workflow_handle(handle.id)
    state: IncidentState = await free.query(c.STATE_QUERY, result_type=IncidentState)
    return state


def holds(verb: CommandVerb, state: IncidentState, world: World) -> bool:
    """Whether a command has had its effect."""
    orders = state.orders
    return {
        CommandVerb.PAUSE: orders.pause is not None,
        CommandVerb.RESUME: orders.pause is None,
        CommandVerb.EXTEND_QUARANTINE: orders.kept_until is not None,
        CommandVerb.APPROVE: any("WillNotMove: tries again now" in line.text for line in state.timeline),
        CommandVerb.RETIRE: bool(orders.retiring),
        CommandVerb.PROBE_NOW: world.done[c.Activity.START_PROBE] > 0,
    }[verb]


BAD: Final[dict[str, dict[str, Any]]] = {
    "no sender": {"actor": ""},
    "no such time": {"until": "tomorrow"},
    "a time without a zone": {"until": "2026-01-10T10:00:00"},
    "too long a reason": {"reason": "x" * 1001},
    "too long an id": {"id": "x" * 65},
    "a reason of another type": {"reason": {"is": "none"}},
}


@pytest.mark.parametrize("verb", CommandVerb)
async def test_each_is_applied_once_by_either_door_and_a_bad_one_never(
    dev_server: WorkflowEnvironment, verb: CommandVerb
) -> None:
    """Bad ones are turned away and nothing is changed; a good one is applied, and its repeats are answered so."""
    world, temporal = world_for(verb), Temporal(dev_server.client.service_client.config.target_host)
    async with working(dev_server, world):
        handle = await there(dev_server, world, verb)
        before = (await state_of(dev_server, handle)).orders
        good = command(verb, **await details(dev_server, verb))
        for bad in BAD.values():
            with pytest.raises(WorkflowUpdateFailedError):
                await handle.execute_update(COMMAND_UPDATE, good.model_dump(mode="json") | bad)
        assert (await state_of(dev_server, handle)).orders == before
        told = await tell(temporal, handle.id, good)  # as the command line does
        assert told.startswith(handle.id)
        assert "before" not in told
        assert await tell(temporal, handle.id, good) == told  # Temporal's own answer to an update of the same id
        again: Answer = await handle.execute_update(COMMAND_UPDATE, good, result_type=Answer, id="another door")
        assert again.outcome is Outcome.ALREADY_APPLIED
        if verb is CommandVerb.PROBE_NOW:
            await world.until(lambda: world.done[c.Activity.START_PROBE] > 0)
        after = await state_of(dev_server, handle)
        assert holds(verb, after, world)
        assert after.orders.applied.count(good.id) == 1
        assert len([line for line in after.timeline if f"{verb} by ann" in line.text]) == 1
        await handle.terminate()


@pytest.mark.parametrize("verb", CommandVerb)
async def test_each_while_the_incident_continues_as_new(dev_server: WorkflowEnvironment, verb: CommandVerb) -> None:
    """It is applied once, in whichever run it arrives, among many signals; later runs remember it."""
    world = world_for(verb)
    async with working(dev_server, world):
        handle = await there(dev_server, world, verb, max_events=20)
        free = dev_server.client.get_workflow_handle(handle.id)
        good = command(verb, **await details(dev_server, verb))

        async def noise(n: int) -> None:
            for k in range(8):
                await free.signal("force_release", {"id": f"{n}/{k}"})

        async with asyncio.TaskGroup() as group:
            for n in range(4):
                group.create_task(noise(n))
            given = group.create_task(free.execute_update(COMMAND_UPDATE, good, result_type=Answer))
        assert given.result().outcome is Outcome.APPLIED
        if verb is CommandVerb.PROBE_NOW:
            await world.until(lambda: world.done[c.Activity.START_PROBE] > 0)
        async with asyncio.timeout(30):
            while (await free.describe()).run_id == handle.first_execution_run_id:
                await free.signal("force_release", {"id": "one more, so that it continues"})
        again: Answer = await free.execute_update(COMMAND_UPDATE, good, result_type=Answer, id="another")
        assert again.outcome is Outcome.ALREADY_APPLIED
        state = await state_of(dev_server, handle)
        assert holds(verb, state, world)
        assert state.orders.applied.count(good.id) == 1
        await free.terminate()


@pytest.mark.parametrize(
    ("verb", "first", "why"),
    [
        (CommandVerb.PAUSE, None, "has passed"),
        (CommandVerb.RESUME, None, "not paused"),
        (CommandVerb.EXTEND_QUARANTINE, CommandVerb.EXTEND_QUARANTINE, "only lengthens"),
        (CommandVerb.APPROVE, CommandVerb.PAUSE, "nobody is asked"),
        (CommandVerb.RETIRE, None, "no fence stands"),
        (CommandVerb.PROBE_NOW, CommandVerb.PAUSE, "resume it first"),
    ],
)
async def test_each_out_of_order(
    dev_server: WorkflowEnvironment, verb: CommandVerb, first: CommandVerb | None, why: str
) -> None:
    """One that comes too late, or before what it rests on, is refused, and leaves what was said before as it was."""
    world = World()
    world.admitted = verb is not CommandVerb.RETIRE
    world.health = None
    async with working(dev_server, world):
        handle = await begin(dev_server, policy=policy(**RESTS), admitted=world.admitted)
        phase = Phase.RECOVERING if world.admitted else Phase.HELD
        await world.until(lambda: any(status.phase is phase for status in world.statuses))
        now = await dev_server.get_current_time()
        if first is not None:
            assert (await give(handle, first, id="first", until=now + timedelta(hours=2))).outcome is Outcome.APPLIED
        before = (await state_of(dev_server, handle)).orders
        late = {CommandVerb.PAUSE: now - timedelta(hours=1), CommandVerb.EXTEND_QUARANTINE: now + timedelta(hours=1)}
        answer = await give(handle, verb, until=late.get(verb))
        assert (answer.outcome, why in answer.message) == (Outcome.REFUSED, True), answer
        assert (await state_of(dev_server, handle)).orders == before
        await handle.terminate()


async def test_each_to_an_incident_that_has_come_to_its_end(dev_server: WorkflowEnvironment) -> None:
    """By update, by signal and from the command line its sender is told, and nothing begins anew."""
    world, temporal = stuck(), Temporal(dev_server.client.service_client.config.target_host)
    async with working(dev_server, world):
        handle = await begin(dev_server, policy=quick())
        well(world)
        assert (await asyncio.wait_for(handle.result(), 60)).outcome is Phase.RELEASED
        done = world.done.copy()
        for verb in CommandVerb:
            with pytest.raises(RPCError, match="already completed"):
                await give(handle, verb)
            with pytest.raises(RPCError, match="already completed"):
                await handle.signal(verb, "too late")
            with pytest.raises(UsageError, match="does not run now"):
                await tell(temporal, handle.id, command(verb))
        assert (await handle.describe()).run_id == handle.first_execution_run_id
    assert world.done == done
