"""The closing summary: what Sickbay did by the word of the API server's audit log, and whether that is all of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from k8s.impersonation import SERVICE_ACCOUNT
from k8s.lab.audit import AuditLog, Entry

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


EXPECTED: Final = {
    "record written before anything else": ("create", "devicequarantines", 1),
    "device fenced, once": ("create", "devicetaintrules", 1),
    "job evicted by the Eviction API, once": ("create", "pods/eviction", 1),
    "device probed twice: the first failed": ("create", "pods", 2),
    "fence deleted, once": ("delete", "devicetaintrules", 1),
}
"""The steps that must stand in the log: verb, resource and how often."""


def acted(entry: Entry) -> bool:
    """Say whether this is an act of Sickbay that changed something."""
    return entry.wrote and entry.user.username == SERVICE_ACCOUNT and entry.object_ref.resource not in ROUTINE


def acts(log: Path) -> list[Act]:
    """Give every request of Sickbay's account that changed something, in order."""
    return [Act.of(entry) for entry in _written(log)]


def missing(log: Path) -> list[str]:
    """Name the steps that did not happen, or not as often as they should have."""
    counts = Counter((entry.verb, entry.resource) for entry in _written(log))
    return [
        f"{step}: {verb} {resource} {counts[verb, resource]} times, not {times}"
        for step, (verb, resource, times) in EXPECTED.items()
        if counts[verb, resource] != times
    ]


def _written(log: Path) -> list[Entry]:
    return [entry for entry in AuditLog(log).read() if acted(entry)]
