"""What an incident begins with."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from sickbay.model.command import Orders, Pause
from sickbay.model.device import DeviceKey
from sickbay.model.incident import ProbeStage, Trial
from sickbay.model.observation import Health, Reason, SourceRef
from sickbay.model.policy import Policy
from sickbay.model.record import (
    Admission,
    AdmissionState,
    Counters,
    Phase,
    Record,
    RecordDevice,
    RecordSpec,
    RecordStatus,
)
from sickbay.policy.keeping import standing_orders
from sickbay.policy.opening import incident_state, orphaned, ran_before

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


@pytest.mark.parametrize("trial", list(Trial))
@pytest.mark.parametrize("phase", [Phase.SOAKING, Phase.NEEDS_OPERATOR, Phase.QUARANTINED])
def test_the_trial_of_an_earlier_run_is_known_for_what_it_was(trial: Trial, phase: Phase) -> None:
    """Whatever phase was told over it: the breaker for its kind waits for its end."""
    known = status(phase, 4).model_copy(update={"trial": trial})
    state = incident_state(record(known), Policy())
    assert (state.probe, state.trial, state.probe_number) == (ProbeStage.JUDGED, trial, 7)


def test_a_trial_of_no_known_kind_is_a_probe() -> None:
    """There is none, or a hand wrote into the status."""
    for said in ("", "load"):
        assert incident_state(record(status(Phase.SOAKING, 4).model_copy(update={"trial": said})), Policy()).trial is (
            Trial.PROBE
        )


def test_orders_outlive_a_terminated_run() -> None:
    """Whoever terminates an incident has not taken back what others told it; those of an earlier one are not ours."""
    since = datetime(2026, 1, 10, 11, tzinfo=UTC)
    told = Orders(
        applied=("c-1",),
        pause=Pause(actor="ann", reason="firmware", since=since, until=since + timedelta(hours=2), reminded=3),
        kept_until=since + timedelta(days=3),
        kept_from=since,
        retiring="bob: worn",
    )
    known = status(Phase.QUARANTINED, 4).model_copy(update={"orders": standing_orders(told)})
    again = incident_state(record(known), Policy()).orders
    assert again.pause is not None
    assert again.pause.model_copy(update={"reminded": 3}) == told.pause
    assert again.model_copy(update={"applied": ("c-1",), "pause": told.pause}) == told
    earlier = known.model_copy(update={"incident": DEVICE.incident_id("1")})
    assert incident_state(record(earlier), Policy()).orders == Orders()


def test_hardware_that_a_run_learned_is_known_to_the_next() -> None:
    """Else a card that was swapped in between would pass as the one that failed."""
    learned = status(Phase.QUARANTINED, 4).model_copy(update={"hardware_id": "GPU-1"})
    assert incident_state(record(learned), Policy()).hardware_id == "GPU-1"
    assert incident_state(record(learned, hardware_id="GPU-0"), Policy()).hardware_id == "GPU-0"
    earlier = learned.model_copy(update={"incident": DEVICE.incident_id("1")})
    assert incident_state(record(earlier), Policy()).hardware_id == "unknown"


def test_orders_in_a_record_are_bounded_and_tamed() -> None:
    """They come from people, also by a signal that nobody has asked who it is."""
    pause = Pause(actor="x" * 200, reason="line\nend " * 100, since=datetime(2026, 1, 10, tzinfo=UTC))
    kept = standing_orders(Orders(pause=pause)).pause
    assert kept is not None
    assert (len(kept.by), len(kept.reason), "\n" in kept.reason) == (200, 400, False)


@pytest.mark.parametrize(
    ("swapped", "reason", "message", "node"),
    [
        (None, Reason.ORPHAN, "fence f stood without an open incident", ""),
        (record(node="n"), Reason.SWAPPED, "other hardware is in the slot of a retired device", "n"),
    ],
)
def test_a_fence_without_an_incident_says_why_it_gets_one(
    swapped: Record | None, reason: Reason, message: str, node: str
) -> None:
    """That of a retired device has none by right, until other hardware is in its slot."""
    decision = orphaned(DEVICE, SourceRef(kind="DeviceTaintRule", name="f", uid="u"), "12", swapped=swapped)
    assert decision.finding is not None
    assert (decision.reason, decision.finding.reason, decision.message) == (reason, reason, message)
    assert (decision.finding.health, decision.finding.node) == (Health.UNHEALTHY, node)


@pytest.mark.parametrize(
    ("run", "told", "before"),
    [(1, "", False), (1, DEVICE.incident_id("9"), False), (1, DEVICE.incident_id("10"), True), (2, "", True)],
)
def test_an_incident_ran_before_if_it_wrote_or_has_a_later_run(run: int, told: str, *, before: bool) -> None:
    """One that a person's record names, and that is only to start, is no restart."""
    assert ran_before(record(RecordStatus(incident=told), run=run)) is before
