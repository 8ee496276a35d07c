"""What Temporal tells of an incident, on its real server."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from temporalio.worker import Worker

from k8s.lab.lab import Lab
from sickbay import temporal as module
from sickbay.cli.look.told import ask
from sickbay.model.contracts import Queue
from sickbay.model.device import DeviceKey
from sickbay.model.incident import IncidentState
from sickbay.model.record import Phase
from sickbay.temporal import Temporal
from tests.builders import DEVICE, incident, target
from tests.workflows.incident.world import World
from workers.sandbox import workflow_runner
from workflows.incident.workflow import DeviceIncident

pytestmark = pytest.mark.lab


@pytest.fixture
def temporal(lab: Lab) -> Temporal:
    """The lab's Temporal."""
    return Temporal(lab.temporal.address)


def a_state() -> IncidentState:
    """Build an incident in a cluster of its own, so that no other worker takes it."""
    device = DeviceKey(**DEVICE.model_dump() | {"cluster": f"c{uuid.uuid4().hex[:8]}"})
    return incident(target=target(device))


@asynccontextmanager
async def working(temporal: Temporal, state: IncidentState, world: World | None = None) -> AsyncIterator[None]:
    """Run this cluster's incidents; without a world their activities are never carried out."""
    client, cluster = await temporal.client(), state.target.device.cluster
    incidents = Worker(
        client,
        task_queue=Queue.INCIDENT.of(cluster),
        workflows=[DeviceIncident],
        workflow_runner=workflow_runner(),
    )
    if world is None:
        async with incidents:
            yield
        return
    effects = Worker(client, task_queue=Queue.EFFECTS.of(cluster), activities=world.activities)
    async with incidents, effects:
        yield


async def test_a_running_incident_tells_all_it_knows(temporal: Temporal) -> None:
    """Where it stands in one line, and its whole state."""
    state = a_state()
    await temporal.start_incident(state)
    async with working(temporal, state):
        told = await ask(temporal, state.target.incident)
        assert await temporal.polled(Queue.INCIDENT.of(state.target.device.cluster))
    assert told.problem == ""
    assert told.headline == "Suspect: reads the device live"
    assert told.state is not None
    assert told.state.target == state.target


async def test_without_a_worker_it_is_said_that_nobody_answers(
    temporal: Temporal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workflow is there, but it takes a worker to ask it."""
    state = a_state()
    await temporal.start_incident(state)
    assert not await temporal.polled(Queue.INCIDENT.of(state.target.device.cluster))
    monkeypatch.setattr(module, "CALL_TIMEOUT", timedelta(seconds=1))
    told = await ask(temporal, state.target.incident)
    assert "is a worker running?" in told.problem
    assert told.state is None


async def test_an_ended_incident_is_told_by_its_report(temporal: Temporal) -> None:
    """No worker is needed any more."""
    state, world = a_state(), World()
    world.superseded = True
    await temporal.start_incident(state)
    async with working(temporal, state, world):
        await (await temporal.client()).get_workflow_handle(state.target.incident).result()
    told = await ask(temporal, state.target.incident)
    assert told.problem == ""
    assert told.report is not None
    assert told.report.outcome is Phase.SUPERSEDED
    assert told.timeline == told.report.timeline


async def test_one_ended_by_hand_left_no_report(temporal: Temporal) -> None:
    """A terminated workflow is told as such."""
    state = a_state()
    await temporal.start_incident(state)
    await (await temporal.client()).get_workflow_handle(state.target.incident).terminate()
    told = await ask(temporal, state.target.incident)
    assert told.problem == "its workflow was ended by hand, and left no report"


async def test_what_nobody_knows_is_told(temporal: Temporal) -> None:
    """A workflow past the namespace's retention, or of another Temporal; and one that does not answer."""
    assert "has no such workflow" in (await ask(temporal, "incident/none")).problem
    assert "cannot connect" in (await ask(Temporal("127.0.0.1:9"), "incident/none")).problem


async def test_the_server_names_its_version(temporal: Temporal) -> None:
    """As the doctor shows it."""
    assert (await temporal.version()).count(".") == 2
