"""What an incident begins with: its record's spec, and its workflow's state. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sickbay.model.device import UNKNOWN_HARDWARE, DeviceKey
from sickbay.model.incident import IncidentState, ProbeStage, Target, Trial
from sickbay.model.observation import Health, Observation, Reason, SourceRef
from sickbay.model.policy import Policy
from sickbay.model.record import (
    Admission,
    AdmissionState,
    Phase,
    Record,
    RecordDevice,
    RecordSource,
    RecordSpec,
)
from sickbay.policy.detect import Action, Decision
from sickbay.policy.keeping import restored


@dataclass(frozen=True, slots=True)
class Standing:
    """Who decides, and what is known of the device besides what is said of it.

    Attributes:
        term: of the leader.
        namespace_id: of the Temporal namespace that is to hold the incident.
        actor: name of the process.
        first_bad_at: of the evidence.
        lease_version: resourceVersion of the node's Lease.
    """

    term: int
    namespace_id: str
    actor: str
    policy: Policy
    first_bad_at: datetime
    hardware_id: str = UNKNOWN_HARDWARE
    node: str = ""
    lease_version: str = ""


def opened(
    decision: Decision, admission: Admission, standing: Standing, before: Record | None, *, first_fence: int = 1
) -> RecordSpec:
    """Write the spec of a new incident, into a new record or over a closed one.

    Args:
        decision: Open, with its finding.
        admission: the guard's word; state None for a Suspect.
        standing: who decides, and what else is known.
        before: the closed record that is taken over.
        first_fence: a fence number that is free, where one is known to be taken.
    """
    finding = decision.finding
    assert finding is not None
    device, version = finding.device, finding.resource_version
    if before is not None:
        first_fence = max(first_fence, before.status.counters.fence + 1)
        if device.incident_id(version) == before.spec.incident:
            # Versions start over after a restore: the same name again would read as the incident that has ended.
            version = f"{version}.{before.resource_version}"
    return RecordSpec(
        cluster=device.cluster,
        device=RecordDevice(driver=device.driver, pool=device.pool, device=device.device),
        hardware_id=standing.hardware_id,
        node=standing.node or finding.node,
        reason=finding.reason,
        message=finding.message,
        severity=finding.health,
        first_bad_at=standing.first_bad_at,
        sources=_sources(decision.sources),
        lease_version=standing.lease_version,
        incident=device.incident_id(version),
        status_version=version,
        run=1,
        term=standing.term,
        first_fence=first_fence,
        admission=admission,
        policy_hash=standing.policy.digest,
        namespace_id=standing.namespace_id,
        actor=standing.actor,
    )


def quarantined_by(
    actor: str,
    reason: str,
    device: DeviceKey,
    before: Record | None,
    *,
    node: str,
    namespace_id: str,
    version: str,
    now: datetime,
) -> RecordSpec:
    """Write the spec of an incident that a person begins; the guard decides on it as on any other.

    Args:
        actor: user name, which the API server checks.
        reason: why, for people.
        device: to be taken out of service.
        before: the closed record that is taken over.
        node: where the device is.
        namespace_id: of the Temporal namespace that is to hold the incident.
        version: names the incident; never used before.
        now: when.
    """
    return RecordSpec(
        cluster=device.cluster,
        device=RecordDevice(driver=device.driver, pool=device.pool, device=device.device),
        node=node,
        reason=Reason.PERSON,
        message=reason,
        first_bad_at=now,
        incident=device.incident_id(version),
        status_version=version,
        first_fence=1 if before is None else before.status.counters.fence + 1,
        namespace_id=namespace_id,
        actor=actor,
    )


def raised(decision: Decision, admission: Admission, standing: Standing, before: Record) -> RecordSpec:
    """Write what a Suspect that turned Unhealthy changes; incident, status version and first bad time stay."""
    finding = decision.finding
    assert finding is not None
    return before.spec.model_copy(
        update={
            "severity": finding.health,
            "reason": finding.reason,
            "message": finding.message,
            "sources": _sources(decision.sources),
            "lease_version": standing.lease_version,
            "admission": admission,
            "term": standing.term,
        }
    )


def admitted_now(before: Record, admission: Admission, term: int) -> RecordSpec:
    """Write the guard's word into the record of an incident that waited for it."""
    return before.spec.model_copy(update={"admission": admission, "term": term})


def run_again(before: Record, run: int, term: int, namespace_id: str) -> RecordSpec:
    """Write which run of an incident is to be started, and in which Temporal namespace."""
    return before.spec.model_copy(update={"run": run, "term": term, "namespace_id": namespace_id})


def ran_before(record: Record) -> bool:
    """Say whether a run of the record's incident is known: a record that a person makes names one that never ran."""
    return record.spec.run > 1 or record.status.incident == record.spec.incident


def admission_of(state: AdmissionState, by: str, numbers: str, now: datetime) -> Admission:
    """Write the guard's word down."""
    return Admission(state=state, by=by, numbers=numbers, at=now)


def orphaned(device: DeviceKey, fence: SourceRef, fence_version: str, *, swapped: Record | None = None) -> Decision:
    """Decide for a fence of ours that no open incident answers for: it gets one, and is never just deleted.

    Args:
        device: that it fences.
        fence: the rule, named as source.
        fence_version: its resourceVersion, which names the incident.
        swapped: the record of the retired device before which it stands as it should, until other hardware is in its
            slot, which it is now: on the same node, whoever reports on it or not.
    """
    reason, message, node = Reason.ORPHAN, f"fence {fence.name} stood without an open incident", ""
    if swapped is not None:
        reason, message = Reason.SWAPPED, "other hardware is in the slot of a retired device"
        node = swapped.spec.node
    finding = Observation(
        device=device,
        source=fence,
        resource_version=fence_version,
        health=Health.UNHEALTHY,
        reason=reason,
        message=message,
        node=node,
    )
    return Decision(Action.OPEN, str(reason), finding.message, finding=finding, sources=(finding,))


def _sources(observations: Iterable[Observation]) -> tuple[RecordSource, ...]:
    return tuple(
        RecordSource(
            kind=o.source.kind,
            namespace=o.source.namespace,
            name=o.source.name,
            uid=o.source.uid,
            resource_version=o.resource_version,
        )
        for o in observations
    )


def target_of(record: Record) -> Target:
    """Name the record and the run for which effects act."""
    spec = record.spec
    return Target(
        device=spec.key,
        incident=spec.incident,
        run=spec.run,
        record_uid=record.uid,
        status_version=spec.status_version,
    )


def fence_allotted(record: Record) -> bool:
    """Say whether the last fence number belongs to this incident; a release that was cut off takes a new one."""
    return record.status.counters.fence >= record.spec.first_fence and record.status.phase is not Phase.RELEASING


def _flaps(record: Record, policy: Policy) -> int:
    """Count the releases that this incident shows to have been too early."""
    since = record.spec.first_bad_at - policy.quarantine.window
    return sum(past.outcome is Phase.RELEASED and past.closed_at >= since for past in record.status.history)


def incident_state(record: Record, policy: Policy) -> IncidentState:
    """Build the input of the workflow that a record names.

    Counters go on from the record's status, so that a new run repeats no effect key of an earlier one; they belong to
    the device and outlive incidents. ``verified`` is kept only from this very incident: a new one reads for itself.
    """
    spec, status = record.spec, record.status
    same = status.incident == spec.incident
    verified = status.verified and same
    counters = status.counters
    return IncidentState(
        target=target_of(record),
        policy=policy,
        hardware_id=record.hardware_id,
        node=spec.node,
        severity=spec.severity,
        reason=spec.reason,
        message=spec.message,
        first_bad_at=spec.first_bad_at,
        admitted=record.admitted,
        admission_numbers=spec.admission.numbers,
        verified=verified,
        bad_since=spec.first_bad_at if verified else None,
        fence_number=max(counters.fence, spec.first_fence - 1),
        fence_allotted=fence_allotted(record),
        # A trial of an earlier run may still be there; the leader removes what an incident that has ended left.
        probe=ProbeStage.JUDGED if counters.probe and same else ProbeStage.NONE,
        trial=Trial(status.trial) if status.trial in set(Trial) else Trial.PROBE,
        flaps=_flaps(record, policy),
        probe_number=counters.probe,
        release_number=counters.release,
        lease_version=spec.lease_version,
        orders=restored(record),
    )
