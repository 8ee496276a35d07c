"""The record: what a `DeviceQuarantine` object says, and which of its fields have which writer.

``spec`` belongs to the leader (and to a person who creates it), ``status`` and the finalizers to the incident's
activities.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final

from pydantic import Field

from sickbay.model.base import Name, Wire
from sickbay.model.device import UNKNOWN_HARDWARE, DeviceKey
from sickbay.model.observation import Health, Reason

FINALIZER: Final = "sickbay.dev/incident"
"""On record and fence: nothing of an open incident goes away behind its back."""

QUARANTINE_KEY: Final = "sickbay.dev/quarantine"
"""Taint key of a fence."""

RAMP_KEY: Final = "sickbay.dev/ramp"
"""Taint key of a fence that lets in those who have opted in."""

RAMP_STEP: Final = "ramp"
"""Step, in the effect key, that gives a fence that taint key: without it a hand did."""

TERM_ANNOTATION: Final = "sickbay.dev/term"
EFFECT_ANNOTATION: Final = "sickbay.dev/effect"
DEVICE_ANNOTATION: Final = "sickbay.dev/device"
INCIDENT_ANNOTATION: Final = "sickbay.dev/incident"

DISOWNED_BY: Final = "sickbay.dev/disowned-by"
DISOWN_REASON: Final = "sickbay.dev/disown-reason"
DISOWN_INCIDENT: Final = "sickbay.dev/disown-incident"
"""Annotations of a record by which a person gives its device up. An admission policy lets the break-glass group alone
write them, in the writer's own name, and nobody in the name of Sickbay."""


class Phase(StrEnum):
    """Where an incident stands."""

    SUSPECT = "Suspect"
    HELD = "Held"
    QUARANTINED = "Quarantined"
    EVACUATING = "Evacuating"
    RECOVERING = "Recovering"
    PROBING = "Probing"
    CANARY = "Canary"
    SOAKING = "Soaking"
    RAMPING = "Ramping"
    RELEASING = "Releasing"
    RELEASED = "Released"
    CLEARED = "Cleared"
    SUPERSEDED = "Superseded"
    RETIRED = "Retired"
    """Ended by a person; the fence stays until other hardware is in the slot."""
    DISOWNED = "Disowned"
    """Ended by a person of the break-glass group: the device is back in the pool, and nothing was proved."""
    NEEDS_OPERATOR = "NeedsOperator"
    """Open, and a person is asked; it goes on by itself when it no longer needs one."""

    @property
    def final(self) -> bool:
        """Whether an incident ends here."""
        return self in {Phase.RELEASED, Phase.CLEARED, Phase.SUPERSEDED, Phase.RETIRED, Phase.DISOWNED}


class AdmissionState(StrEnum):
    """Whether the guard lets an incident act."""

    NONE = "None"
    HELD = "Held"
    ADMITTED = "Admitted"


class Admission(Wire):
    """The guard's word on one incident.

    Attributes:
        by: ``guard``, or the person who approved.
        at: when.
        numbers: what was counted and what the limits were, in one line.
    """

    state: AdmissionState = AdmissionState.NONE
    by: str = ""
    at: datetime | None = None
    numbers: str = ""


class RecordSource(Wire):
    """One object that the decision rests on, at the resourceVersion it was seen."""

    kind: Name
    namespace: str = ""
    name: Name
    uid: Name
    resource_version: str = ""


class RecordDevice(Wire):
    """The fenced device as the DRA names it."""

    driver: Name
    pool: Name
    device: Name


class RecordSpec(Wire):
    """What the leader decided, and on what.

    Attributes:
        first_fence: number of this incident's first fence. Watcher and incident both know by it which fences are this
            incident's: those that ``status.counters.fence`` has reached from here on.
    """

    cluster: Name
    device: RecordDevice
    hardware_id: str = Field(default=UNKNOWN_HARDWARE, alias="hardwareID")
    node: str = ""
    reason: Reason = Reason.REPORTED
    message: str = ""
    severity: Health = Health.UNHEALTHY
    first_bad_at: datetime
    sources: tuple[RecordSource, ...] = ()
    lease_version: str = ""
    incident: Name
    status_version: Name
    run: int = 1
    term: int = 0
    first_fence: int = 1
    admission: Admission = Admission()
    scope: str = "device"
    policy_hash: str = ""
    namespace_id: str = Field(default="", alias="namespaceID")
    actor: str = ""

    @property
    def key(self) -> DeviceKey:
        """Identity of the device."""
        return DeviceKey(cluster=self.cluster, **self.device.model_dump(by_alias=False))


class Counters(Wire):
    """Numbers of the last effect of each kind: written before the effect, so that a repeat finds the same name."""

    fence: int = 0
    probe: int = 0
    release: int = 0


class FenceRef(Wire):
    """The fence that holds now."""

    name: str = ""
    uid: str = ""


WANTS_ADMISSION: Final = "WantsAdmission"
"""Type of the condition by which a Held incident asks the leader."""

NEEDS_OPERATOR: Final = "NeedsOperator"
"""Type of the condition by which an incident asks a person."""

PAUSED: Final = "Paused"
"""Type of the condition that tells of a person's pause of the incident; its message is who, until when and why."""

APPROVED: Final = "Approved"
"""Type of the condition by which a person approves an incident; its message is who."""


class Condition(Wire):
    """A Kubernetes condition."""

    type: Name
    status: str = "True"
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class SeenSource(Wire):
    """How far the closing read had seen one source, by uid."""

    uid: Name
    resource_version: str = ""
    digest: str = ""


class Closed(Wire):
    """How an incident ended, and what it had seen by then.

    Attributes:
        seen: each source of its last reading.
        lease_version: of the node's Lease in that reading.
        pods_version: of the pod of the probe that its release rests on: what any pod said before it was tried.
    """

    at: datetime
    outcome: Phase
    seen: tuple[SeenSource, ...] = ()
    lease_version: str = ""
    pods_version: str = ""


class PastIncident(Wire):
    """One line of the device's history.

    Attributes:
        by: who ended it without proof, ``""`` if nobody did.
        why: in that person's words.
    """

    incident: Name
    run: int = 1
    reason: Reason = Reason.REPORTED
    outcome: Phase
    opened_at: datetime
    closed_at: datetime
    by: str = ""
    why: str = ""


HISTORY_LENGTH: Final = 10
"""Past incidents kept in a record."""


class PauseOrder(Wire):
    """A pause that a person ordered; ``until`` None = until somebody resumes."""

    by: str = ""
    reason: str = ""
    since: datetime
    until: datetime | None = None


class StandingOrders(Wire):
    """What people told the incident, as far as it holds whatever becomes of its workflow's run.

    Attributes:
        kept_until: earliest end of the quarantine, as a person set it.
        kept_from: when a person first set one; the policy's bound counts from here.
        retiring: who retires the device and why; ``""`` = nobody.
    """

    pause: PauseOrder | None = None
    kept_until: datetime | None = None
    kept_from: datetime | None = None
    retiring: str = ""


class RecordStatus(Wire):
    """What the incident's activities wrote.

    Attributes:
        trial: what ``counters.probe`` numbers, a `Trial`, for as long as it may be there; ``""`` = none is.
        expires_at: when the quarantine gets too old by its policy, or ends as a person extended it; None = there is
            none.
        hardware_id: of the device as the incident knows it: the first that was read, where the spec has none.
    """

    incident: str = ""
    run: int = 0
    phase: Phase | None = None
    verified: bool = False
    hardware_id: str = Field(default=UNKNOWN_HARDWARE, alias="hardwareID")
    counters: Counters = Counters()
    trial: str = ""
    fence: FenceRef = FenceRef()
    expires_at: datetime | None = None
    orders: StandingOrders = StandingOrders()
    conditions: tuple[Condition, ...] = ()
    closed: Closed | None = None
    history: tuple[PastIncident, ...] = ()
    overruled: tuple[SeenSource, ...] = ()

    def condition(self, kind: str) -> Condition | None:
        """Find the condition of this type."""
        return next((c for c in self.conditions if c.type == kind), None)


class Disowning(Wire):
    """A person's word that a device is to go back into the pool without proof, as the record's annotations have it.

    Attributes:
        incident: that it is meant for; for the next one it says nothing.
    """

    by: Name
    reason: Name
    incident: Name


class Record(Wire):
    """A `DeviceQuarantine` as it was read.

    Attributes:
        disowning: as written, for whichever incident; `disowned` is the word that counts.
    """

    name: Name
    uid: Name
    resource_version: Name
    deleting: bool = False
    finalizers: tuple[str, ...] = ()
    disowning: Disowning | None = None
    spec: RecordSpec
    status: RecordStatus = RecordStatus()

    @property
    def closed(self) -> bool:
        """Closed means: the incident that the spec names has written its last phase."""
        status = self.status
        return status.incident == self.spec.incident and status.phase is not None and status.phase.final

    @property
    def hardware_id(self) -> str:
        """Identity of the hardware that is out of service, as leader or incident first knew it."""
        if self.spec.hardware_id != UNKNOWN_HARDWARE or self.status.incident != self.spec.incident:
            return self.spec.hardware_id
        return self.status.hardware_id

    @property
    def paused(self) -> bool:
        """Whether a person paused its incident."""
        paused = self.status.condition(PAUSED) if self.status.incident == self.spec.incident else None
        return paused is not None and paused.status == "True"

    @property
    def disowned(self) -> Disowning | None:
        """Who gives the device of the open incident up.

        The word is for one incident. Versions that name incidents start over when a database is restored: where the
        name is in the history, the word was for that one.
        """
        word, incident = self.disowning, self.spec.incident
        if word is None or word.incident != incident or self.closed:
            return None
        return None if any(past.incident == incident for past in self.status.history) else word

    @property
    def retired(self) -> bool:
        """Whether a person took the device out of service for good: its fence stays without an incident."""
        return self.closed and self.status.phase is Phase.RETIRED

    @property
    def admitted(self) -> bool:
        """Whether the incident may act."""
        return self.spec.admission.state is AdmissionState.ADMITTED
