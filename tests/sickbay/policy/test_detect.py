"""What the leader does about one device."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sickbay.model.device import DeviceKey
from sickbay.model.observation import Health, Observation, Reason, SourceRef
from sickbay.model.policy import Match, Mode, Policy
from sickbay.model.record import Closed, Phase, Record, RecordDevice, RecordSpec, RecordStatus, SeenSource
from sickbay.policy.detect import SOURCES_NAMED, Action, decide
from sickbay.policy.evidence import LeaseAge, Moment, Track, at, observe, settle, vanish

DEVICE = DeviceKey(cluster="c", driver="gpu.example.com", pool="node-1", device="gpu-0")
START = datetime(2026, 1, 10, 10, tzinfo=UTC)
ENFORCE = Policy(mode=Mode.ENFORCE)


def said(health: Health, *, by: str = "a", version: str = "10", reason: Reason = Reason.REPORTED) -> Observation:
    """Build what a pod said."""
    return Observation(
        device=DEVICE,
        source=SourceRef(kind="Pod", namespace="team", name=by, uid=f"uid-{by}"),
        resource_version=version,
        health=health,
        reason=reason,
        node="node-1",
    )


def moment(lease_age: float = 0, lease_version: str = "500") -> Moment:
    """Now, with a Lease that moved so many seconds ago."""
    return Moment(START, {"node-1": LeaseAge(lease_version, timedelta(seconds=lease_age))}, ENFORCE)


def heard(*observations: Observation) -> Track:
    """Hear observations on a fresh Lease."""
    track = Track(DEVICE)
    for observation in observations:
        track = observe(track, observation, moment())
    return track


def record(status: RecordStatus | None = None, severity: Health = Health.UNHEALTHY) -> Record:
    """Build the device's record."""
    spec = RecordSpec(
        cluster="c",
        device=RecordDevice(driver=DEVICE.driver, pool=DEVICE.pool, device=DEVICE.device),
        first_bad_at=START,
        severity=severity,
        incident=DEVICE.incident_id("10"),
        status_version="10",
    )
    return Record(
        name=DEVICE.record_name, uid="uid-r", resource_version="1", spec=spec, status=status or RecordStatus()
    )


def closed(*seen: SeenSource, lease_version: str = "500", overruled: tuple[SeenSource, ...] = ()) -> Record:
    """Build a record whose incident has ended, having read so far."""
    return record(
        RecordStatus(
            incident=DEVICE.incident_id("10"),
            phase=Phase.RELEASED,
            closed=Closed(at=START, outcome=Phase.RELEASED, seen=seen, lease_version=lease_version),
            overruled=overruled,
        )
    )


KNOWN = said(Health.HEALTHY, version="5")
BAD = said(Health.UNHEALTHY, version="10")


def test_unhealthy_without_a_record_opens() -> None:
    """The incident is named by the version of the transition, and rests on all that is said."""
    decision = decide(heard(KNOWN, BAD, said(Health.UNHEALTHY, version="12")), None, ENFORCE)
    assert (decision.action, decision.severity) == (Action.OPEN, Health.UNHEALTHY)
    assert decision.finding is not None
    assert decision.finding.resource_version == "10"
    assert [s.health for s in decision.sources] == [Health.UNHEALTHY]


def test_unknown_of_a_known_device_opens_a_suspect() -> None:
    """Unknown opens with severity Unknown; of a device never known it opens nothing."""
    assert decide(heard(KNOWN, said(Health.UNKNOWN)), None, ENFORCE).severity is Health.UNKNOWN
    assert decide(heard(said(Health.UNKNOWN)), None, ENFORCE).reason == "NoEvidence"


def test_nothing_bad_opens_nothing() -> None:
    """Healthy and silence are no reason to act."""
    assert decide(heard(KNOWN), None, ENFORCE).reason == "Healthy"
    assert decide(Track(DEVICE), None, ENFORCE).reason == "NoEvidence"


def test_mode_observe_writes_nothing() -> None:
    """In mode observe neither a record is made nor an open one changed; an open incident is still told."""
    observe_only = Policy(mode=Mode.OBSERVE)
    assert decide(heard(BAD), None, observe_only).reason == "ModeObserve"
    suspect = record(severity=Health.UNKNOWN)
    assert decide(heard(BAD), suspect, observe_only).action is Action.OBSERVE


def test_other_drivers_are_left_alone() -> None:
    """``match`` is asked first."""
    policy = Policy(mode=Mode.ENFORCE, match=Match(drivers=("other.example.com",)))
    assert decide(heard(BAD), None, policy).reason == "NotMatched"


def test_open_incident_is_told_and_raised_only_by_worse() -> None:
    """An incident that knows Unhealthy is told of all that changes; a Suspect is raised by Unhealthy."""
    assert decide(heard(BAD), record(), ENFORCE).action is Action.OBSERVE
    assert decide(heard(KNOWN), record(), ENFORCE).severity is Health.HEALTHY
    assert decide(heard(BAD), record(severity=Health.UNKNOWN), ENFORCE).action is Action.RAISE
    assert decide(heard(KNOWN, said(Health.UNKNOWN)), record(severity=Health.UNKNOWN), ENFORCE).action is Action.OBSERVE
    assert decide(Track(DEVICE), record(), ENFORCE).action is Action.IGNORE


def test_closed_incident_is_not_reopened_by_what_it_saw() -> None:
    """A cached observation at or below ``closed.seen`` opens nothing; a later bad one does."""
    dealt = closed(SeenSource(uid="uid-a", resource_version="12", digest=KNOWN.digest))
    assert decide(heard(BAD), dealt, ENFORCE).reason == "AlreadySeen"
    assert decide(heard(said(Health.UNHEALTHY, version="13")), dealt, ENFORCE).action is Action.OPEN
    assert decide(heard(said(Health.UNHEALTHY, by="b", version="3")), dealt, ENFORCE).action is Action.OPEN


def test_outvoted_report_opens_nothing_until_it_changes() -> None:
    """A sticky Unhealthy that a release overruled is ignored; another reason or a new transition is not."""
    outvoted = closed(overruled=(SeenSource(uid="uid-a", resource_version="12", digest=BAD.digest),))
    sticky = said(Health.UNHEALTHY, version="20")
    assert decide(heard(sticky), outvoted, ENFORCE).reason == "AlreadySeen"
    assert decide(heard(said(Health.HEALTHY, version="19"), sticky), outvoted, ENFORCE).action is Action.OPEN
    other = said(Health.UNKNOWN, version="20", reason=Reason.UNLISTED_HEALTH)
    assert decide(observe(heard(KNOWN), other, moment()), outvoted, ENFORCE).action is Action.OPEN


def test_evidence_of_sources_gone_by_the_end_is_dropped() -> None:
    """A pod that was gone when the incident ended does not reopen it."""
    track = vanish(heard(BAD), "uid-a", moment())
    assert decide(track, None, ENFORCE).action is Action.OPEN
    assert decide(settle(track, [], []), closed(), ENFORCE).reason == "NoEvidence"


def test_lease_stale_again_is_a_new_incident() -> None:
    """On an unchanged pod, a Lease that moved on and stopped again opens one named by the Lease's version."""
    seen = SeenSource(uid="uid-a", resource_version="12", digest=KNOWN.digest)
    stale = at(heard(KNOWN), moment(lease_age=99, lease_version="900"))
    assert decide(stale, closed(seen, lease_version="900"), ENFORCE).reason == "AlreadySeen"
    again = decide(stale, closed(seen, lease_version="800"), ENFORCE)
    assert again.action is Action.OPEN
    assert again.finding is not None
    assert (again.finding.reason, again.finding.resource_version) == (Reason.NODE_UNREACHABLE, "900")


def test_sources_of_a_decision_are_bounded() -> None:
    """However many share a device, a record names only so many of them, the worst first."""
    crowd = [said(Health.HEALTHY, by=f"p{n}") for n in range(40)]
    decision = decide(heard(*crowd, BAD), None, ENFORCE)
    assert len(decision.sources) == SOURCES_NAMED
    assert decision.sources[0].health is Health.UNHEALTHY
