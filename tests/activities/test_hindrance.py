"""A step that cannot be undone asks first: is the installation paused, is its node marked?"""

from __future__ import annotations

import pytest
from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.effect import effect
from activities.hindrance import HindranceActivities
from k8s.control import ControlMap
from k8s.gateway import MERGE_PATCH
from k8s.hands_off import HandsOff
from k8s.lab.lab import Lab
from k8s.records import Records
from k8s.resources import NODES
from sickbay.model.command import Halt, Hindrance
from sickbay.model.contracts import HINDERED, SUPERSEDED, WAITING, Activity, AwaitGo, Done, FenceStep
from tests.activities.incidents import Incident, open_incident
from tests.conftest import AddNodes
from tests.installation import Installation, a_device
from tests.k8s import cluster

pytestmark = pytest.mark.lab


class Step:
    """Stands in for a step that cannot be undone."""

    def __init__(self) -> None:
        self.done = 0

    @effect(Activity.DELETE_FENCE)
    async def delete_fence(self, step: FenceStep) -> Done:
        """Count."""
        self.done += 1
        return Done()


@pytest.fixture
async def incident(sickbay: Installation, namespace: str, add_nodes: AddNodes) -> Incident:
    """Open an incident on a node of its own."""
    (node,) = await add_nodes(1, cluster.shape(namespace))
    return await open_incident(sickbay, a_device(), node)


async def mark(lab: Lab, node: str, value: str | None) -> None:
    """Mark a node, or take the mark off."""
    body = {"metadata": {"annotations": {"sickbay.dev/managed": value}}}
    await lab.gateway.request("PATCH", NODES.path(name=node), body=body, content_type=MERGE_PATCH)


async def hindered(guard: HindranceActivities, incident: Incident) -> Halt:
    """Try the step, which must not be carried out; say what kept it."""
    step = Step()
    with pytest.raises(ApplicationError) as raised:
        await carried_out(guard, incident, step)
    assert (raised.value.type, raised.value.non_retryable, step.done) == (HINDERED, True, 0)
    return Halt.model_validate(raised.value.details[0])


async def carried_out(guard: HindranceActivities, incident: Incident, step: Step | None = None) -> bool:
    """Try the step; say whether it was carried out."""
    step = step or Step()
    lifting = FenceStep(target=incident.target, number=1, node=incident.record.spec.node)
    await ActivityEnvironment().run(guard.before(step.delete_fence), lifting)
    return step.done == 1


async def awaited(guard: HindranceActivities, incident: Incident) -> str:
    """Ask whether the incident may go on, which it may not yet; give why."""
    step = AwaitGo(target=incident.target, node=incident.record.spec.node)
    with pytest.raises(ApplicationError) as raised:
        await ActivityEnvironment().run(guard.await_go, step)
    assert raised.value.type == WAITING
    return raised.value.message


async def test_a_pause_and_a_mark_hold_back(lab: Lab, sickbay: Installation, incident: Incident) -> None:
    """Each is seen by the very next step, told apart, waited for, and over when it is taken back."""
    guard = HindranceActivities(Records(sickbay.gateway), HandsOff(sickbay.gateway))
    control, node = ControlMap(sickbay.admin), incident.record.spec.node
    assert await carried_out(guard, incident)
    await control.pause(who="ada", why="power works")
    try:
        halt, why = await hindered(guard, incident), await awaited(guard, incident)
    finally:
        await control.resume()
    assert (halt.reason, halt.message, "ada: power works" in why) == (Hindrance.PAUSED, why, True)
    await ActivityEnvironment().run(guard.await_go, AwaitGo(target=incident.target, node=node))
    await mark(lab, node, "false")
    halt = await hindered(guard, incident)
    assert (halt.reason, node in halt.message) == (Hindrance.HANDS_OFF, True)
    assert await awaited(guard, incident) == halt.message
    await mark(lab, node, None)
    assert await carried_out(guard, incident)


async def test_an_incident_that_lost_its_record_waits_for_nothing(sickbay: Installation, incident: Incident) -> None:
    """It ends, paused or not."""
    guard = HindranceActivities(Records(sickbay.gateway), HandsOff(sickbay.gateway))
    await incident.end()
    with pytest.raises(ApplicationError) as raised:
        await ActivityEnvironment().run(guard.await_go, AwaitGo(target=incident.target))
    assert raised.value.type == SUPERSEDED


def test_a_step_that_asks_first_keeps_its_name(sickbay: Installation) -> None:
    """The worker registers it as the activity it is."""
    guard = HindranceActivities(Records(sickbay.gateway), HandsOff(sickbay.gateway))
    definition = activity._Definition.must_from_callable(guard.before(Step().delete_fence))
    assert (definition.name, definition.arg_types) == (Activity.DELETE_FENCE, [FenceStep])
