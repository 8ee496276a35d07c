"""What watcher, command line, workflows and activities agree on: names, inputs and outputs.

Each activity takes one model and returns one. Retries, time-outs and queues are in ``workflows/incident/steps.py``.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from sickbay.model.base import Name, Payload
from sickbay.model.business import Business
from sickbay.model.device import UNKNOWN_HARDWARE
from sickbay.model.incident import Ask, Target, Trial, User, Verdict
from sickbay.model.observation import Health, Observation, Reason, Seen, SourceRef
from sickbay.model.policy import Migration, Probe
from sickbay.model.record import Disowning, Phase, StandingOrders

INCIDENT_WORKFLOW: Final = "DeviceIncident"
"""Workflow type; input `IncidentState`, result `IncidentReport`."""

TITLE_MEMO: Final = "title"
"""Memo key of the incident's title: the UI's own is lost when the workflow continues as new."""

OBSERVE_SIGNAL: Final = "observe"
"""Signal, `Observed`: something was said of the device; the incident reads live before it believes it."""

STATE_QUERY: Final = "state"
"""Query, answers `IncidentState`: all that the incident knows."""

ADMITTED_SIGNAL: Final = "admitted"
"""Signal, `Admitted`: the leader has written the admission into the record and set the fence."""


class Queue(StrEnum):
    """Task queues of one cluster: ``sickbay/<cluster>/<queue>``."""

    INCIDENT = "incident"
    EFFECTS = "effects"
    WAITS = "waits"

    def of(self, cluster: str) -> str:
        """Name the task queue of this cluster."""
        return f"sickbay/{cluster}/{self}"


class Activity(StrEnum):
    """Activity types."""

    READ_DEVICE = "read_device"
    WRITE_STATUS = "write_status"
    FENCE_DEVICE = "fence_device"
    LIST_USERS = "list_users"
    EVICT_USER = "evict_user"
    AWAIT_USERS = "await_users"
    START_PROBE = "start_probe"
    AWAIT_PROBE = "await_probe"
    STOP_PROBE = "stop_probe"
    CHECK_BUSINESS = "check_business"
    UNLATCH_FENCE = "unlatch_fence"
    DELETE_FENCE = "delete_fence"
    AWAIT_FENCE_GONE = "await_fence_gone"
    RAMP_FENCE = "ramp_fence"
    CLOSE_RECORD = "close_record"
    AWAIT_GO = "await_go"


SUPERSEDED: Final = "Superseded"
"""Type of the non-retryable error of every activity whose record is no longer its incident's."""

HINDERED: Final = "Hindered"
"""Type of the benign, non-retryable error of a step that was not carried out because the installation is paused or the
node is not to be touched; its first detail is a `Halt`."""

WAITING: Final = "Waiting"
"""Type of the benign, retryable error of an activity of the ``waits`` queue: nothing has changed yet."""


class Observed(Payload):
    """Signal input.

    Attributes:
        health: the worst that was said.
        fence_lost: a fence of this incident was deleted or changed by someone else.
        disowned: its record says that the device is given up; that is read even in a pause.
        count: observations that this one stands for.
    """

    health: Health = Health.UNKNOWN
    reason: Reason = Reason.REPORTED
    message: str = ""
    fence_lost: bool = False
    disowned: bool = False
    count: int = 1
    at: datetime | None = None


class Admitted(Payload):
    """Signal input."""

    by: str = ""
    numbers: str = ""
    severity: Health = Health.UNHEALTHY


class ReadDevice(Payload):
    """Read live, past every cache: the record, the sources it names, the pods that hold the device now, the Lease.

    Attributes:
        sources: of earlier readings, read again as long as they exist.
        attribute: of the device, that names the hardware (`Probe.identity_attribute`).
        canary: number of the canary that soaks, whose own status is read too; 0 = none.
        hardware_id: that it is to be on.
    """

    target: Target
    node: str = ""
    sources: tuple[SourceRef, ...] = ()
    attribute: str = "uuid"
    canary: int = 0
    hardware_id: str = UNKNOWN_HARDWARE


class ProbeVerdict(Payload):
    """What the probe proved.

    Attributes:
        cause: CamelCase, what an inconclusive or waiting verdict is about.
        message: for people, tamed.
        resource_version: of the probe's pod as it was judged; ``""`` if it was not read.
    """

    verdict: Verdict = Verdict.INCONCLUSIVE
    cause: str = ""
    message: str = ""
    resource_version: str = ""


class Reading(Payload):
    """One live reading.

    Attributes:
        health: the worst of all sources; None if nobody reports.
        observations: what each source said.
        lease_version: resourceVersion of the node's Lease, ``""`` without one; fresh means: it moved.
        node_gone: the node no longer exists.
        node_uid: of the node, as its Lease names it; ``""`` if it does not.
        admitted: the record's admission now.
        hardware_id: identity attribute in the newest complete slices, ``unknown`` if not published.
        hardware_unique: no other device of the driver has the same.
        canary: verdict on the canary that was asked for; None while it runs and is Ready.
        disowned: who gives the device up, as the record says now.
    """

    health: Health | None = None
    reason: Reason = Reason.REPORTED
    message: str = ""
    canary: ProbeVerdict | None = None
    observations: tuple[Observation, ...] = ()
    lease_version: str = ""
    node_gone: bool = False
    node_uid: str = ""
    admitted: bool = False
    admission_numbers: str = ""
    hardware_id: str = UNKNOWN_HARDWARE
    hardware_unique: bool = False
    disowned: Disowning | None = None


class WriteStatus(Payload):
    """Write phase, counters and conditions of the record: read, and write only what differs.

    Attributes:
        trial: that may be there under ``probe_number``; None = none is.
        wants_admission: ask the leader through the condition ``WantsAdmission``.
        ask: what a person is asked, as the condition ``NeedsOperator``.
        hardware_id: as the incident knows it.
        orders: of people that hold; a pause is told as the condition ``Paused``, too.
        expires_at: of the quarantine; None = there is none.
    """

    target: Target
    phase: Phase
    verified: bool = False
    fence_number: int = 0
    fence_uid: str = ""
    probe_number: int = 0
    trial: Trial | None = None
    release_number: int = 0
    wants_admission: bool = False
    ask: Ask | None = None
    hardware_id: str = UNKNOWN_HARDWARE
    orders: StandingOrders = StandingOrders()
    expires_at: datetime | None = None


class Written(Payload):
    """The record after a status write."""

    admitted: bool = False
    admission_numbers: str = ""


class FenceDevice(Payload):
    """Make sure that fence ``number`` stands and holds.

    Attributes:
        shadow: effect None instead of NoSchedule.
        last_uid: uid of the fence this incident knows, ``""`` before the first.
        tried: number of the last trial: a ramp that is called back names its effect by it.
    """

    target: Target
    number: int
    shadow: bool = False
    last_uid: str = ""
    tried: int = 0


class Fenced(Payload):
    """The fence that holds now.

    Attributes:
        uid: of the rule.
        lost: the fence that was known is gone or terminating, by a hand that is not ours: fence again under the next
            number.
    """

    uid: str = ""
    lost: bool = False


class ListUsers(Payload):
    """Who holds the device now, joined with what was known of earlier users."""

    target: Target
    users: tuple[User, ...] = ()


class Users(Payload):
    """Users now: those still there, those gone (kept, with ``gone_at``), those replaced."""

    users: tuple[User, ...] = ()


class EvictUser(Payload):
    """Evict one pod by the Eviction API, with its uid as precondition."""

    target: Target
    user: User
    node: str = ""
    limits: Migration = Migration()


class EvictionOutcome(StrEnum):
    """What the API server's answer to an eviction means."""

    ACCEPTED = "Accepted"
    """Not gone yet: gone is by uid."""
    GONE = "Gone"
    """That uid is no longer there, or already terminating."""
    BUDGET = "Budget"
    """A disruption budget blocks it; the message names it and what would let it pass."""
    MANY_BUDGETS = "ManyBudgets"
    """Several budgets match the pod: permanent until a person mends it."""
    DENIED = "Denied"
    """An admission webhook or missing rights refused."""
    BUSY = "Busy"
    """The cluster's cap on evictions at once is reached."""
    UNMOVABLE = "Unmovable"
    """Not asked for: nothing starts the pod again any more, or a move would lose what it had not lost before."""


class Evicted(Payload):
    """Outcome of one eviction; ``uid`` is the pod's."""

    uid: Name
    outcome: EvictionOutcome
    message: str = ""
    retry_after: timedelta | None = None


class StartProbe(Payload):
    """Create claim and pod of probe or canary ``number``, for exactly this hardware, when nobody else holds the device.

    Attributes:
        image: of its container.
        lasts: after which kubelet ends it.
    """

    target: Target
    trial: Trial = Trial.PROBE
    number: int
    hardware_id: str
    node: str = ""
    image: str = Probe().image
    lasts: timedelta = Probe().timeout
    settings: Probe = Probe()


class ProbeStarted(Payload):
    """Whether the probe could be created.

    Attributes:
        waiting: why not yet (somebody holds the device), ``""`` if it is there, or came to an end.
        verdict: what it came to at once: the cluster would not have it; else None.
    """

    waiting: str = ""
    verdict: ProbeVerdict | None = None


class AwaitProbe(Payload):
    """Wait for the verdict on a probe, or on a canary's load."""

    target: Target
    trial: Trial = Trial.PROBE
    number: int
    hardware_id: str


class StopProbe(Payload):
    """Delete pod and claim of the probe or canary, by uid, and see them gone.

    Attributes:
        verdict: that the trial came to; None if it was cut short.
        cause: of the verdict, CamelCase.
        message: of the verdict, for people.
        settings: among them how many trials may prove nothing.
    """

    target: Target
    number: int
    trial: Trial = Trial.PROBE
    verdict: Verdict | None = None
    cause: str = ""
    message: str = ""
    settings: Probe = Probe()


class CheckBusiness(Payload):
    """Ask Prometheus once for its word on a device that has soaked.

    Attributes:
        node: that the device is on.
        hardware_id: of the device.
        settings: whom to ask, what, and what is good.
    """

    target: Target
    node: str = ""
    hardware_id: str = UNKNOWN_HARDWARE
    settings: Business = Business()


class BusinessVerdict(Payload):
    """What Prometheus said of the device.

    Attributes:
        verdict: pass, fail, or inconclusive: no answer that counts.
        cause: CamelCase.
        message: for people, tamed.
        value: that was answered; None without one number.
    """

    verdict: Verdict = Verdict.INCONCLUSIVE
    cause: str = ""
    message: str = ""
    value: float | None = None


class FenceStep(Payload):
    """One request of a release.

    Attributes:
        number: of the fence.
        uid: of the fence.
        release: number of this release, for the effect key ``release/<release>/<verb>``.
    """

    target: Target
    number: int
    uid: str = ""
    release: int = 0
    node: str = ""


class RampFence(Payload):
    """Let workloads that have opted in pass the fence, by its key and without a gap.

    Attributes:
        number: of the fence.
        uid: of the fence.
        canary: number of the canary that passed, for the effect key.
        node: that may be marked as not ours to manage.
    """

    target: Target
    number: int
    uid: str = ""
    canary: int = 0
    node: str = ""


class CloseRecord(Payload):
    """The last write of an incident.

    Attributes:
        hardware_id: as the incident knows it.
        disowned: who gave the device up, where that is how it ends.
    """

    target: Target
    outcome: Phase
    reason: Reason = Reason.REPORTED
    opened_at: datetime | None = None
    seen: tuple[Seen, ...] = ()
    lease_version: str = ""
    pods_version: str = ""
    hardware_id: str = UNKNOWN_HARDWARE
    disowned: Disowning | None = None


class AwaitGo(Payload):
    """Wait until neither a pause of the installation nor a mark on the node keeps the incident from its next step."""

    target: Target
    node: str = ""


class Done(Payload):
    """Nothing to say but that it is done."""

    note: Name = "done"


class Ended(Done):
    """The record is closed.

    Attributes:
        quarantined: from the admission to the end; None if the incident was never admitted.
    """

    quarantined: timedelta | None = None
