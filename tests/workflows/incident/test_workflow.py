"""The loop of an incident, on a real Temporal server that skips time; what it finds is said by the test."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import WorkflowHandle
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from sickbay.model import contracts as c
from sickbay.model.incident import IncidentReport, Trial, UserState, Verdict
from sickbay.model.observation import Health
from sickbay.model.record import Phase
from tests.builders import DEVICE, incident, user
from tests.workflows.incident.world import World
from workers.sandbox import workflow_runner
from workflows.incident.workflow import DeviceIncident

Handle = WorkflowHandle[DeviceIncident, IncidentReport]


@asynccontextmanager
async def working(environment: WorkflowEnvironment, world: World, *, cached: int = 1000) -> AsyncIterator[None]:
    """Run workers for all three queues on this world."""
    incidents = Worker(
        environment.client,
        task_queue=c.Queue.INCIDENT.of(DEVICE.cluster),
        workflows=[DeviceIncident],
        workflow_runner=workflow_runner(),
        max_cached_workflows=cached,
    )
    queues = [
        Worker(environment.client, task_queue=queue.of(DEVICE.cluster), activities=world.activities)
        for queue in (c.Queue.EFFECTS, c.Queue.WAITS)
    ]
    async with incidents, queues[0], queues[1]:
        yield


async def begin(environment: WorkflowEnvironment, **facts: Any) -> Handle:
    """Start one incident that begins now."""
    state = incident(first_bad_at=await environment.get_current_time(), **facts)
    started: Handle = await environment.client.start_workflow(
        DeviceIncident.run, state, id=f"{state.target.incident}/{uuid.uuid4()}", task_queue=c.Queue.INCIDENT.of("lab")
    )
    return started


@pytest.mark.parametrize("cached", [1000, 0], ids=["cached", "replayed at every task"])
async def test_from_bad_to_released(time_skipping: WorkflowEnvironment, cached: int) -> None:
    """A bad device is fenced, its job moved, the device probed and released; each effect happens once."""
    world = World()
    world.users = (user(),)

    def moved() -> None:
        world.says(None)

    world.on[c.Activity.EVICT_USER] = moved
    async with working(time_skipping, world, cached=cached):
        report = await (await begin(time_skipping)).result()
    assert report.outcome is Phase.RELEASED
    assert report.moved == ("team/train-0",)
    assert world.fences == set()
    assert world.sent == [Trial.PROBE, Trial.CANARY]
    once = (c.Activity.FENCE_DEVICE, c.Activity.EVICT_USER, c.Activity.RAMP_FENCE, c.Activity.UNLATCH_FENCE)
    assert [world.done[name] for name in (*once, c.Activity.DELETE_FENCE, c.Activity.CLOSE_RECORD)] == [1] * 6


async def test_the_record_speaks_first(time_skipping: WorkflowEnvironment) -> None:
    """Each number is written into the record before the effect that bears it."""
    world = World()
    written: dict[str, c.WriteStatus] = {}
    world.on[c.Activity.FENCE_DEVICE] = lambda: written.setdefault("fence", world.statuses[-1])
    world.on[c.Activity.START_PROBE] = lambda: written.setdefault("probe", world.statuses[-1])
    world.on[c.Activity.UNLATCH_FENCE] = lambda: written.setdefault("release", world.statuses[-1])
    world.health = None
    async with working(time_skipping, world):
        await (await begin(time_skipping)).result()
    assert written["fence"].fence_number == 1
    assert written["probe"].probe_number == 1
    assert written["release"].release_number == 1
    assert written["release"].phase is Phase.RELEASING


async def test_failed_probe_goes_back_and_the_next_passes(time_skipping: WorkflowEnvironment) -> None:
    """A failing probe keeps the fence; after a longer pause the second attempt passes."""
    world = World()
    world.health = None
    world.verdicts = [Verdict.FAIL, Verdict.PASS]
    async with working(time_skipping, world):
        report = await (await begin(time_skipping)).result()
    assert (report.outcome, report.attempts) == (Phase.RELEASED, 1)
    assert world.sent == [Trial.PROBE, Trial.PROBE, Trial.CANARY]
    assert world.done[c.Activity.FENCE_DEVICE] == 1


@pytest.mark.parametrize(
    ("verdict", "reason"), [(Verdict.INCONCLUSIVE, "ProbesInconclusive"), (Verdict.WAITING, "ProbeCannotRun")]
)
@pytest.mark.parametrize("trial", Trial)
async def test_trials_that_prove_nothing_ask_a_person_and_release_nothing(
    time_skipping: WorkflowEnvironment, trial: Trial, verdict: Verdict, reason: str
) -> None:
    """After ten of them the fence stands and a person is asked; no attempt counts as failed, and then it goes on."""
    world = World()
    world.health = None
    tried = 10
    none = [verdict] * tried + [Verdict.PASS]
    world.verdicts, world.loads = (none, world.loads) if trial is Trial.PROBE else (world.verdicts, none)
    asked: list[tuple[str, set[int]]] = []

    def look() -> None:
        ask = world.statuses[-1].ask
        asked.append((ask.reason if ask else "", set(world.fences)))

    world.on[c.Activity.AWAIT_PROBE] = look
    async with working(time_skipping, world):
        report = await (await begin(time_skipping)).result()
    assert world.sent.count(trial) == tried + 1
    assert asked[0] == ("", {1})
    assert (reason, {1}) in asked
    # Once asked, a person stays asked until a trial of that kind has passed.
    assert [ask for ask, _ in asked[asked.index((reason, {1})) :]][: tried // 2] == [reason] * (tried // 2)
    assert world.done[c.Activity.FENCE_DEVICE] == world.done[c.Activity.RAMP_FENCE] == 1
    assert report.outcome is Phase.RELEASED


@pytest.mark.parametrize("trial", Trial)
async def test_trials_that_the_cluster_will_not_have_wait_until_it_does(
    time_skipping: WorkflowEnvironment, trial: Trial
) -> None:
    """No step has failed, no attempt is used: each is removed and counted, a person is told why, then it goes on."""
    world = World()
    world.health = None
    world.refusals[trial] = 6
    async with working(time_skipping, world):
        report = await (await begin(time_skipping)).result()
    asks = {status.ask.reason: status.ask.remedy for status in world.statuses if status.ask}
    assert list(asks) == ["ProbeCannotRun"]
    assert f"no {trial} could run: Refused: Pod: exceeded quota" in asks["ProbeCannotRun"]
    assert (report.outcome, report.attempts) == (Phase.RELEASED, 0)
    assert world.sent == [Trial.PROBE, Trial.CANARY]
    assert world.done[c.Activity.STOP_PROBE] == 6 + len(world.sent)


async def test_failing_load_sends_it_back_to_the_probe(time_skipping: WorkflowEnvironment) -> None:
    """A fault that shows only under load passes the probe every time, and never the canary."""
    world = World()
    world.health = None
    world.loads = [Verdict.FAIL, Verdict.FAIL, Verdict.PASS]
    async with working(time_skipping, world):
        report = await (await begin(time_skipping)).result()
    assert (report.outcome, report.attempts) == (Phase.RELEASED, 2)
    assert world.sent == [Trial.PROBE, Trial.CANARY] * 3
    assert world.done[c.Activity.RAMP_FENCE] == 1


async def test_soak_does_not_advance_without_a_reporter(time_skipping: WorkflowEnvironment) -> None:
    """While nobody reports the soak stands still; time counts again from the first fresh Healthy."""
    world = World()
    world.health = None
    world.soaking = (None, None)
    silent = 30

    def reporter_is_back() -> None:
        if world.done[c.Activity.READ_DEVICE] == silent:
            assert world.done[c.Activity.RAMP_FENCE] == 0
            world.soaking = (Health.HEALTHY, None)

    world.on[c.Activity.READ_DEVICE] = reporter_is_back
    async with working(time_skipping, world):
        report = await (await begin(time_skipping)).result()
    assert report.outcome is Phase.RELEASED
    assert world.done[c.Activity.READ_DEVICE] >= silent + 20  # ten minutes, looked at every 30 s


async def test_unhealthy_while_it_soaks_sends_it_back(time_skipping: WorkflowEnvironment) -> None:
    """The canary's own entry turns Unhealthy: the canary goes, and all is proved again after a longer pause."""
    world = World()
    world.health = None
    world.soaking = (Health.UNHEALTHY, None)

    def well_again() -> None:
        if world.done[c.Activity.START_PROBE] > 2:
            world.soaking = (Health.HEALTHY, None)

    world.on[c.Activity.START_PROBE] = well_again
    async with working(time_skipping, world):
        report = await (await begin(time_skipping)).result()
    assert (report.outcome, report.attempts) == (Phase.RELEASED, 1)
    assert world.sent == [Trial.PROBE, Trial.CANARY] * 2
    assert world.done[c.Activity.STOP_PROBE] == 4


async def test_bad_news_in_the_ramp_fences_it_again(time_skipping: WorkflowEnvironment) -> None:
    """A workload that opted in finds the device bad: nobody else gets it, and all is proved again."""
    world = World()
    world.health = None
    said: list[bool] = []

    def taker_is_unhappy() -> None:
        if not said:
            said.append(True)
            world.says(Health.UNHEALTHY)

    world.on[c.Activity.RAMP_FENCE] = taker_is_unhappy
    world.on[c.Activity.START_PROBE] = lambda: world.says(None) if said else None
    async with working(time_skipping, world):
        report = await (await begin(time_skipping)).result()
    assert (report.outcome, report.attempts) == (Phase.RELEASED, 1)
    assert world.sent == [Trial.PROBE, Trial.CANARY] * 2
    assert world.done[c.Activity.RAMP_FENCE] == 2


async def test_never_bad_live_and_healthy_lasts(time_skipping: WorkflowEnvironment) -> None:
    """A fence that no live reading ever confirmed is lifted without a probe, and nobody is moved."""
    world = World()
    world.health = Health.HEALTHY
    world.users = (user(),)
    async with working(time_skipping, world):
        report = await (await begin(time_skipping)).result()
    assert report.outcome is Phase.CLEARED
    assert world.done[c.Activity.EVICT_USER] == 0
    assert world.fences == set()


async def test_bad_news_during_release_calls_it_off(time_skipping: WorkflowEnvironment) -> None:
    """A new Unhealthy while the fence is being deleted puts a fence back, under the next number."""
    world = World()
    world.health = None
    handle: list[Handle] = []
    said: list[bool] = []

    def bad() -> None:
        if not said:
            said.append(True)
            world.says(Health.UNHEALTHY)

    async def tell() -> None:
        await handle[0].signal(c.OBSERVE_SIGNAL, c.Observed(health=Health.UNHEALTHY))

    world.on[c.Activity.DELETE_FENCE] = bad
    world.before_gone = tell
    world.on[c.Activity.START_PROBE] = lambda: world.says(None) if said else None
    async with working(time_skipping, world):
        handle.append(await begin(time_skipping))
        report = await handle[0].result()
    assert report.outcome is Phase.RELEASED
    assert report.fences == 2
    assert world.done[c.Activity.FENCE_DEVICE] == 2


async def test_fence_deleted_by_hand_comes_back(time_skipping: WorkflowEnvironment) -> None:
    """A fence that someone takes away is put back under the next number."""
    world = World()
    world.users = (user(may_move=False, note="stop it"),)
    async with working(time_skipping, world):
        handle = await begin(time_skipping)
        await world.until(lambda: world.done[c.Activity.AWAIT_USERS] > 0)
        world.fences.clear()
        await handle.signal(c.OBSERVE_SIGNAL, c.Observed(fence_lost=True))
        await world.until(lambda: world.fences == {2})
        world.users = ()
        world.says(None)
        report = await handle.result()
    assert (report.outcome, report.fences) == (Phase.RELEASED, 2)


async def test_superseded_ends_without_a_trace(time_skipping: WorkflowEnvironment) -> None:
    """An incident whose record is another's ends at its next effect and writes nothing."""
    world = World()
    world.superseded = True
    async with working(time_skipping, world):
        report = await (await begin(time_skipping)).result()
    assert report.outcome is Phase.SUPERSEDED
    assert world.closed is None
    assert world.statuses == []


async def test_superseded_in_the_middle_of_a_release_has_released_nothing(time_skipping: WorkflowEnvironment) -> None:
    """What an incident was about to achieve is not its outcome."""
    world = World()
    world.says(None)

    def taken_over() -> None:
        world.superseded = True

    world.on[c.Activity.UNLATCH_FENCE] = taken_over
    async with working(time_skipping, world):
        report = await (await begin(time_skipping)).result()
    assert world.done[c.Activity.UNLATCH_FENCE] == 1
    assert report.outcome is Phase.SUPERSEDED


async def test_a_month_held_with_continue_as_new(time_skipping: WorkflowEnvironment) -> None:
    """A month of being Held, continued as new many times, ends as it would have, with its title and details."""
    world = World()
    world.admitted = False
    hours = 30 * 24

    def admit_after_a_month() -> None:
        if world.done[c.Activity.READ_DEVICE] == hours:
            world.admitted = True
            world.says(None)

    world.on[c.Activity.READ_DEVICE] = admit_after_a_month
    async with working(time_skipping, world):
        first = await begin(time_skipping, admitted=False, max_events=50)
        report = await first.result()
        last = await time_skipping.client.get_workflow_handle(first.id).describe()
        title = await last.memo_value("title", "")
        shown = await time_skipping.client.get_workflow_handle(first.id).query("__temporal_workflow_metadata")
    assert report.outcome is Phase.RELEASED
    assert last.run_id != first.first_execution_run_id
    assert world.done[c.Activity.FENCE_DEVICE] == 1
    assert title.startswith("gpu-3 on node-1")
    assert "Soaking" in str(shown)


async def test_odd_signals_change_nothing(time_skipping: WorkflowEnvironment) -> None:
    """Signals with no, two or wrong arguments, of unknown names or a megabyte are refused; the incident goes on."""
    world = World()
    world.users = (user(may_move=False),)
    async with working(time_skipping, world):
        handle = await begin(time_skipping)
        await handle.signal(c.OBSERVE_SIGNAL)
        await handle.signal(c.OBSERVE_SIGNAL, args=[1, 2])
        await handle.signal(c.ADMITTED_SIGNAL, "yes please")
        await handle.signal("release_it_now", "x" * 1_000_000)
        world.users = ()
        world.says(None)
        report = await handle.result()
    assert report.outcome is Phase.RELEASED
    refused = [line.text for line in report.timeline if "refused" in line.text]
    assert len(refused) == 4


async def test_cancel_from_the_ui_keeps_the_keeper(time_skipping: WorkflowEnvironment) -> None:
    """A cancelled incident keeps its fence and goes on to its proper end."""
    world = World()
    world.users = (user(may_move=False),)
    async with working(time_skipping, world):
        handle = await begin(time_skipping)
        await world.until(lambda: world.done[c.Activity.AWAIT_USERS] > 0)
        await handle.cancel()
        world.users = ()
        world.says(None)
        report = await handle.result()
    assert report.outcome is Phase.RELEASED
    assert any("cancelled by hand" in line.text for line in report.timeline)


async def test_held_is_admitted_later(time_skipping: WorkflowEnvironment) -> None:
    """A Held incident fences nothing until it is admitted, then goes the whole way."""
    world = World()
    world.admitted = False
    async with working(time_skipping, world):
        handle = await begin(time_skipping, admitted=False)
        await world.until(lambda: any(s.wants_admission for s in world.statuses))
        assert world.done[c.Activity.FENCE_DEVICE] == 0
        world.admitted = True
        world.says(None)
        await handle.signal(c.ADMITTED_SIGNAL, c.Admitted(by="guard", numbers="1 of 8"))
        report = await handle.result()
    assert report.outcome is Phase.RELEASED


async def test_suspect_turns_unhealthy(time_skipping: WorkflowEnvironment) -> None:
    """Doubt that turns into Unhealthy becomes a quarantine under the same incident."""
    world = World()
    world.admitted = False
    world.health = Health.UNKNOWN
    async with working(time_skipping, world):
        handle = await begin(time_skipping, admitted=False, severity=Health.UNKNOWN)
        await world.until(lambda: any(s.phase is Phase.SUSPECT for s in world.statuses))
        world.says(Health.UNHEALTHY)
        world.admitted = True
        await handle.signal(c.ADMITTED_SIGNAL, c.Admitted(by="guard", severity=Health.UNHEALTHY))
        await world.until(lambda: world.fences == {1})
        world.says(None)
        report = await handle.result()
    assert report.outcome is Phase.RELEASED


async def test_swapped_hardware_is_not_released(time_skipping: WorkflowEnvironment) -> None:
    """Other hardware in the slot than the one that failed: that one is retired, and the fence stays for the other."""
    world = World()
    world.health = None
    world.on[c.Activity.AWAIT_PROBE] = lambda: setattr(world, "hardware", "GPU-new")
    async with working(time_skipping, world):
        report = await (await begin(time_skipping)).result()
    assert report.outcome is Phase.RETIRED
    assert world.fences == {1}
    assert world.done[c.Activity.RAMP_FENCE] == 0


async def test_replaced_users_are_named_in_the_story(time_skipping: WorkflowEnvironment) -> None:
    """What became of each user stands in the report."""
    world = World()
    world.users = (user(),)
    world.on[c.Activity.EVICT_USER] = lambda: world.says(None)
    async with working(time_skipping, world):
        report = await (await begin(time_skipping)).result()
    assert any(UserState.REPLACED in line.text for line in report.timeline)


async def test_a_signal_alone_admits_nobody(time_skipping: WorkflowEnvironment) -> None:
    """Whoever may send signals does not overrule the guard, nor a person who is to approve: the record counts."""
    world = World()
    world.admitted = False
    async with working(time_skipping, world):
        handle = await begin(time_skipping, admitted=False)
        await world.until(lambda: any(s.wants_admission for s in world.statuses))
        read = world.done[c.Activity.READ_DEVICE]
        await handle.signal(c.ADMITTED_SIGNAL, {})
        await world.until(lambda: world.done[c.Activity.READ_DEVICE] > read)
        await time_skipping.sleep(60)
        assert world.fences == set()
        await handle.terminate()


async def test_a_step_that_fails_for_good_is_tried_once_a_minute(time_skipping: WorkflowEnvironment) -> None:
    """The question to a person stands until the step works, and nothing turns in circles meanwhile."""
    world = World()
    world.health = None
    mended = False

    def fails() -> None:
        if not mended:
            raise ApplicationError("HTTP 405", type="MethodNotAllowed", non_retryable=True)

    world.on[c.Activity.START_PROBE] = fails
    async with working(time_skipping, world):
        handle = await begin(time_skipping)
        await time_skipping.sleep(3600)
        assert 30 <= world.done[c.Activity.START_PROBE] <= 60
        assert world.done[c.Activity.WRITE_STATUS] <= 10
        asked = world.statuses[-1].ask
        assert asked is not None
        assert (asked.reason, "HTTP 405" in asked.remedy) == ("StepFailed", True)
        mended = True
        report = await handle.result()
    assert report.outcome is Phase.RELEASED
    assert world.statuses[-1].ask is None


async def test_the_expiry_is_said_with_the_phase(time_skipping: WorkflowEnvironment) -> None:
    """From the first word of the quarantine to the last, and not a write more than there are phases and numbers."""
    world = World()
    world.health = None
    async with working(time_skipping, world):
        handle = await begin(time_skipping)
        began = await time_skipping.get_current_time()
        await handle.result()
    said = [(status.phase, status.expires_at) for status in world.statuses]
    assert {phase for phase, at in said if at is None} == {Phase.RAMPING, Phase.RELEASING}
    for phase, at in said:
        assert at is None or timedelta(0) <= began + timedelta(days=7) - at < timedelta(minutes=1), phase
    assert len(said) <= len({phase for phase, _ in said}) + 3
