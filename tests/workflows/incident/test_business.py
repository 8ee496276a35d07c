"""The business check in the loop of an incident, on a real Temporal server that skips time."""

from __future__ import annotations

from datetime import timedelta

from temporalio.testing import WorkflowEnvironment

from sickbay.model import contracts as c
from sickbay.model.incident import Trial, Verdict
from sickbay.model.policy import Soak
from sickbay.model.record import Phase
from tests.builders import policy
from tests.workflows.incident.test_workflow import begin, working
from tests.workflows.incident.world import World

ASKS = policy(business={"prometheus": "http://p:9090", "query": 'x{d="$device"}', "min": 1.0, "tolerance": "10m"})

SHORT = Soak(deadline=timedelta(minutes=15))


def free_device() -> World:
    """Build a world whose device nobody holds."""
    world = World()
    world.health = None
    return world


async def test_a_good_answer_lets_the_device_come_back(time_skipping: WorkflowEnvironment) -> None:
    """It is asked once, after the soak, and the canary is there for it."""
    world = free_device()
    before: list[tuple[int, int]] = []
    world.on[c.Activity.CHECK_BUSINESS] = lambda: before.append(
        (world.done[c.Activity.STOP_PROBE], world.done[c.Activity.RAMP_FENCE])
    )
    async with working(time_skipping, world):
        report = await (await begin(time_skipping, policy=ASKS)).result()
    assert report.outcome is Phase.RELEASED
    assert before == [(1, 0)]  # the probe is gone, the canary is not
    assert world.sent == [Trial.PROBE, Trial.CANARY]


async def test_a_bad_number_sends_it_back(time_skipping: WorkflowEnvironment) -> None:
    """It is a failed attempt with the number in the story, and all is proved anew."""
    world = free_device()
    world.answers = [Verdict.FAIL, Verdict.PASS]
    async with working(time_skipping, world):
        report = await (await begin(time_skipping, policy=ASKS)).result()
    assert (report.outcome, report.attempts) == (Phase.RELEASED, 1)
    assert world.sent == [Trial.PROBE, Trial.CANARY] * 2
    assert world.done[c.Activity.FENCE_DEVICE] == 1
    assert any("BusinessCheckFailed: 0.5, good is at least 1" in line.text for line in report.timeline)


async def test_no_answer_keeps_the_fence_and_asks_a_person(time_skipping: WorkflowEnvironment) -> None:
    """For as long as it lasts nothing is ramped or released; when an answer counts it goes on by itself."""
    world = free_device()
    world.answers = [Verdict.INCONCLUSIVE]
    silent = 60

    def prometheus_is_back() -> None:
        if world.done[c.Activity.CHECK_BUSINESS] == silent:
            assert world.done[c.Activity.RAMP_FENCE] == 0
            assert world.fences == {1}
            assert world.statuses[-1].phase is Phase.NEEDS_OPERATOR
            world.answers = [Verdict.PASS]

    world.on[c.Activity.CHECK_BUSINESS] = prometheus_is_back
    async with working(time_skipping, world):
        report = await (await begin(time_skipping, policy=ASKS)).result()
    assert (report.outcome, report.attempts) == (Phase.RELEASED, 0)
    asked = [status.ask for status in world.statuses if status.ask is not None]
    assert {ask.reason for ask in asked} == {"BusinessCheckUnsure"}
    assert len(asked) == 1  # once, however often the question was asked again
    assert world.statuses[-1].ask is None
    assert world.sent == [Trial.PROBE, Trial.CANARY]


async def test_a_soak_without_an_answer_starts_over(time_skipping: WorkflowEnvironment) -> None:
    """At its deadline the canary goes; Prometheus has kept the device out, and blamed it for nothing."""
    world = free_device()
    world.answers = [Verdict.INCONCLUSIVE]

    def prometheus_is_back() -> None:
        if world.sent.count(Trial.CANARY) == 2:
            world.answers = [Verdict.PASS]

    world.on[c.Activity.START_PROBE] = prometheus_is_back
    async with working(time_skipping, world):
        report = await (await begin(time_skipping, policy=ASKS.model_copy(update={"soak": SHORT}))).result()
    assert (report.outcome, report.attempts) == (Phase.RELEASED, 0)
    assert world.sent == [Trial.PROBE, Trial.CANARY] * 3
    assert world.done[c.Activity.RAMP_FENCE] == 1
