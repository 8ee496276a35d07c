"""What was said of a device, and what it adds up to."""

from __future__ import annotations

import hashlib
from datetime import datetime
from enum import StrEnum
from typing import Final

from sickbay.model.base import Name, Payload
from sickbay.model.device import DeviceKey


class Health(StrEnum):
    """The three values of ``allocatedResourcesStatus``; anything else is read as Unknown."""

    HEALTHY = "Healthy"
    UNKNOWN = "Unknown"
    UNHEALTHY = "Unhealthy"

    @property
    def severity(self) -> int:
        """Order of concern: Healthy 0, Unknown 1, Unhealthy 2."""
        return _SEVERITY[self]


_SEVERITY: Final = {Health.HEALTHY: 0, Health.UNKNOWN: 1, Health.UNHEALTHY: 2}


class Reason(StrEnum):
    """Why a reading has its health: a closed set, fit for metrics and conditions."""

    REPORTED = "Reported"
    """The source object says so in a word we know."""
    UNLISTED_HEALTH = "UnlistedHealth"
    """The source object holds a health word that is not one of the three."""
    NODE_UNREACHABLE = "NodeUnreachable"
    """The node's Lease is older than ``staleness``: whatever the status says is old."""
    AMBIGUOUS = "Ambiguous"
    """One of several devices of a request is bad, and the ids do not tell which."""
    UNDECODABLE = "Undecodable"
    """The source object can no longer be decoded; its last good state is old."""
    ORPHAN = "Orphan"
    """A fence of ours stood without an open incident."""
    SWAPPED = "Swapped"
    """Other hardware is in the slot of a retired device: it is tried before use."""
    PERSON = "Person"
    """A person made the record."""


class SourceRef(Payload):
    """The Kubernetes object that said something, by name and uid."""

    kind: Name
    namespace: str = ""
    name: Name
    uid: Name


class Observation(Payload):
    """What one source object said of one device at one moment.

    Attributes:
        resource_version: of the source object.
        message: untrusted text of the driver, already tamed.
        node: where the device is; its Lease bounds how fresh this is.
        terminal: the pod has ended, its value is frozen: opens nothing, clears nothing.
    """

    device: DeviceKey
    source: SourceRef
    resource_version: Name
    health: Health
    reason: Reason = Reason.REPORTED
    message: str = ""
    node: str = ""
    terminal: bool = False

    @property
    def digest(self) -> str:
        """Tell transitions from repetitions: health and reason class, not the message."""
        return digest_of(self.health, self.reason)


def digest_of(health: Health, reason: Reason) -> str:
    """First 8 hex digits of the SHA-256 of what makes two readings of one source the same."""
    return hashlib.sha256(f"{health}/{reason}".encode()).hexdigest()[:8]


class Seen(Payload):
    """How far an ended incident had read one source: at or below this it opens nothing.

    Attributes:
        uid: of the source object.
        resource_version: the last one that was read live.
        digest: of what it said then.
    """

    uid: Name
    resource_version: str = ""
    digest: str = ""


class Evidence(Payload):
    """All current observations of one device, folded.

    Attributes:
        health: None where nobody reports (not Healthy).
        first_bad_at: time of the first non-healthy sample; another reason or message does not reset it.
        healthy_since: since when fresh Healthy has been reported without a break, else None.
        sources: every reading that was folded, worst first.
        lease_version: resourceVersion of the node's Lease at the time.
    """

    device: DeviceKey
    health: Health | None = None
    reason: Reason = Reason.REPORTED
    message: str = ""
    node: str = ""
    first_bad_at: datetime | None = None
    healthy_since: datetime | None = None
    sources: tuple[Observation, ...] = ()
    lease_version: str = ""
