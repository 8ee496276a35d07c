"""The closing summary: what Sickbay did by the word of the API server's audit log, and whether that is all of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from k8s.impersonation import SERVICE_ACCOUNT
from k8s.lab.audit import Entry
from k8s.lab.controlplane import NODES

ROUTINE: Final = frozenset({"leases", "configmaps", "events", "selfsubjectreviews", "selfsubjectaccessreviews"})
"""Resources that are written all the time and are no act on a device."""


@dataclass(frozen=True)
class Act:
    """One request of Sickbay that changed something."""

    at: str
    verb: str
    what: str

    @classmethod
    def of(cls, entry: Entry) -> Act:
        """Read it from the log."""
        name = f"{entry.namespace}/{entry.name}" if entry.namespace else entry.name
        return cls(at=entry.stage_timestamp[11:23], verb=entry.verb, what=f"{entry.resource} {name}")


@dataclass(frozen=True)
class Check:
    """One step that must stand in the log.

    Attributes:
        step: for people.
        times: how often it must have happened.
        seen: how often it did.
    """

    step: str
    times: int
    seen: int

    @property
    def ok(self) -> bool:
        """Whether it happened exactly as often as it should have."""
        return self.seen == self.times


EXPECTED: Final = {
    "incident recorded, once": ("create", "devicequarantines", 1),
    "device fenced, once": ("create", "devicetaintrules", 1),
    "job evicted by the Eviction API, once": ("create", "pods/eviction", 1),
    "device tried four times: probe, canary, probe, canary": ("create", "pods", 4),
    "fence changed twice: it let in who opted in, then its finalizer went": ("patch", "devicetaintrules", 2),
    "fence deleted, once": ("delete", "devicetaintrules", 1),
}
"""The steps that must stand in the log: verb, resource and how often."""


def acted(entry: Entry) -> bool:
    """Say whether this is an act of Sickbay that changed something."""
    return entry.wrote and entry.user.username == SERVICE_ACCOUNT and entry.object_ref.resource not in ROUTINE


def worth_telling(entry: Entry) -> bool:
    """Say whether a spectator should hear of it: not of the book-keeping in a status."""
    return acted(entry) and entry.object_ref.subresource != "status"


def acts(entries: Iterable[Entry]) -> list[Act]:
    """Give every request of Sickbay's account that changed something, in order."""
    return [Act.of(entry) for entry in entries if acted(entry)]


def counted(entries: Iterable[Entry]) -> list[Check]:
    """Count the steps that must have happened."""
    counts = Counter((entry.verb, entry.resource) for entry in entries if acted(entry))
    return [Check(step, times, counts[verb, resource]) for step, (verb, resource, times) in EXPECTED.items()]


def fenced_after(entries: Iterable[Entry], namespace: str, pod: str) -> timedelta | None:
    """Measure from the first status of a pod in this part of the log to the first fence after it.

    Both times are those at which the API server received the request, by its clock. None if one of them is not there.
    """
    status: datetime | None = None
    for entry in entries:
        about = (entry.user.username, entry.verb, entry.resource, entry.namespace, entry.name)
        if status is None and entry.wrote and about == (NODES, "patch", "pods/status", namespace, pod):
            status = _received(entry)
        elif status is not None and acted(entry) and (entry.verb, entry.resource) == ("create", "devicetaintrules"):
            return _received(entry) - status
    return None


def _received(entry: Entry) -> datetime:
    return datetime.fromisoformat(entry.request_received_timestamp)
