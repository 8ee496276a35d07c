"""A device that is bad for five seconds and well for five, for ten minutes, on a server that skips time."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta

import pytest
from temporalio import activity, workflow
from temporalio.api.enums.v1 import EventType
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from sickbay.model import contracts as c
from sickbay.model.incident import Verdict
from sickbay.model.observation import Health
from sickbay.model.record import Phase
from tests.builders import policy, seconds, user
from tests.sickbay.watch.flips import Desk
from tests.workflows.incident.test_workflow import Handle, begin, working
from tests.workflows.incident.world import World

HALF = seconds(5)
FOR = timedelta(minutes=10)
GOES = seconds(40)
"""When a job that may move has left by: nobody speaks of the device then, for a trial's pod is no witness."""


class Flapper(World):
    """A world whose device flaps by the server's clock, whoever holds it: a job, a probe or a canary.

    Attributes:
        moved: when a pod was evicted, from the first bad word on.
        released: when a fence was unlatched or let anybody in.
    """

    def __init__(self, began: datetime, *, may_move: bool) -> None:
        super().__init__()
        self.moved: list[timedelta] = []
        self.released: list[timedelta] = []
        self.users = (user(may_move=may_move),)
        self.on[c.Activity.READ_DEVICE] = self._flap
        self.on[c.Activity.AWAIT_PROBE] = self._judge
        self.on[c.Activity.EVICT_USER] = lambda: self.moved.append(self._since())
        for way_out in (c.Activity.RAMP_FENCE, c.Activity.UNLATCH_FENCE, c.Activity.DELETE_FENCE):
            self.on[way_out] = lambda: self.released.append(self._since())
        self._began = began

    def _flap(self) -> None:
        """Be as it is now; a pod of the job says so while there is one, and so does a canary."""
        since = self._since()
        now = Health.HEALTHY if self._well(since) else Health.UNHEALTHY
        if since >= FOR:
            self.users = ()
        self.version = 100 + min(since, FOR) // HALF
        self.health = now if self.users else None
        self.soaking = (now, None)

    def _judge(self) -> None:
        """Judge a trial by how the device is now."""
        self.verdicts = [Verdict.PASS if self._well(self._since()) else Verdict.FAIL]

    def _since(self) -> timedelta:
        started: datetime = activity.info().started_time
        return started - self._began

    @staticmethod
    def _well(since: timedelta) -> bool:
        return since >= FOR or bool(since // HALF % 2)


@workflow.defn(sandboxed=False)
class Leader:
    """Tells an incident what a leader would; on the server, for from outside nobody can wait without skipping time."""

    @workflow.run
    async def run(self, incident: str, seconds_: list[float]) -> None:
        """Give each word at its second."""
        began = workflow.now()
        for at in seconds_:
            await workflow.sleep(began + seconds(at) - workflow.now())
            word = c.Observed(health=Health.UNHEALTHY)
            await workflow.get_external_workflow_handle(incident).signal(c.OBSERVE_SIGNAL, word)


@pytest.mark.parametrize(
    ("confirm", "may_move"),
    [(30, True), (35, True), (38, True), (30, False)],
    ids=["met bad", "met well", "met well, shortly", "a pod that stays"],
)
async def test_ten_minutes_of_flapping(time_skipping: WorkflowEnvironment, confirm: int, *, may_move: bool) -> None:
    """One fence, nothing released, and little history; the job leaves soon after confirm, in whichever half that is."""
    desk, until = Desk(), GOES if may_move else FOR
    flips = [at for at in range(5, int(until.total_seconds()) + 1, 5) if desk.flip(at)]
    # Never in the moment in which a timer of the incident fires: the server that skips time may hang then.
    words = [at + 1.5 * n for n, at in enumerate(flips)]
    began = await time_skipping.get_current_time()
    world = Flapper(began, may_move=may_move)
    leader = Worker(time_skipping.client, task_queue="leader", workflows=[Leader])
    async with working(time_skipping, world), leader:
        handle = await begin(time_skipping, policy=policy(confirm=f"{confirm}s"))
        await time_skipping.client.execute_workflow(
            Leader.run, args=[handle.id, words], id=str(uuid.uuid4()), task_queue="leader"
        )
        report = await handle.result()
    kinds = await by(handle, began + FOR)
    assert kinds.count(EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED) == len(words) <= 25
    assert len(kinds) < 200
    assert len(world.moved) == may_move
    assert all(seconds(confirm) <= at <= seconds(confirm + 10) for at in world.moved)
    assert world.done[c.Activity.FENCE_DEVICE] == report.fences == 1
    assert min(world.released) > FOR + policy().soak.time
    assert (report.outcome, world.fences) == (Phase.RELEASED, set())


async def by(handle: Handle, time: datetime) -> list[EventType.ValueType]:
    """Give the kinds of all events of the history up to a time."""
    events = [event async for event in handle.fetch_history_events()]
    return [event.event_type for event in events if event.event_time.ToDatetime(time.tzinfo) <= time]
