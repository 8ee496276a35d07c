"""`RemediationPolicy`: what a person decides beforehand. Every duration has a unit, every default a reason."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from sickbay.model.base import Config, Duration, format_duration
from sickbay.model.business import Business


def _some(value: timedelta) -> timedelta:
    if not value:
        raise ValueError("0s would look without a pause; write a time like 30s")
    return value


Pause = Annotated[Duration, AfterValidator(_some)]
"""Between two looks at something: never zero."""


class Mode(StrEnum):
    """How far Sickbay may go."""

    OBSERVE = "observe"
    """Directory, metrics and alerts only: nothing is written to a device."""
    SHADOW = "shadow"
    """Records and fences of effect None: nothing is kept from being scheduled."""
    APPROVE = "approve"
    """Every incident is Held until a person approves it."""
    ENFORCE = "enforce"
    """Within the guard's limits, act."""


class Match(Config):
    """Which devices the policy is for."""

    drivers: tuple[str, ...] = ()
    """DRA driver names; empty = all."""


class Unknown(Config):
    """How long not knowing is put up with."""

    tolerance: Duration = timedelta(minutes=10)
    """From the first non-healthy sample until a person is asked. Longer than a driver's rolling update."""
    recheck: Duration = timedelta(seconds=30)
    """First interval between live reads; it doubles up to ten minutes."""
    never_known: bool = False
    """Whether Unknown counts for a device that was never known: a driver without health service says it for ever."""


class Guard(Config):
    """The fleet guard: how many devices of a pool may be fenced. Released by nothing but healed devices or a person."""

    share: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Largest fenced share of a pool."""
    floor: Annotated[int, Field(ge=0)] = 1
    """Devices that may be fenced whatever the share says, so that small pools can act."""
    ceiling: Annotated[int, Field(ge=0)] = 32
    """Devices that are never exceeded, whatever the share says, so that large pools are bounded."""
    per_minute: Annotated[int, Field(ge=0)] = 10
    """New admissions in any 60 s, over all pools."""

    @model_validator(mode="after")
    def _ordered(self) -> Guard:
        if self.floor > self.ceiling:
            raise ValueError(f"floor {self.floor} is above ceiling {self.ceiling}; lower floor or raise ceiling")
        return self


class Migration(Config):
    """How jobs leave a bad device."""

    enabled: bool = True
    """False: users are listed and a person is asked, nobody is evicted."""
    at_once: Annotated[int, Field(ge=1)] = 5
    """Evictions under way at once in the cluster."""
    blocked_after: Duration = timedelta(minutes=30)
    """How long a disruption budget may block an eviction before a person is asked; waiting goes on."""
    replacement: Duration = timedelta(minutes=5)
    """How long to wait for a Ready replacement on another device before going on with the device."""


class Probe(Config):
    """How a device is tried again."""

    image: Annotated[str, Field(min_length=1)] = "sickbay.dev/probe:v1"
    """Image of the probe; it writes ``{"verdict": "pass"|"fail", "device": <identity>}`` to its termination message."""
    first: Duration = timedelta(minutes=1)
    """From the device being free to the first attempt."""
    factor: Annotated[float, Field(ge=1)] = 2.0
    """By which the pause grows after each failed attempt."""
    longest: Duration = timedelta(hours=1)
    """Largest pause between attempts."""
    attempts: Annotated[int, Field(ge=1)] = 5
    """Failed attempts until a person is asked."""
    inconclusive: Annotated[int, Field(ge=0)] = 3
    """Attempts in a row that prove nothing until a person is asked."""
    timeout: Duration = timedelta(minutes=5)
    """From the probe's creation to its verdict."""
    at_once: Annotated[int, Field(ge=1)] = 10
    """Probes and canaries under way at once in the cluster."""
    stuck: Annotated[int, Field(ge=1)] = 5
    """Probes and canaries that cannot start, at which no further ones are sent: it is not the devices then. Likewise
    devices in a row on which they prove nothing, at which one is tried at a time; one pool counts for half at most."""
    identity: dict[str, str] = Field(default_factory=dict)
    """Per driver, the attribute of a device that names the hardware; default ``uuid``."""

    @model_validator(mode="after")
    def _ordered(self) -> Probe:
        if self.first > self.longest:
            first, longest = format_duration(self.first), format_duration(self.longest)
            raise ValueError(f"first {first} is above longest {longest}; lower first or raise longest")
        return self

    def identity_attribute(self, driver: str) -> str:
        """Name the attribute that tells one piece of hardware of this driver from another."""
        return self.identity.get(driver, "uuid")


class Canary(Config):
    """A load on a device that has passed its probe."""

    image: Annotated[str, Field(min_length=1)] = "sickbay.dev/canary:v1"
    """Image of the canary: Ready when its load has passed, and then it keeps the device busy until it is deleted. A
    load that fails ends it with the probe's kind of message."""
    timeout: Duration = timedelta(minutes=15)
    """From the canary's creation until its load has passed."""


class Soak(Config):
    """How long a device must stay well under the canary."""

    time: Duration = timedelta(minutes=10)
    """Fresh Healthy without a break, by the canary's own status: longer than the device needs to get hot."""
    check: Pause = timedelta(seconds=30)
    """Between two looks; below `staleness`, so that each finds a Lease that has moved."""
    deadline: Duration = timedelta(hours=2)
    """From its beginning until it is given up as proving nothing."""

    @model_validator(mode="after")
    def _ordered(self) -> Soak:
        if self.time >= self.deadline:
            time, deadline = format_duration(self.time), format_duration(self.deadline)
            raise ValueError(
                f"time {time} is not below deadline {deadline}, so that none could pass; lower time or raise deadline"
            )
        return self


class Ramp(Config):
    """How a device comes back: first for workloads that have opted in, by tolerating ``sickbay.dev/ramp``."""

    time: Duration = timedelta(minutes=10)
    """How long; 0s releases to all at once."""
    check: Pause = timedelta(seconds=30)
    """Between two looks at what those who took it say."""


class Expiry(StrEnum):
    """What happens when a quarantine gets too old. Never a release."""

    PROBE = "Probe"
    """The device is tried at once, whatever pause was due."""
    ESCALATE = "Escalate"
    """A person is asked."""


class Quarantine(Config):
    """How long a device is kept out."""

    expires: Duration = timedelta(days=7)
    """From the first bad word."""
    on_expiry: Expiry = Expiry.ESCALATE
    flaps: Annotated[int, Field(ge=1)] = 3
    """Releases in `window` after which a person is asked before the device is tried again; each earlier one makes the
    first pause longer, as a failed probe does."""
    window: Duration = timedelta(days=1)
    longest: Duration = timedelta(days=30)
    """From the first `extend_quarantine` of an incident on; no later one goes beyond it."""


class Policy(Config):
    """One `RemediationPolicy`. An open incident keeps the one it began with."""

    api_version: Literal["sickbay.dev/v1alpha1"] = "sickbay.dev/v1alpha1"
    kind: Literal["RemediationPolicy"] = "RemediationPolicy"
    mode: Mode = Mode.OBSERVE
    match: Match = Match()
    confirm: Duration = timedelta(seconds=30)
    """From the first bad live reading until a job may be moved: what cannot be undone waits for this."""
    stable: Duration = timedelta(seconds=30)
    """How long fresh Healthy must last to count."""
    settle: Duration = timedelta(seconds=15)
    """After a fence, how long late users are looked for: the scheduler may bind one that it chose before (measured
    up to 18 ms on a quiet machine, more under load)."""
    staleness: Duration = timedelta(seconds=40)
    """Age of a node's Lease beyond which a status is Unknown: Kubernetes' own leaseDurationSeconds."""
    unknown: Unknown = Unknown()
    guard: Guard = Guard()
    migration: Migration = Migration()
    quarantine: Quarantine = Quarantine()
    probe: Probe = Probe()
    canary: Canary = Canary()
    soak: Annotated[Soak, Field(validate_default=True)] = Soak()
    business: Business = Business()
    ramp: Ramp = Ramp()
    keep: Duration = timedelta(days=7)
    """How long the record of an ended incident is kept."""
    runbook: Annotated[str, Field(pattern=r"^(https?://[\w.~:/?#@!$&'*+,;=%-]+)?$", max_length=300)] = ""
    """Address of your own runbook, for the incident's page; empty = Sickbay's documentation."""

    @field_validator("soak")
    @classmethod
    def _fresh(cls, soak: Soak, others: ValidationInfo) -> Soak:
        """A field's own validator, so that the problem has its line: what ``staleness`` is was read before."""
        staleness = others.data.get("staleness")
        if staleness is not None and soak.check >= staleness:
            check, age = format_duration(soak.check), format_duration(staleness)
            raise ValueError(
                f"check {check} is not below staleness {age}, so that a look could find a Lease too old to count; "
                "lower soak.check or raise staleness"
            )
        return soak

    @cached_property
    def digest(self) -> str:
        """First 12 hex digits of the SHA-256 of the canonical JSON: names this content."""
        return hashlib.sha256(self.model_dump_json(by_alias=True).encode()).hexdigest()[:12]

    def matches(self, driver: str) -> bool:
        """Say whether devices of this driver are ours to act on."""
        return not self.match.drivers or driver in self.match.drivers
