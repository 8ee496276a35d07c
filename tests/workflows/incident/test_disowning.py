"""A device that is given up, through the loop of its incident, on a real Temporal server that skips time."""

from __future__ import annotations

import pytest
from temporalio.testing import WorkflowEnvironment

from sickbay.model import contracts as c
from sickbay.model.command import CommandVerb, Halt, Hindrance
from sickbay.model.incident import IncidentState, Trial, Verdict
from sickbay.model.observation import Health
from sickbay.model.record import Disowning, Phase
from tests.builders import target, user
from tests.workflows.incident.test_commands import DAY, give, held, lines, stuck
from tests.workflows.incident.test_workflow import Handle, begin, working
from tests.workflows.incident.world import World

WORD = Disowning(by="eve", reason="the release depends on it", incident=target().incident)


async def say(world: World, handle: Handle) -> None:
    """Write the word into the record, and let the leader tell of it."""
    world.word = WORD
    await handle.signal(c.OBSERVE_SIGNAL, c.Observed(health=Health.UNHEALTHY, disowned=True))


async def test_a_device_in_use_is_given_up(time_skipping: WorkflowEnvironment) -> None:
    """Its fence goes in the ordinary order, nobody is moved, nothing is tried, and its end says by whom and why."""
    world = stuck()
    async with working(time_skipping, world):
        handle = await begin(time_skipping)
        await world.until(lambda: held(world))
        await say(world, handle)
        report = await handle.result()
        details = str(await handle.query("__temporal_workflow_metadata"))
    assert (report.outcome, world.fences, world.sent) == (Phase.DISOWNED, set(), [])
    assert world.closed is not None
    assert (world.closed.outcome, world.closed.disowned, world.closed.pods_version) == (Phase.DISOWNED, WORD, "")
    order = (c.Activity.UNLATCH_FENCE, c.Activity.DELETE_FENCE, c.Activity.AWAIT_FENCE_GONE, c.Activity.CLOSE_RECORD)
    assert [world.done[name] for name in (*order, c.Activity.EVICT_USER)] == [1, 1, 1, 1, 0]
    assert [status.phase for status in world.statuses][-1] is Phase.RELEASING
    assert lines(report, "given up by eve: the release depends on it")
    assert lines(report, "eve gives the device up, untested")
    assert "eve: the release depends on it" in details


async def test_a_canary_is_removed_first(time_skipping: WorkflowEnvironment) -> None:
    """What soaks on the device is gone before the fence is; a reading finds the word by itself."""
    world = World()
    world.health = None
    world.soaking = (None, None)
    stopped: list[int] = []

    def written() -> None:
        world.word = WORD if world.sent[-1] is Trial.CANARY else None

    world.on[c.Activity.AWAIT_PROBE] = written
    world.on[c.Activity.UNLATCH_FENCE] = lambda: stopped.append(world.done[c.Activity.STOP_PROBE])
    async with working(time_skipping, world):
        report = await (await begin(time_skipping)).result()
    assert (report.outcome, world.sent, stopped) == (Phase.DISOWNED, [Trial.PROBE, Trial.CANARY], [2])


async def test_it_goes_over_a_pause_that_nothing_else_wakes(time_skipping: WorkflowEnvironment) -> None:
    """Days into it; a word that only claims to be one is looked for, not found, and the pause goes on."""
    world = stuck()
    async with working(time_skipping, world):
        handle = await begin(time_skipping)
        await world.until(lambda: held(world))
        await give(handle, CommandVerb.PAUSE)
        await time_skipping.sleep(2 * DAY)
        reads = world.done[c.Activity.READ_DEVICE]
        await handle.signal(c.OBSERVE_SIGNAL, c.Observed(health=Health.UNHEALTHY, disowned=True))
        await world.until(lambda: world.done[c.Activity.READ_DEVICE] == reads + 1)
        state = await handle.query(c.STATE_QUERY, result_type=IncidentState)
        assert state.orders.pause is not None
        assert world.fences == {1}
        await say(world, handle)
        report = await handle.result()
    assert (report.outcome, world.fences) == (Phase.DISOWNED, set())


async def test_it_waits_while_the_installation_is_paused(time_skipping: WorkflowEnvironment) -> None:
    """Whoever paused everything has paused this, too; afterwards it goes on by itself."""
    world = stuck()
    world.halt = Halt(reason=Hindrance.PAUSED, message="all is paused by ann")
    async with working(time_skipping, world):
        handle = await begin(time_skipping)
        await world.until(lambda: held(world))
        await say(world, handle)
        await world.until(lambda: world.done[c.Activity.AWAIT_GO] > 0)
        assert world.fences == {1}
        world.halt = None
        report = await handle.result()
    assert (report.outcome, world.fences) == (Phase.DISOWNED, set())


async def test_an_incident_that_was_never_admitted_just_ends(time_skipping: WorkflowEnvironment) -> None:
    """Nothing was fenced, and nothing is."""
    world = World()
    world.admitted = False
    world.word = WORD
    async with working(time_skipping, world):
        report = await (await begin(time_skipping, admitted=False)).result()
    assert (report.outcome, world.done[c.Activity.FENCE_DEVICE]) == (Phase.DISOWNED, 0)


@pytest.mark.parametrize("verdict", [Verdict.FAIL, Verdict.PASS])
async def test_a_word_taken_back_leaves_no_trace(time_skipping: WorkflowEnvironment, verdict: Verdict) -> None:
    """Before the fence is deleted: it stands, and only proof releases the device."""
    world = World()
    world.health = None
    world.verdicts = [verdict, Verdict.PASS]
    world.users = (user(may_move=False),)

    async def take_back() -> None:
        world.word = None
        world.users = ()
        await handle.signal(c.OBSERVE_SIGNAL, c.Observed(health=Health.UNHEALTHY))

    world.before_unlatched = take_back
    async with working(time_skipping, world):
        handle = await begin(time_skipping)
        await world.until(lambda: held(world))
        await say(world, handle)
        report = await handle.result()
    assert report.outcome is Phase.RELEASED
    assert world.sent[-2:] == [Trial.PROBE, Trial.CANARY]
    assert world.done[c.Activity.DELETE_FENCE] == 1
