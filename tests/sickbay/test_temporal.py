"""The door to Temporal, on its real dev server."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from temporalio import workflow
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from k8s.lab.build import ensure_binary
from k8s.lab.temporal import TemporalOptions, TemporalServer
from k8s.lab.tools import find_temporal
from sickbay import errors
from sickbay.model.contracts import ADMITTED_SIGNAL, INCIDENT_WORKFLOW, OBSERVE_SIGNAL, Admitted, Observed, Queue
from sickbay.model.device import DeviceKey
from sickbay.model.incident import IncidentState, Target
from sickbay.model.observation import Health, Reason
from sickbay.model.searching import SearchAttribute
from sickbay.model.trace import trace_id
from sickbay.temporal import Described, Standing, StartOutcome, Temporal

NOWHERE = "127.0.0.1:9"


@workflow.defn(name=INCIDENT_WORKFLOW)
class StandIn:
    """Stands in for the incident: it keeps what it is told, and ends when it is told Healthy."""

    def __init__(self) -> None:
        """Begin untold."""
        self._told: list[str] = []
        self._over = False

    @workflow.run
    async def run(self, state: IncidentState) -> list[str]:
        """Wait for the end."""
        await workflow.wait_condition(lambda: self._over)
        return [f"run {state.target.run}", *self._told]

    @workflow.signal(name=OBSERVE_SIGNAL)
    def observe(self, observed: Observed) -> None:
        """Note it."""
        self._told.append(f"observed {observed.health}")
        self._over = observed.health is Health.HEALTHY

    @workflow.signal(name=ADMITTED_SIGNAL)
    def admitted(self, admitted: Admitted) -> None:
        """Note it."""
        self._told.append(f"admitted by {admitted.by}")


async def server_in(directory: Path) -> TemporalServer:
    """Prepare a server that survives restarts."""
    say = lambda _: None  # noqa: E731 - nobody listens
    return TemporalServer(
        command=await asyncio.to_thread(find_temporal, say),
        lifeline=await asyncio.to_thread(ensure_binary, say),
        directory=directory,
        options=TemporalOptions(database=directory / "temporal.db", flags=("--headless",)),
    )


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[TemporalServer]:
    """Run a server for this module."""
    running = await server_in(tmp_path_factory.mktemp("temporal"))
    await running.start()
    yield running
    await running.kill()


@pytest.fixture
async def temporal(server: TemporalServer) -> Temporal:
    """Connect to it."""
    return Temporal(server.address)


def incident(run: int = 1) -> IncidentState:
    """Build the start of a new incident in a cluster of its own."""
    device = DeviceKey(cluster=f"c{uuid.uuid4().hex[:8]}", driver="gpu.example.com", pool="node/1", device="gpu-0")
    target = Target(device=device, incident=device.incident_id("10"), run=run, record_uid="uid-r", status_version="10")
    return IncidentState(target=target, first_bad_at=datetime(2026, 1, 10, tzinfo=UTC), message="<b>xid</b> 79")


def worker(client: Client, state: IncidentState) -> Worker:
    """Run the stand-in for one cluster."""
    return Worker(
        client,
        task_queue=Queue.INCIDENT.of(state.target.device.cluster),
        workflows=[StandIn],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )


async def test_one_workflow_per_incident(temporal: Temporal) -> None:
    """A hundred starts of one incident at once make one workflow; the others are told that it runs."""
    state = incident()
    outcomes = await asyncio.gather(*(temporal.start_incident(state) for _ in range(100)))
    assert sorted(outcomes) == [StartOutcome.ALREADY_RUNNING] * 99 + [StartOutcome.STARTED]
    assert await temporal.describe(state.target.incident) == Described(Standing.RUNNING, run=1, record_uid="uid-r")


async def test_closed_incident_may_be_started_again(temporal: Temporal) -> None:
    """Signals arrive; an ended run says which it was, refuses signals, and the next run takes the same id."""
    state = incident()
    name = state.target.incident
    async with worker(await temporal.client(), state):
        await temporal.start_incident(state)
        assert await temporal.observe(name, Observed(health=Health.UNHEALTHY))
        assert await temporal.admitted(name, Admitted(by="guard"))
        assert await temporal.observe(name, Observed(health=Health.HEALTHY))
        told = await (await temporal.client()).get_workflow_handle(name).result()
        assert told == ["run 1", "observed Unhealthy", "admitted by guard", "observed Healthy"]
        assert await temporal.describe(name) == Described(Standing.CLOSED, run=1, record_uid="uid-r")
        assert not await temporal.observe(name, Observed())
    again = state.model_copy(update={"target": state.target.model_copy(update={"run": 2})})
    assert await temporal.start_incident(again) is StartOutcome.STARTED
    assert (await temporal.describe(name)).run == 2


async def test_unknown_incident_is_an_answer(temporal: Temporal) -> None:
    """What was never started is not found, and cannot be told anything."""
    assert await temporal.describe("incident/none") == Described(Standing.NOT_FOUND)
    assert not await temporal.observe("incident/none", Observed())
    assert not await temporal.admitted("incident/none", Admitted())


async def test_page_of_an_incident_says_what_it_is_about(temporal: Temporal) -> None:
    """Summary and details name device, node and reason; text of the cluster is escaped."""
    state = incident()
    await temporal.start_incident(state)
    description = await (await temporal.client()).get_workflow_handle(state.target.incident).describe()
    assert await description.static_summary() == "gpu-0 on node/1: Unhealthy (Reported)"
    details = await description.static_details() or ""
    assert "bxid/b 79" in details
    assert state.target.device.record_name in details
    assert details.endswith(f"- **Trace**: {trace_id(state.target.incident)}")


async def test_page_of_an_incident_leads_to_its_trace(server: TemporalServer) -> None:
    """Where somebody said where traces are shown, the id is a link, and the incident has it for its own details."""
    temporal = Temporal(server.address, trace_url="http://jaeger/trace/{trace_id}")
    state = incident()
    await temporal.start_incident(state)
    handle = (await temporal.client()).get_workflow_handle(state.target.incident)
    link = f"http://jaeger/trace/{trace_id(state.target.incident)}"
    assert f"]({link})" in (await (await handle.describe()).static_details() or "")
    history = await handle.fetch_history()
    started = history.events[0].workflow_execution_started_event_attributes.input.payloads[0]
    assert IncidentState.model_validate_json(started.data).trace_url == link


async def test_calls_are_told_by_how_they_were_answered(server: TemporalServer) -> None:
    """That nobody knows a workflow is an answer; that nobody answers is none."""
    told: list[str] = []
    await Temporal(server.address, told=told.append).describe("incident/none")
    await Temporal(server.address, told=told.append).namespace_id()
    assert not await Temporal(NOWHERE, told=told.append).reachable()
    assert told == ["NotFound", "Ok", "TemporalUnavailable"]


async def test_eager_start_needs_no_poll(server: TemporalServer) -> None:
    """With a worker on the same client the first task comes with the answer."""
    temporal = Temporal(server.address, eager=True)
    state = incident()
    async with worker(await temporal.client(), state):
        await temporal.start_incident(state)
        handle = (await temporal.client()).get_workflow_handle(state.target.incident)
        history = await handle.fetch_history()
        assert history.events[0].workflow_execution_started_event_attributes.eager_execution_accepted


async def test_paused_workflow_counts_as_running(tmp_path: Path) -> None:
    """A status that the client cannot decode is somebody's doing, and no reason to start anything."""
    server = await server_in(tmp_path)
    server._options = TemporalOptions(
        flags=("--headless", "--dynamic-config-value", "frontend.WorkflowPauseEnabled=true")
    )
    await server.start()
    try:
        temporal, state = Temporal(server.address), incident()
        await temporal.start_incident(state)
        command = await asyncio.create_subprocess_exec(
            *(server._command, "workflow", "pause", "--address", server.address),
            *("--workflow-id", state.target.incident, "--reason", "test"),
            stdout=asyncio.subprocess.DEVNULL,
        )
        assert await command.wait() == 0
        assert await temporal.describe(state.target.incident) == Described(Standing.RUNNING)
    finally:
        await server.kill()


async def test_connecting_is_lazy_and_absence_is_told() -> None:
    """Without a server nothing fails before the first call, and that one names where it tried."""
    temporal = Temporal(NOWHERE)
    with pytest.raises(errors.TemporalUnavailable, match="connect"):
        await temporal.client()
    assert not await temporal.reachable()
    with pytest.raises(errors.TemporalUnavailable, match=NOWHERE):
        await temporal.start_incident(incident())
    with pytest.raises(errors.TemporalUnavailable):
        await temporal.describe("incident/none")
    with pytest.raises(errors.TemporalUnavailable):
        await temporal.observe("incident/none", Observed())


async def test_missing_namespace_is_not_a_missing_workflow(server: TemporalServer) -> None:
    """A namespace that is not there must not make every incident look lost."""
    temporal = Temporal(server.address, namespace="nowhere")
    with pytest.raises(errors.TemporalUnavailable, match="nowhere"):
        await temporal.describe("incident/none")


async def test_server_may_end_and_come_back(tmp_path: Path) -> None:
    """A dead server is told within the call's time, and the same connection works when it is back."""
    server = await server_in(tmp_path)
    await server.start()
    temporal, state = Temporal(server.address), incident()
    try:
        before = await temporal.namespace_id()
        await temporal.start_incident(state)
        await server.kill()
        began = asyncio.get_running_loop().time()
        with pytest.raises(errors.TemporalUnavailable):
            await temporal.describe(state.target.incident)
        assert asyncio.get_running_loop().time() - began < timedelta(seconds=6).total_seconds()
        await server.start()
        while not await temporal.reachable():
            pass
        assert await temporal.namespace_id() == before
        assert (await temporal.describe(state.target.incident)).standing is Standing.RUNNING
    finally:
        await server.kill()


async def test_a_word_that_is_too_long_is_no_outage(temporal: Temporal) -> None:
    """One incident cannot be told; that says nothing about the others, nor about Temporal."""
    state = incident(run=7)
    await temporal.start_incident(state)
    too_long = Observed(
        health=Health.UNHEALTHY, reason=Reason.REPORTED, message="x" * 3_000_000, at=datetime(2026, 1, 10, tzinfo=UTC)
    )
    with pytest.raises(errors.TemporalRefused, match="INVALID_ARGUMENT"):
        await temporal.observe(state.target.incident, too_long)
    assert await temporal.reachable()


async def test_search_attributes_are_left_out_until_they_are_registered(server: TemporalServer) -> None:
    """An incident starts without them; registering is safe to repeat; then incidents are told of them."""
    temporal, state = Temporal(server.address), incident()
    assert await temporal.look_up_attributes() == ()
    assert await temporal.start_incident(state) is StartOutcome.STARTED
    for _ in range(2):
        assert await temporal.register_attributes() == {}
    assert await temporal.look_up_attributes() == tuple(SearchAttribute)
    again = incident()
    assert await temporal.start_incident(again) is StartOutcome.STARTED
    assert [await told_searchable(temporal, s) for s in (state, again)] == [(), tuple(SearchAttribute)]


async def told_searchable(temporal: Temporal, state: IncidentState) -> tuple[str, ...]:
    """Read what an incident was started with."""
    client = await temporal.client()
    events = (await client.get_workflow_handle(state.target.incident).fetch_history()).events
    payloads = events[0].workflow_execution_started_event_attributes.input.payloads
    (given,) = await client.data_converter.decode(payloads, [IncidentState])
    return tuple(given.searchable)


async def test_a_full_namespace_takes_as_many_as_it_has_room_for(tmp_path: Path) -> None:
    """The first are the most useful; what is refused is named with the server's reason, and is not used."""
    server = await server_in(tmp_path)
    await server.start()
    try:
        temporal = Temporal(server.address)
        keywords = {f"Other{i}": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD for i in range(8)}
        request = AddSearchAttributesRequest(namespace="default", search_attributes=keywords)
        await (await temporal.client()).operator_service.add_search_attributes(request)
        refused = await temporal.register_attributes()
        assert tuple(refused) == tuple(SearchAttribute)[2:]
        assert all("cannot have more than 10" in why for why in refused.values())
        assert await temporal.look_up_attributes() == tuple(SearchAttribute)[:2]
    finally:
        await server.kill()
