"""The state of one incident: all that its workflow knows, and its continue-as-new input."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final

from pydantic import Field

from sickbay.model.base import Name, Payload, tamed
from sickbay.model.business import Checking
from sickbay.model.command import Orders
from sickbay.model.device import UNKNOWN_HARDWARE, DeviceKey
from sickbay.model.observation import Health, Observation, Reason
from sickbay.model.policy import Policy
from sickbay.model.record import Phase

TITLE_BYTES: Final = 200

TIMELINE_LENGTH: Final = 40
"""Lines of the incident's own kept in state; the rest is in the workflow's history and in the log."""


class Target(Payload):
    """Whose record an effect acts for. Every effect reads that record first and stops if it is no longer this one's."""

    device: DeviceKey
    incident: Name
    run: int
    record_uid: Name
    status_version: Name

    def effect_key(self, step: str, n: int) -> str:
        """Name one effect, the same after any restart: ``<device>/<status version>/<step>/<n>``."""
        return f"{self._steps(step)}{n}"

    def took(self, step: str, effect_key: str) -> bool:
        """Say whether an effect key names this step of this incident, whatever its number."""
        return effect_key.startswith(self._steps(step))

    def _steps(self, step: str) -> str:
        return f"{self.device}/{self.status_version}/{step}/"


class Verdict(StrEnum):
    """What a probe proved."""

    PASS = "pass"  # noqa: S105 - not a password
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    WAITING = "waiting"
    """It could not run; no attempt was used."""


class Trial(StrEnum):
    """What a device is tried with; both are a pod with a claim of its own, numbered in one row."""

    PROBE = "probe"
    """A test that ends with a verdict."""
    CANARY = "canary"
    """A load that stays on the device through the soak."""


class Proof(StrEnum):
    """How far a device has proved itself since it was last found bad."""

    NONE = "None"
    PROBED = "Probed"
    SOAKED = "Soaked"
    """Canary, soak and, if there is one, business check passed: what is left is the ramp."""


class UserState(StrEnum):
    """Where one user of the device stands."""

    FOUND = "Found"
    BLOCKED = "Blocked"
    """Its eviction was refused; it is tried again."""
    EVICTED = "Evicted"
    """Accepted, which is not gone."""
    GONE = "Gone"
    REPLACED = "Replaced"
    """Gone, and its owner runs Ready on another device, or has completed."""

    @property
    def holds(self) -> bool:
        """Whether it still holds the device."""
        return self not in {UserState.GONE, UserState.REPLACED}


class User(Payload):
    """A pod that holds the device.

    Attributes:
        owner_kind: of its topmost controller: Job, Deployment, …, ``Pod`` for a pod without one.
        may_move: whether one eviction makes it start again elsewhere without losing more than it already lost.
        note: why not, or what it waits for, for people.
        found_at: when it was first listed; one that came after its owner's eviction has come back.
        leaving_since: since when it has been seen terminating.
        tries: evictions of it that were refused so far; their pause grows.
        stuck: waiting cannot help its eviction, so a person is asked at once.
        terminating: it is being deleted, by whomever.
        evicted: by this incident; only such a user's replacement is waited for.
    """

    namespace: Name
    name: Name
    uid: Name
    owner_kind: str = ""
    owner_name: str = ""
    owner_uid: str = ""
    may_move: bool = False
    terminating: bool = False
    evicted: bool = False
    state: UserState = UserState.FOUND
    note: str = ""
    found_at: datetime | None = None
    evicted_at: datetime | None = None
    leaving_since: datetime | None = None
    blocked_since: datetime | None = None
    tries: int = 0
    stuck: bool = False
    retry_at: datetime | None = None
    gone_at: datetime | None = None


class Ask(Payload):
    """What a person is asked to do.

    Attributes:
        reason: CamelCase.
        remedy: what to do, in one sentence; the incident goes on by itself when it no longer needs it.
    """

    reason: str = ""
    remedy: str = ""
    since: datetime | None = None


class Teller(StrEnum):
    """Whose doing a line of the story is."""

    INCIDENT = "incident"
    """What it did, decided or found."""
    PERSON = "person"
    """A command of somebody who was asked who it is."""
    ANYBODY = "anybody"
    """A signal, whoever sent it."""


class TimelineEntry(Payload):
    """One line of the story."""

    at: datetime
    phase: Phase
    text: str
    teller: Teller = Teller.INCIDENT


class ProbeStage(StrEnum):
    """How far the current probe is."""

    NONE = "None"
    ALLOTTED = "Allotted"
    """It has its number, which the record says before the probe is created."""
    STARTED = "Started"
    SOAKING = "Soaking"
    """A canary whose load has passed; it is kept."""
    JUDGED = "Judged"
    """Its verdict is in, its pod is still there."""


class ReleaseStage(StrEnum):
    """How far a release is; each stage is one request."""

    NONE = "None"
    OPENED = "Opened"
    """Decided; next the status says so, and a fresh reading must not object."""
    READ = "Read"
    UNLATCHED = "Unlatched"
    DELETED = "Deleted"
    GONE = "Gone"
    """Read back: no fence. Nothing bad was said meanwhile, or it would have been called off."""


class IncidentState(Payload):
    """Everything one incident knows.

    Attributes:
        searchable: names of the search attributes that the namespace knows; any other would fail the workflow's task.
        node_uid: of the node as it was last read; ``""`` = not known yet.
        severity: the highest that was told and not cleared.
        health: of the last live reading; None if nobody reported.
        healthy_since: since when live readings have been fresh Healthy with nothing written in between.
        bad_since: when a reading first said Unhealthy, by the workflow's clock; None = never, or Healthy lasted since.
        flips: how often a Healthy was read that did not last; a device that flaps is looked at and tried more seldom.
        fault: a step that failed for good in its time, or an error of our own; kept until that step works again, or
            another effect does.
        faulty: the activity of that step, ``""`` for an error of our own.
        retrying: the pause after the fault is over.
        left_out: lines of the story that made room for later ones of the same teller.
        reread: something was said; read live before the next decision.
        lease_version: of the node's Lease at the last reading (at first: of the record).
        lease_moved_at: when it was last seen to have moved; None = never, so nothing read was proved fresh.
        addressable: the hardware identity is published and unique, so that a probe can be sent to it.
        swapped: the slot was last seen with another hardware identity than the one that failed.
        refused: times in a row that the probe could not run; no attempt is used.
        trial: what the current probe is; `probe` and the fields below are about either.
        proof: what was proved; any bad word takes it back.
        flaps: releases of the device shortly before this incident.
        checking: where its business check is.
        ramped_at: since when the fence lets in those who have opted in.
        verdict_cause: of the last trial's verdict; ``""`` if it was cut short.
        removing_since: since when the trial that is judged has been on its way out.
        probed_version: resourceVersion of the pod of the last probe that was judged.
        overruled: what was still said of the device when its probe was sent; a pass outvotes it.
        deleting: the request that deletes the fence is under way; whether it did is known when it is answered.
        outcome: the end that is worked towards: Released, or Cleared where nothing bad was ever read live.
        fence_allotted: fence ``fence_number`` is this incident's; otherwise it is an earlier one and the next is taken.
        fenced_at: since when that fence has been seen standing; None = it has to be made sure of.
        unsaid: phase, ask or counters differ from what the record says.
        orders: what people told it, and what holds because of it.
        max_events: continue as new beyond so many history events (tests force it low).
        trace_url: address of its trace, for people; ``""`` = nobody said where traces are shown.
    """

    target: Target
    policy: Policy = Policy()
    searchable: tuple[str, ...] = ()
    hardware_id: str = UNKNOWN_HARDWARE
    addressable: bool = False
    swapped: bool = False
    swapped_since: datetime | None = None
    node: str = ""
    node_gone: bool = False
    node_uid: str = ""
    severity: Health = Health.UNHEALTHY
    reason: Reason = Reason.REPORTED
    message: str = ""
    first_bad_at: datetime
    admitted: bool = False
    admission_numbers: str = ""

    phase: Phase = Phase.SUSPECT
    ask: Ask | None = None
    fault: Ask | None = None
    faulty: str = ""
    retrying: bool = False
    unsaid: bool = True
    timeline: tuple[TimelineEntry, ...] = ()
    left_out: dict[Teller, int] = Field(default_factory=dict)

    read_at: datetime | None = None
    reread: bool = False
    readings: int = 0
    health: Health | None = None
    healthy_since: datetime | None = None
    verified: bool = False
    bad_since: datetime | None = None
    flips: int = 0
    lease_version: str = ""
    lease_moved_at: datetime | None = None
    observations: tuple[Observation, ...] = ()

    fence_number: int = 0
    fence_allotted: bool = False
    fence_uid: str = ""
    fenced_at: datetime | None = None
    hand_edits: int = 0
    hand_edited_at: datetime | None = None

    users: tuple[User, ...] = ()
    users_at: datetime | None = None

    trial: Trial = Trial.PROBE
    probe: ProbeStage = ProbeStage.NONE
    proof: Proof = Proof.NONE
    flaps: int = 0
    soaking_since: datetime | None = None
    checking: Checking = Checking()
    ramped_at: datetime | None = None
    probe_number: int = 0
    probe_sent_at: datetime | None = None
    removing_since: datetime | None = None
    attempts: int = 0
    inconclusive: int = 0
    refused: int = 0
    next_probe_at: datetime | None = None
    verdict: Verdict | None = None
    verdict_note: str = ""
    verdict_cause: str = ""
    probed_version: str = ""
    overruled: tuple[Observation, ...] = ()

    release: ReleaseStage = ReleaseStage.NONE
    deleting: bool = False
    release_number: int = 0
    outcome: Phase | None = None
    closed: bool = False

    orders: Orders = Orders()

    max_events: int = 4000
    trace_url: str = ""

    @property
    def title(self) -> str:
        """Name the incident in at most 200 bytes, Temporal's bound of a summary: device, where, and the reason code."""
        device = self.target.device
        where = self.node or device.pool
        text = tamed(f"{device.device} on {where}: {self.severity} ({self.reason})", TITLE_BYTES)
        return text.encode()[:TITLE_BYTES].decode(errors="ignore")


class IncidentReport(Payload):
    """What an incident returns at its end: its story in at most 32 KiB."""

    incident: Name
    device: Name
    run: int = 1
    outcome: Phase = Phase.SUPERSEDED
    reason: Reason = Reason.REPORTED
    message: str = ""
    policy: str = ""
    opened_at: datetime | None = None
    ended_at: datetime | None = None
    fences: int = 0
    attempts: int = 0
    moved: tuple[str, ...] = ()
    timeline: tuple[TimelineEntry, ...] = ()
    left_out: dict[Teller, int] = Field(default_factory=dict)
