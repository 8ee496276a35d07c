"""The only door to Temporal outside workflows and workers.

Connecting is left to the first call, so that a process starts without Temporal. Whatever keeps a call from being
answered is `TemporalUnavailable`; that a workflow is not there, or is already there, is an answer; what this one call
cannot get, and others can, is `TemporalRefused`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final, TypeVar

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    DescribeTaskQueueRequest,
    GetSystemInfoRequest,
)
from temporalio.client import (
    Client,
    TLSConfig,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from sickbay import visibility
from sickbay.errors import TemporalRefused, TemporalUnavailable
from sickbay.model.base import Payload, format_time, tamed
from sickbay.model.command import COMMAND_UPDATE, Answer, Command
from sickbay.model.contracts import (
    ADMITTED_SIGNAL,
    INCIDENT_WORKFLOW,
    OBSERVE_SIGNAL,
    STATE_QUERY,
    TITLE_MEMO,
    Admitted,
    Observed,
    Queue,
)
from sickbay.model.incident import IncidentReport, IncidentState
from sickbay.model.searching import SearchAttribute
from sickbay.model.trace import trace_id, trace_link

T = TypeVar("T")

CALL_TIMEOUT: Final = timedelta(seconds=5)
"""For one call, connecting and the client's own retries included."""

ANSWER_TIMEOUT: Final = timedelta(seconds=10)
"""For the answer of an incident, whose worker may have to replay it first."""

TASK_TIMEOUT: Final = timedelta(seconds=5)
"""Workflow task time-out: an eagerly started task that died with its process is given out again after this (the
default is 10 s). Shorter ones expire on a busy server."""

ABOUT_ONE_CALL: Final = frozenset(
    {RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.FAILED_PRECONDITION, RPCStatusCode.OUT_OF_RANGE}
)
"""Answers that would be the same from any frontend, and that say nothing about other workflows."""

METADATA_QUERY: Final = "__temporal_workflow_metadata"
"""The query behind a workflow's details in the Temporal UI."""

OK: Final = "Ok"
NOT_FOUND: Final = "NotFound"
"""Outcome of a call that was answered so; that no such workflow runs is an answer too."""

RUN_MEMO: Final = "run"
RECORD_MEMO: Final = "record"


class StartOutcome(StrEnum):
    """Answer to a start."""

    STARTED = "Started"
    ALREADY_RUNNING = "AlreadyRunning"
    """Its id is in use by an open workflow."""


class Standing(StrEnum):
    """Whether an incident's workflow is there."""

    NOT_FOUND = "NotFound"
    """Never started, or past the namespace's retention."""
    RUNNING = "Running"
    CLOSED = "Closed"


@dataclass(frozen=True, slots=True)
class Described:
    """What Temporal knows of the last workflow of an incident id.

    Attributes:
        run: number of the run in its record; None if it cannot be read.
        record_uid: uid of that record; None if it cannot be read.
    """

    standing: Standing
    run: int | None = None
    record_uid: str | None = None


class Temporal:
    """One Temporal namespace."""

    def __init__(
        self,
        address: str,
        *,
        namespace: str = "default",
        tls: TLSConfig | bool = False,
        api_key: str | None = None,
        eager: bool = False,
        trace_url: str = "",
        told: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Prepare; the first call connects.

        Args:
            address: ``host:port`` of the frontend.
            namespace: of the incidents.
            tls: whether and how to speak TLS.
            api_key: of Temporal Cloud.
            eager: ask that the first task of a new workflow be given to a worker on this very client (see `client`),
                which saves a round trip; without such a worker the server ignores it.
            trace_url: template of the address of an incident's trace, for its details; ``""`` = no link.
            told: hears of each call how it was answered, `OK` or the class of an error.
        """
        self._address = address
        self._namespace = namespace
        self._tls = tls
        self._api_key = api_key
        self._eager = eager
        self._trace_url = trace_url
        self._told = told
        self._client: Client | None = None
        self._searchable: tuple[SearchAttribute, ...] | None = None
        self._connecting = asyncio.Lock()

    async def client(self) -> Client:
        """Give the connected client, for workers of this process: a lazy one cannot serve them.

        Raises:
            TemporalUnavailable: it cannot be connected now; call again.
        """
        return await self._answered(_itself)

    @property
    def where(self) -> str:
        """Frontend and namespace, for messages."""
        return f"{self._address}, namespace {self._namespace!r}"

    async def namespace_id(self) -> str:
        """Read the id of the namespace: a new database has a new one.

        Raises:
            TemporalUnavailable: no answer, or there is no such namespace.
        """
        request = DescribeNamespaceRequest(namespace=self._namespace)
        answer = await self._answered(lambda c: c.workflow_service.describe_namespace(request, timeout=CALL_TIMEOUT))
        return answer.namespace_info.id

    async def reachable(self) -> bool:
        """Say whether the namespace answers now."""
        try:
            await self.namespace_id()
        except TemporalUnavailable:
            return False
        return True

    async def look_up_attributes(self) -> tuple[SearchAttribute, ...]:
        """Ask which of our search attributes the namespace knows: incidents that start from now on use those.

        Raises:
            TemporalUnavailable: no answer.
        """
        self._searchable = await self._answered(visibility.known)
        return self._searchable

    async def register_attributes(self) -> dict[SearchAttribute, str]:
        """Register our search attributes in the namespace; safe to repeat. Give those that it refuses, and why.

        Raises:
            TemporalUnavailable: no answer.
        """
        return await visibility.register(self._answered)

    async def start_incident(self, state: IncidentState) -> StartOutcome:
        """Start the workflow that a record names; one that runs under that id is left alone.

        The id is a name and the record is the lock, so a closed workflow of the same id is no obstacle.

        Raises:
            TemporalUnavailable: no answer; it may have been started all the same.
            TemporalRefused: it is not taken.
        """
        if self._searchable is None:
            with suppress(TemporalUnavailable, TemporalRefused):  # better one that nobody finds in the list than none
                await self.look_up_attributes()
        target = state.target
        state = state.model_copy(
            update={
                "searchable": self._searchable or (),
                "trace_url": trace_link(self._trace_url, target.incident),
            }
        )
        try:
            await self._answered(
                lambda client: client.start_workflow(
                    INCIDENT_WORKFLOW,
                    state,
                    id=target.incident,
                    task_queue=Queue.INCIDENT.of(target.device.cluster),
                    id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                    id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                    task_timeout=TASK_TIMEOUT,
                    memo={RUN_MEMO: target.run, RECORD_MEMO: target.record_uid, TITLE_MEMO: state.title},
                    static_summary=state.title,
                    static_details=_details(state),
                    request_eager_start=self._eager,
                    rpc_timeout=CALL_TIMEOUT,
                )
            )
        except WorkflowAlreadyStartedError:
            return StartOutcome.ALREADY_RUNNING
        return StartOutcome.STARTED

    async def describe(self, incident: str) -> Described:
        """Tell whether an incident's workflow runs, by its id; visibility lags and is never asked.

        Raises:
            TemporalUnavailable: no answer.
        """
        try:
            description = await self._answered(
                lambda client: client.get_workflow_handle(incident).describe(rpc_timeout=CALL_TIMEOUT)
            )
        except _NotFoundError:
            return Described(Standing.NOT_FOUND)
        except ValueError:
            # A status this client does not know, such as Paused (8): somebody keeps it, so it is not ours to start.
            return Described(Standing.RUNNING)
        running = description.status in {WorkflowExecutionStatus.RUNNING, None}
        try:
            memo = await description.memo()
        except (ValueError, RuntimeError):  # payloads of another converter
            memo = {}
        run, record_uid = memo.get(RUN_MEMO), memo.get(RECORD_MEMO)
        return Described(
            Standing.RUNNING if running else Standing.CLOSED,
            run=run if isinstance(run, int) else None,
            record_uid=record_uid if isinstance(record_uid, str) else None,
        )

    async def headline(self, incident: str) -> str:
        """Read where an incident says it stands, what it does or waits for and why; ``""`` if it cannot be asked now.

        It is the first line of the details that the Temporal UI shows, and takes a worker to answer.
        """
        try:
            metadata = await self._answered(
                lambda client: client.get_workflow_handle(incident).query(
                    METADATA_QUERY, result_type=WorkflowMetadata, rpc_timeout=CALL_TIMEOUT
                )
            )
        except (TemporalUnavailable, TemporalRefused, _NotFoundError, WorkflowQueryFailedError):
            return ""
        line = str(metadata.current_details).partition("\n")[0].lstrip("# ")
        return re.sub(r"\\([*_~\\@.])", r"\1", line)  # as Markdown is read

    async def state(self, incident: str) -> IncidentState | None:
        """Read all that a running incident knows; None if it does not say. It takes a worker to answer.

        Raises:
            TemporalUnavailable: no answer: no frontend, or no worker.
        """
        try:
            return await self._answered(
                lambda client: client.get_workflow_handle(incident).query(
                    STATE_QUERY, result_type=IncidentState, rpc_timeout=CALL_TIMEOUT
                )
            )
        except (TemporalRefused, _NotFoundError, WorkflowQueryFailedError, ValueError):  # an answer that is no state
            return None

    async def report(self, incident: str) -> IncidentReport | None:
        """Read the report of an ended incident; None if it left none, or nobody remembers it.

        Raises:
            TemporalUnavailable: no answer, or it still runs.
        """
        try:
            return await self._answered(
                lambda client: client.get_workflow_handle(incident, result_type=IncidentReport).result(
                    rpc_timeout=CALL_TIMEOUT
                )
            )
        except (TemporalRefused, _NotFoundError, WorkflowFailureError, ValueError):  # a result that is no report
            return None

    async def version(self) -> str:
        """Read the version of the server.

        Raises:
            TemporalUnavailable: no answer.
        """
        answer = await self._answered(
            lambda client: client.workflow_service.get_system_info(GetSystemInfoRequest(), timeout=CALL_TIMEOUT)
        )
        return answer.server_version

    async def polled(self, queue: str) -> bool:
        """Say whether a worker has asked for the workflow tasks of this queue in the last minutes.

        Raises:
            TemporalUnavailable: no answer.
        """
        request = DescribeTaskQueueRequest(
            namespace=self._namespace,
            task_queue=TaskQueue(name=queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
        answer = await self._answered(lambda c: c.workflow_service.describe_task_queue(request, timeout=CALL_TIMEOUT))
        return bool(answer.pollers)

    async def observe(self, incident: str, observed: Observed) -> bool:
        """Tell an incident that something was said; False if it does not run.

        Raises:
            TemporalUnavailable: no answer; the signal may have arrived.
            TemporalRefused: it is not taken: too long, or one too many for this workflow.
        """
        return await self._signal(incident, OBSERVE_SIGNAL, observed)

    async def admitted(self, incident: str, admitted: Admitted) -> bool:
        """Tell an incident that it may act; False if it does not run.

        Raises:
            TemporalUnavailable: no answer; the signal may have arrived.
            TemporalRefused: it is not taken: too long, or one too many for this workflow.
        """
        return await self._signal(incident, ADMITTED_SIGNAL, admitted)

    async def command(self, incident: str, command: Command) -> Answer | None:
        """Give an incident a command and have its answer; None if it does not run.

        Raises:
            TemporalUnavailable: no answer; it may have been applied: the same command once more tells.
            TemporalRefused: it is not taken at all; the text says why.
        """
        try:
            return await self._answered(
                lambda client: client.get_workflow_handle(incident).execute_update(
                    COMMAND_UPDATE, command, id=command.id, result_type=Answer, rpc_timeout=ANSWER_TIMEOUT
                ),
                within=ANSWER_TIMEOUT + CALL_TIMEOUT,
            )
        except _NotFoundError:
            return None
        except WorkflowUpdateRPCTimeoutOrCancelledError as error:
            raise TemporalUnavailable(
                f"Temporal at {self.where} took the command, and no worker answers: see that 'sickbay run' or 'sickbay "
                "worker' runs; the command is applied when one does"
            ) from error
        except WorkflowUpdateFailedError as error:
            raise TemporalRefused(tamed(f"the incident does not take it: {error.cause}", 400)) from error

    async def _signal(self, incident: str, signal: str, argument: Payload) -> bool:
        try:
            await self._answered(
                lambda client: client.get_workflow_handle(incident).signal(signal, argument, rpc_timeout=CALL_TIMEOUT)
            )
        except _NotFoundError:
            return False
        return True

    async def _answered(self, call: Callable[[Client], Awaitable[T]], *, within: timedelta = CALL_TIMEOUT) -> T:
        try:
            answer = await self._translated(call, within)
        except (TemporalUnavailable, TemporalRefused) as error:
            self._told(type(error).__name__)
            raise
        except _NotFoundError:
            self._told(NOT_FOUND)
            raise
        self._told(OK)
        return answer

    async def _translated(self, call: Callable[[Client], Awaitable[T]], within: timedelta) -> T:
        """Translate what keeps a call from being answered; the only place that knows RPC errors."""
        try:
            async with asyncio.timeout(within.total_seconds()):
                return await call(await self._connected())
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND and not _is_about_namespace(error):
                raise _NotFoundError(str(error)) from error
            kind = TemporalRefused if error.status in ABOUT_ONE_CALL else TemporalUnavailable
            raise kind(f"Temporal at {self.where}: {error.status.name}: {error.message}") from error
        except TimeoutError as error:
            seconds = CALL_TIMEOUT.total_seconds()
            raise TemporalUnavailable(f"Temporal at {self.where}: no answer in {seconds:g} s") from error
        except RuntimeError as error:
            # It has no class of its own.
            if not str(error).startswith("Failed client connect"):
                raise
            told = re.search(r'message: "([^"]+)"', str(error))
            cause = told[1] if told else str(error)
            raise TemporalUnavailable(f"Temporal at {self.where}: cannot connect: {cause}") from error

    async def _connected(self) -> Client:
        if self._client is None:
            async with self._connecting:
                if self._client is None:
                    self._client = await Client.connect(
                        self._address,
                        namespace=self._namespace,
                        tls=self._tls,
                        api_key=self._api_key,
                        connect_timeout=CALL_TIMEOUT,
                        data_converter=pydantic_data_converter,
                    )
        return self._client


async def _itself(client: Client) -> Client:
    return client


class _NotFoundError(Exception):
    """No workflow of that id, or none that runs."""


def _is_about_namespace(error: RPCError) -> bool:
    """A namespace that is not there makes every workflow look lost, and must not start one anew."""
    return any("NamespaceNotFound" in detail.type_url for detail in error.grpc_status.details)


def _details(state: IncidentState) -> str:
    """What does not change, for the page of the workflow in Temporal's UI; cluster texts are escaped."""
    device = state.target.device
    facts = {
        "Device": f"{device.driver} / {device.pool} / {device.device}",
        "Cluster": device.cluster,
        "Node": state.node or "unknown",
        "Hardware": state.hardware_id,
        "First bad": format_time(state.first_bad_at),
        "Said": state.message or str(state.severity),
        "Record": f"kubectl get dq {device.record_name}",
        "Policy": f"{state.policy.mode}, {state.policy.digest}",
        "Run": str(state.target.run),
    }
    lines = [f"- **{name}**: {tamed(value)}" for name, value in facts.items()]
    trace = trace_id(state.target.incident)
    link = f"[{trace}]({state.trace_url})" if state.trace_url else trace
    return "\n".join([*lines, f"- **Trace**: {link}"])
