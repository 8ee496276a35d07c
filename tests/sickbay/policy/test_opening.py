"""What an incident begins with."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sickbay.model.device import DeviceKey
from sickbay.model.incident import ProbeStage
from sickbay.model.observation import Health
from sickbay.model.policy import Policy
from sickbay.model.record import (
    PAUSED,
    Admission,
    AdmissionState,
    Condition,
    Counters,
    Phase,
    Record,
    RecordDevice,
    RecordSpec,
    RecordStatus,
)
from sickbay.policy.opening import incident_state

DEVICE = DeviceKey(cluster="c", driver="gpu.example.com", pool="node-1", device="gpu-0")


def record(status: RecordStatus | None = None, **spec: object) -> Record:
    """Build an admitted record of run 2, taken over after fence 3 of an earlier incident."""
    known = {
        "cluster": "c",
        "device": RecordDevice(driver=DEVICE.driver, pool=DEVICE.pool, device=DEVICE.device),
        "first_bad_at": datetime(2026, 1, 10, 10, tzinfo=UTC),
        "incident": DEVICE.incident_id("10"),
        "status_version": "10",
        "run": 2,
        "first_fence": 4,
        "lease_version": "77",
        "admission": Admission(state=AdmissionState.ADMITTED, numbers="1 of 9"),
        **spec,
    }
    return Record(
        name=DEVICE.record_name,
        uid="uid-r",
        resource_version="9",
        spec=RecordSpec.model_validate(known),
        status=status or RecordStatus(),
    )


def status(
    phase: Phase, fence: int, *, incident: str = DEVICE.incident_id("10"), verified: bool = False
) -> RecordStatus:
    """Build a status with some counters."""
    return RecordStatus(
        incident=incident, phase=phase, verified=verified, counters=Counters(fence=fence, probe=7, release=2)
    )


def test_incident_begins_with_what_the_record_says() -> None:
    """Target, severity, admission, Lease and counters are the record's."""
    state = incident_state(record(status(Phase.QUARANTINED, 4)), Policy())
    assert (state.target.incident, state.target.run, state.target.record_uid) == (DEVICE.incident_id("10"), 2, "uid-r")
    assert (state.admitted, state.admission_numbers, state.severity) == (True, "1 of 9", Health.UNHEALTHY)
    assert (state.fence_number, state.probe_number, state.release_number, state.lease_version) == (4, 7, 2, "77")
    assert state.phase is Phase.SUSPECT


@pytest.mark.parametrize(
    ("phase", "fence", "allotted"),
    [
        (Phase.RELEASED, 3, False),  # an earlier incident's last fence
        (Phase.QUARANTINED, 4, True),
        (Phase.RELEASING, 4, False),  # a run that died in its release fences anew
        (Phase.NEEDS_OPERATOR, 3, False),
    ],
)
def test_fence_number_is_ours_from_the_first_on(phase: Phase, fence: int, allotted: bool) -> None:  # noqa: FBT001 - table
    """A counter below ``first_fence`` belongs to an earlier incident, and the next number is taken."""
    assert incident_state(record(status(phase, fence)), Policy()).fence_allotted is allotted


def test_verified_is_kept_only_of_the_same_incident() -> None:
    """What an earlier incident read live proves nothing for this one."""
    assert incident_state(record(status(Phase.QUARANTINED, 4, verified=True)), Policy()).verified
    earlier = status(Phase.RELEASED, 3, incident=DEVICE.incident_id("1"), verified=True)
    assert not incident_state(record(earlier), Policy()).verified


def test_probe_of_an_earlier_run_is_removed_first() -> None:
    """A run that was lost may have left its probe behind: the next run removes it before it sends another."""
    assert incident_state(record(status(Phase.PROBING, 4)), Policy()).probe is ProbeStage.JUDGED
    earlier = status(Phase.RELEASED, 3, incident=DEVICE.incident_id("1"))
    assert incident_state(record(earlier), Policy()).probe is ProbeStage.NONE


def test_a_pause_outlives_a_terminated_run() -> None:
    """Whoever terminates a paused incident has not resumed it; an earlier incident's pause is none of ours."""
    since = datetime(2026, 1, 10, 11, tzinfo=UTC)
    told = Condition(type=PAUSED, message="ann until somebody resumes: firmware", last_transition_time=since)
    paused = status(Phase.QUARANTINED, 4).model_copy(update={"conditions": (told,)})
    pause = incident_state(record(paused), Policy()).orders.pause
    assert pause is not None
    assert (pause.since, pause.until, "ann" in pause.reason) == (since, None, True)
    over = paused.model_copy(update={"conditions": (told.model_copy(update={"status": "False"}),)})
    assert incident_state(record(over), Policy()).orders.pause is None
    earlier = paused.model_copy(update={"incident": DEVICE.incident_id("1")})
    assert incident_state(record(earlier), Policy()).orders.pause is None
