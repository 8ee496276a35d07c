"""Under what an incident is found in Temporal's list, and when that is written."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.common import SearchAttributePair, TypedSearchAttributes
from temporalio.testing import WorkflowEnvironment

from sickbay.model import contracts as c
from sickbay.model.incident import IncidentState, Verdict
from sickbay.model.record import Phase
from sickbay.model.searching import LONGEST, SearchAttribute
from sickbay.temporal import Temporal
from tests.builders import NOW, incident, policy, target
from tests.sickbay.test_temporal import server_in
from tests.workflows.incident.test_workflow import Handle, begin, working
from tests.workflows.incident.world import World
from workflows.incident.filing import KEYS, updates

ALL = tuple(SearchAttribute)
NOTHING = TypedSearchAttributes([])


def filed(state: IncidentState, before: TypedSearchAttributes = NOTHING, **more: Any) -> dict[str, str]:
    """Name and value of what is written."""
    return {update.key.name: str(update.value) for update in updates(state, before, **more)}


def test_nothing_is_written_before_the_fence() -> None:
    """It would be in its way; an incident that is not admitted has no fence to wait for."""
    assert filed(incident(searchable=ALL)) == {}
    assert filed(incident(searchable=ALL, admitted=False, phase=Phase.HELD))["SickbayPhase"] == "Held"
    assert filed(incident(searchable=ALL, fenced_at=NOW, phase=Phase.QUARANTINED)) == {
        "SickbayPhase": "Quarantined",
        "SickbayDevice": "gpu.sickbay.dev/node-1/gpu-3",
        "SickbayNode": "node-1",
        "SickbayReason": "Reported",
        "SickbayCluster": "lab",
    }


def test_one_write_per_phase_and_only_what_is_new() -> None:
    """The same phase writes nothing; the next one writes the phase alone; the end writes the outcome too."""
    state = incident(searchable=ALL, fenced_at=NOW, phase=Phase.QUARANTINED)
    before = TypedSearchAttributes([SearchAttributePair(u.key, u.value) for u in updates(state, NOTHING)])
    assert filed(state, before) == {}
    assert filed(state.model_copy(update={"phase": Phase.EVACUATING}), before) == {"SickbayPhase": "Evacuating"}
    assert filed(state, before, outcome=Phase.RELEASED) == {"SickbayPhase": "Released", "SickbayOutcome": "Released"}


def test_what_the_namespace_does_not_know_is_left_out() -> None:
    """One unknown attribute would fail the workflow's task again and again."""
    state = incident(fenced_at=NOW, phase=Phase.QUARANTINED)
    assert filed(state) == {}
    assert filed(state.model_copy(update={"searchable": ("SickbayNode", "Other")})) == {"SickbayNode": "node-1"}


def test_long_and_empty_values() -> None:
    """A column has a width, and a node may be unknown."""
    device = target().device.model_copy(update={"pool": "p" * 300})
    state = incident(target=target(device), searchable=ALL, fenced_at=NOW, node="")
    assert len(filed(state)["SickbayDevice"]) == LONGEST
    assert "SickbayNode" not in filed(state)


async def test_a_whole_incident_writes_once_per_phase(tmp_path: Path) -> None:
    """On the real server: none before the fence is verified, none twice, through continue-as-new, up to the outcome."""
    server = await server_in(tmp_path)
    await server.start()
    try:
        temporal = Temporal(server.address)
        assert await temporal.register_attributes() == {}
        environment = WorkflowEnvironment.from_client(await temporal.client())
        world = World()
        world.health = None
        world.verdicts = [Verdict.FAIL, Verdict.PASS]
        times = {"soak": {"time": "100ms", "check": "100ms"}, "ramp": {"time": "100ms", "check": "100ms"}}
        quick = policy(settle="0s", confirm="0s", stable="0s", probe={"first": "1s", "factor": 1}, **times)
        async with working(environment, world):
            handle = await begin(environment, searchable=ALL, max_events=20, policy=quick)
            await asyncio.wait_for(handle.result(), 60)
            events = await history(environment, handle)
            last = await environment.client.get_workflow_handle(handle.id).describe()
    finally:
        await server.kill()
    kinds = [event.event_type for event in events]
    assert EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW in kinds
    assert EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED not in kinds
    first = kinds.index(UPSERT)
    done = [e.activity_task_scheduled_event_attributes.activity_type.name for e in events[:first]]
    assert c.Activity.FENCE_DEVICE in done
    phases = [phase for event in events if (phase := phase_of(event))]
    assert len(phases) == kinds.count(UPSERT)
    assert all(a != b for a, b in itertools.pairwise(phases))
    assert phases[0] == Phase.QUARANTINED
    assert phases[-2:] == [Phase.RELEASING, Phase.RELEASED]
    found = {key.name: last.typed_search_attributes.get(key) for key in KEYS.values()}
    assert (found["SickbayPhase"], found["SickbayOutcome"], found["SickbayNode"]) == ("Released", "Released", "node-1")


UPSERT = EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES


async def history(environment: WorkflowEnvironment, handle: Handle) -> list[HistoryEvent]:
    """Read the events of all runs of a workflow."""
    events: list[HistoryEvent] = []
    run = handle.first_execution_run_id or ""
    while run:
        part = (await environment.client.get_workflow_handle(handle.id, run_id=run).fetch_history()).events
        events += part
        run = part[-1].workflow_execution_continued_as_new_event_attributes.new_execution_run_id
    return events


def phase_of(event: HistoryEvent) -> str:
    """Read the phase that an event writes into the list, ``""`` for any other event."""
    fields = event.upsert_workflow_search_attributes_event_attributes.search_attributes.indexed_fields
    return str(json.loads(fields["SickbayPhase"].data)) if "SickbayPhase" in fields else ""
