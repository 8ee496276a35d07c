"""What the leader does about one device: pure, from what is said of it, its record and the policy.

A decision is what should happen to the record; whether an Unhealthy device may be fenced is asked of the guard
(`sickbay.policy.guard`) afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from sickbay.model.observation import Health, Observation, Reason, Seen
from sickbay.model.policy import Mode, Policy
from sickbay.model.record import Record
from sickbay.policy.evidence import Track, Voice, covered

SOURCES_NAMED: Final = 16
"""Sources that a record names at most, worst first: enough to read again, and bounded."""


class Action(StrEnum):
    """What happens to the record of the device."""

    IGNORE = "Ignore"
    """Nothing."""
    OPEN = "Open"
    """Create the record, or take over a closed one, with a new incident."""
    OBSERVE = "Observe"
    """Tell the open incident, soon."""
    RAISE = "Raise"
    """Write a higher severity into the open record: an incident that only suspected now knows."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision.

    Attributes:
        reason: CamelCase: why.
        message: the same for people.
        recheck_at: when the answer may change by itself; None = when something is said.
        finding: the observation that it rests on, at the resourceVersion that names the incident; for IGNORE None.
        sources: what is said by all that counts, worst first.
    """

    action: Action
    reason: str
    message: str
    recheck_at: datetime | None = None
    finding: Observation | None = None
    sources: tuple[Observation, ...] = ()

    @property
    def severity(self) -> Health:
        """The worst that is said."""
        return self.finding.health if self.finding else Health.HEALTHY


def decide(track: Track, record: Record | None, policy: Policy, *, trusted: bool = True) -> Decision:
    """Decide about one device.

    Args:
        track: what is said of it, brought to now by `evidence.at`.
        record: the device's record, open or closed, None if it has none.
        policy: in force now; an open incident keeps the one it began with.
        trusted: False after the cluster's history broke (see `evidence.covered`).
    """
    if not policy.matches(track.device.driver):
        return Decision(Action.IGNORE, "NotMatched", f"driver {track.device.driver!r} is not in match.drivers")
    voices = track.counted(policy)
    if record is not None and not record.closed:
        return _open_record(voices, record, policy)
    if not voices:
        return Decision(Action.IGNORE, "NoEvidence", "nobody reports on the device")
    bad = [v for v in voices if v.told.health is not Health.HEALTHY]
    if not bad:
        return Decision(Action.IGNORE, "Healthy", "all that report on the device say Healthy")
    if record is not None:
        dealt = uncovered_by(bad, record, trusted=trusted)
        if not dealt:
            message = f"incident {record.spec.incident} has seen all that is said"
            return Decision(Action.IGNORE, "AlreadySeen", message)
        bad = dealt
    if policy.mode is Mode.OBSERVE:
        return Decision(Action.IGNORE, "ModeObserve", f"{_told(bad[0].told)}; mode observe writes nothing")
    worst = bad[0].told
    reason = "Unhealthy" if worst.health is Health.UNHEALTHY else "Suspect"
    return Decision(Action.OPEN, reason, _told(worst), finding=worst, sources=_sources(voices))


def uncovered_by(voices: Iterable[Voice], record: Record, *, trusted: bool = True) -> list[Voice]:
    """Leave out the voices that the ended incident of a record has dealt with."""
    seen = seen_by(record)
    closed = record.status.closed
    lease_version = closed.lease_version if closed else ""
    return [v for v in voices if not covered(v, seen, lease_version, trusted=trusted)]


def seen_by(record: Record) -> tuple[Seen, ...]:
    """What ended incidents of a device had read of each source, and what a release outvoted."""
    closed = record.status.closed
    sources = (*(closed.seen if closed else ()), *record.status.overruled)
    return tuple(Seen(uid=s.uid, resource_version=s.resource_version, digest=s.digest) for s in sources)


def _open_record(voices: tuple[Voice, ...], record: Record, policy: Policy) -> Decision:
    if not voices:
        return Decision(Action.IGNORE, "NoEvidence", "nobody reports on the device")
    worst, sources = voices[0].told, _sources(voices)
    if worst.health.severity > record.spec.severity.severity and policy.mode is not Mode.OBSERVE:
        message = f"{_told(worst)}; the incident knew {record.spec.severity}"
        return Decision(Action.RAISE, "Worse", message, finding=worst, sources=sources)
    return Decision(Action.OBSERVE, "IncidentOpen", _told(worst), finding=worst, sources=sources)


def _sources(voices: Iterable[Voice]) -> tuple[Observation, ...]:
    return tuple(v.told for v in voices)[:SOURCES_NAMED]


def _told(observation: Observation) -> str:
    source = observation.source
    why = "" if observation.reason is Reason.REPORTED else f" ({observation.reason})"
    said = f": {observation.message}" if observation.message else ""
    return f"{source.kind} {source.namespace}/{source.name} says {observation.health}{why}{said}"
