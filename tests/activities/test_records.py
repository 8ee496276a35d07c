"""The record's status as an incident writes it, on a real API server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.records import RecordActivities
from k8s.records import Records
from k8s.resources import DEVICEQUARANTINES
from sickbay.model.contracts import SUPERSEDED, CloseRecord, Ended, WriteStatus, Written
from sickbay.model.device import DeviceKey
from sickbay.model.incident import Ask, Target, Trial
from sickbay.model.observation import Health, Reason, Seen, digest_of
from sickbay.model.record import (
    FINALIZER,
    HISTORY_LENGTH,
    Admission,
    AdmissionState,
    Closed,
    Condition,
    Counters,
    Disowning,
    FenceRef,
    PastIncident,
    PauseOrder,
    Phase,
    Record,
    RecordStatus,
    SeenSource,
    StandingOrders,
)
from sickbay.policy.opening import target_of
from tests.builders import NOW
from tests.installation import Installation, a_device, record_spec


class Incident:
    """An open incident, and its activities."""

    def __init__(self, sickbay: Installation, target: Target) -> None:
        self.records = Records(sickbay.gateway)
        self.target = target
        self._activities = RecordActivities(self.records)

    async def write(self, phase: Phase = Phase.QUARANTINED, **changes: Any) -> Written:
        """Write a status."""
        step = WriteStatus(target=self.target, phase=phase, **changes)
        return await ActivityEnvironment().run(self._activities.write_status, step)

    async def close(self, outcome: Phase = Phase.RELEASED, **changes: Any) -> Ended:
        """Close the record."""
        step = CloseRecord(target=self.target, outcome=outcome, **changes)
        return await ActivityEnvironment().run(self._activities.close_record, step)

    async def record(self) -> Record:
        """Read the record."""
        return await self.records.get(self.target.device.record_name)

    async def status(self) -> RecordStatus:
        """Read its status."""
        return (await self.record()).status


async def opened(sickbay: Installation, key: DeviceKey | None = None, **changes: Any) -> Incident:
    """Open an incident as the leader does."""
    key = key or a_device()
    record = await Records(sickbay.gateway).create(key, record_spec(key, term=await sickbay.term(), **changes))
    return Incident(sickbay, target_of(record))


async def taken_over(sickbay: Installation, incident: Incident, version: str = "200", run: int = 1) -> Incident:
    """Let the leader give the record to another incident, or to another run of the same."""
    record = await incident.record()
    key = record.spec.key
    changes = {
        "incident": key.incident_id(version),
        "status_version": version,
        "run": run,
        "term": await sickbay.term(),
    }
    record = await incident.records.write_spec(record, record.spec.model_copy(update=changes))
    return Incident(sickbay, target_of(record))


async def test_a_status_says_where_the_incident_stands(sickbay: Installation) -> None:
    """Phase, counters, fence and conditions are there; the admission comes back."""
    incident = await opened(sickbay, admission=Admission(state=AdmissionState.ADMITTED, numbers="1 of 8"))
    ask = Ask(reason="PodNotMovable", remedy="delete pod x", since=NOW)
    written = await incident.write(verified=True, fence_number=1, fence_uid="fence-1", probe_number=2, ask=ask)
    assert written == Written(admitted=True, admission_numbers="1 of 8")
    status = await incident.status()
    assert (status.incident, status.run, status.phase) == (incident.target.incident, 1, Phase.QUARANTINED)
    assert status.verified
    assert status.counters == Counters(fence=1, probe=2, release=0)
    assert status.fence == FenceRef(name=incident.target.device.numbered(1), uid="fence-1")
    asked = status.condition("NeedsOperator")
    assert asked is not None
    assert (asked.status, asked.reason, asked.message) == ("True", "PodNotMovable", "delete pod x")
    assert asked.last_transition_time == NOW
    wants = status.condition("WantsAdmission")
    assert wants is not None
    assert wants.status == "False"


async def test_an_expiry_is_there_while_it_holds(sickbay: Installation) -> None:
    """With the phase that it is written with, and not beyond the end."""
    incident = await opened(sickbay)
    week = NOW + timedelta(days=7)
    await incident.write(expires_at=week + timedelta(microseconds=217))
    assert (await incident.status()).expires_at == week
    assert await printed(sickbay, incident, "EXPIRES") == "2026-01-17T10:00:00Z"
    await incident.write(Phase.RELEASING)
    assert (await incident.status()).expires_at is None
    await incident.write(expires_at=week)
    await incident.close(Phase.RETIRED)
    assert (await incident.status()).expires_at is None


async def printed(sickbay: Installation, incident: Incident, column: str) -> Any:
    """Read a column as kubectl prints it."""
    client = sickbay.admin._client
    _, url, headers, _, _ = await client.param_serialize(
        method="GET",
        resource_path=DEVICEQUARANTINES.path(name=incident.target.device.record_name),
        header_params={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"},
        auth_settings=["BearerToken"],
    )
    async with (await client.rest_client.request("GET", url, headers=headers)).response as answer:
        table = await answer.json()
    return table["rows"][0]["cells"][[c["name"] for c in table["columnDefinitions"]].index(column)]


async def test_orders_of_people_are_kept_to_the_end(sickbay: Installation) -> None:
    """With the pause told for people, too; taken back when they no longer hold, and none of the next incident."""
    incident = await opened(sickbay)
    pause = PauseOrder(by="ann", reason="firmware", since=NOW, until=NOW + timedelta(hours=2))
    told = StandingOrders(pause=pause, kept_until=NOW, kept_from=NOW, retiring="bob: worn")
    await incident.write(orders=told)
    status = await incident.status()
    paused = status.condition("Paused")
    assert paused is not None
    assert (status.orders, paused.status) == (told, "True")
    assert paused.message == "ann until 2026-01-10 12:00:00Z: firmware"
    await incident.write()
    assert (await incident.status()).orders == StandingOrders()
    await incident.write(orders=told)
    await incident.close(Phase.RETIRED)
    assert (await incident.status()).orders == StandingOrders()


async def test_the_hardware_that_was_known_first_is_kept(sickbay: Installation) -> None:
    """It is the one that failed, whatever is in the slot later, and whoever writes; the next incident has its own."""
    incident = await opened(sickbay)
    assert (await incident.record()).hardware_id == "unknown"
    await incident.write(hardware_id="GPU-1")
    for later in ("GPU-2", "unknown"):
        await incident.write(hardware_id=later)
    await incident.close(Phase.RETIRED, hardware_id="GPU-2")
    assert (await incident.record()).hardware_id == "GPU-1"
    other = await opened(sickbay)
    await other.close(Phase.RETIRED, hardware_id="GPU-3")
    assert (await other.record()).hardware_id == "GPU-3"
    known = await opened(sickbay, hardware_id="GPU-4")
    await known.write(hardware_id="GPU-5")
    assert (await known.record()).hardware_id == "GPU-4"
    second = await taken_over(sickbay, other)
    assert (await second.record()).hardware_id == "unknown"


async def test_a_repeat_writes_nothing(sickbay: Installation) -> None:
    """The same step again leaves the record's resourceVersion as it is."""
    incident = await opened(sickbay)
    await incident.write(Phase.HELD, wants_admission=True)
    before = await incident.record()
    await incident.write(Phase.HELD, wants_admission=True)
    assert await incident.record() == before


async def test_a_condition_keeps_its_time(sickbay: Installation) -> None:
    """The time of a condition moves only when its status does."""
    incident = await opened(sickbay)
    await incident.write(ask=Ask(reason="A", remedy="a", since=NOW))
    await incident.write(ask=Ask(reason="B", remedy="b", since=NOW + timedelta(hours=1)))
    asked = (await incident.status()).condition("NeedsOperator")
    assert asked is not None
    assert (asked.reason, asked.last_transition_time) == ("B", NOW)
    await incident.write()
    asked = (await incident.status()).condition("NeedsOperator")
    assert asked is not None
    assert asked.last_transition_time is not None
    assert (asked.status, asked.last_transition_time > NOW) == ("False", True)


async def test_a_trial_is_there_until_it_is_over(sickbay: Installation) -> None:
    """A lost run leaves what it was, and the end of the incident leaves none."""
    incident = await opened(sickbay)
    await incident.write(Phase.NEEDS_OPERATOR, probe_number=3, trial=Trial.CANARY)
    assert (await incident.status()).trial == "canary"
    await incident.write(Phase.RECOVERING, probe_number=3)
    assert (await incident.status()).trial == ""
    await incident.write(Phase.PROBING, probe_number=4, trial=Trial.PROBE)
    await incident.close(Phase.SUPERSEDED)
    assert ((await incident.status()).trial, (await incident.status()).counters.probe) == ("", 4)


async def test_counters_only_grow(sickbay: Installation) -> None:
    """An incident that knows a lower number than the record does not lower it."""
    incident = await opened(sickbay)
    await incident.write(fence_number=3, probe_number=2, release_number=1)
    await incident.write(fence_number=1, probe_number=5)
    assert (await incident.status()).counters == Counters(fence=3, probe=5, release=1)


async def test_a_known_fence_keeps_its_name(sickbay: Installation) -> None:
    """While the next number is allotted, the uid is still that of the earlier fence; no uid forgets nothing."""
    incident = await opened(sickbay)
    await incident.write(fence_number=1, fence_uid="fence-1")
    for uid in ("fence-1", ""):
        await incident.write(fence_number=2, fence_uid=uid)
        assert (await incident.status()).fence == FenceRef(name=incident.target.device.numbered(1), uid="fence-1")
    await incident.write(fence_number=2, fence_uid="fence-2")
    assert (await incident.status()).fence == FenceRef(name=incident.target.device.numbered(2), uid="fence-2")


async def test_a_new_incident_takes_the_status_over(sickbay: Installation) -> None:
    """What belongs to the device stays, what belonged to the last incident goes."""
    first = await opened(sickbay)
    await first.write(verified=True, fence_number=2, fence_uid="fence-2", ask=Ask(reason="A", remedy="a"))
    sticky = Seen(uid="pod-1", resource_version="7", digest=digest_of(Health.UNHEALTHY, Reason.REPORTED))
    await first.close(seen=(sticky,), lease_version="9")
    ended = await first.status()
    second = await taken_over(sickbay, first)
    await second.write(Phase.SUSPECT)
    status = await second.status()
    assert (status.incident, status.phase, status.verified) == (second.target.incident, Phase.SUSPECT, False)
    assert (status.counters.fence, status.fence) == (2, FenceRef())
    assert {condition.type: condition.status for condition in status.conditions} == {
        "WantsAdmission": "False",
        "NeedsOperator": "False",
    }
    assert (status.closed, status.history, status.overruled) == (ended.closed, ended.history, ended.overruled)
    assert not (await second.record()).closed


async def test_an_approval_ends_with_its_incident(sickbay: Installation) -> None:
    """It is said to be over, for people, and it is not the next incident's."""
    incident = await opened(sickbay)
    await incident.write()
    record = await incident.record()
    approved = Condition(type="Approved", message="ada")
    conditions = (*record.status.conditions, approved)
    await incident.records.write_status(record, record.status.model_copy(update={"conditions": conditions}))
    await incident.write(Phase.QUARANTINED)
    kept = (await incident.status()).condition("Approved")
    assert kept is not None
    assert kept.status == "True"
    await incident.close()
    ended = (await incident.status()).condition("Approved")
    assert ended is not None
    assert (ended.status, ended.reason) == ("False", "Closed")


async def test_closing_is_the_last_word(sickbay: Installation) -> None:
    """Phase, what was seen, what was overruled, history and finalizer are written; the record is closed."""
    incident = await opened(sickbay, first_bad_at=NOW)
    await incident.write(fence_number=1, fence_uid="fence-1", ask=Ask(reason="A", remedy="a"))
    bad = Seen(uid="pod-1", resource_version="7", digest=digest_of(Health.UNHEALTHY, Reason.REPORTED))
    good = Seen(uid="pod-2", resource_version="8", digest=digest_of(Health.HEALTHY, Reason.REPORTED))
    await incident.close(seen=(bad, good), lease_version="9", reason=Reason.REPORTED)
    record = await incident.record()
    status = record.status
    assert record.closed
    assert record.finalizers == ()
    assert status.closed is not None
    assert (status.closed.outcome, status.closed.lease_version) == (Phase.RELEASED, "9")
    assert [(seen.uid, seen.resource_version) for seen in status.closed.seen] == [("pod-1", "7"), ("pod-2", "8")]
    assert [source.uid for source in status.overruled] == ["pod-1"]
    [past] = status.history
    assert (past.incident, past.outcome, past.opened_at) == (incident.target.incident, Phase.RELEASED, NOW)
    assert status.fence == FenceRef()
    asked = status.condition("NeedsOperator")
    assert asked is not None
    assert asked.status == "False"


async def test_a_cleared_incident_overrules_nothing(sickbay: Installation) -> None:
    """Only a release, after a probe, outvotes what is still said."""
    incident = await opened(sickbay)
    bad = Seen(uid="pod-1", resource_version="7", digest=digest_of(Health.UNHEALTHY, Reason.REPORTED))
    await incident.close(Phase.CLEARED, seen=(bad,))
    status = await incident.status()
    assert status.overruled == ()
    assert status.closed is not None
    assert status.closed.seen[0].uid == "pod-1"


async def test_a_device_that_was_given_up_overrules_and_says_by_whom(sickbay: Installation) -> None:
    """What is still said of it opens nothing, as after a release; the history keeps who and why."""
    incident = await opened(sickbay)
    bad = Seen(uid="pod-1", resource_version="7", digest=digest_of(Health.UNHEALTHY, Reason.REPORTED))
    word = Disowning(by="eve", reason="needed", incident=incident.target.incident)
    await incident.close(Phase.DISOWNED, seen=(bad,), disowned=word)
    record = await incident.record()
    assert (record.closed, record.finalizers, record.status.fence) == (True, (), FenceRef())
    assert [source.uid for source in record.status.overruled] == ["pod-1"]
    [past] = record.status.history
    assert (past.outcome, past.by, past.why) == (Phase.DISOWNED, "eve", "needed")


async def test_closing_again_changes_nothing(sickbay: Installation) -> None:
    """A repeat keeps the first end, and finishes what a crash between its two writes left undone."""
    incident = await opened(sickbay)
    record = await incident.record()
    end = RecordStatus(
        incident=incident.target.incident,
        run=1,
        phase=Phase.RELEASED,
        closed=Closed(at=NOW, outcome=Phase.RELEASED, seen=(SeenSource(uid="pod-1"),)),
    )
    await incident.records.write_status(record, end)
    assert (await incident.record()).finalizers == (FINALIZER,)
    await incident.close()
    record = await incident.record()
    assert (record.status, record.finalizers) == (end, ())
    await incident.close()
    assert await incident.record() == record


async def test_the_end_tells_how_long_the_quarantine_was(sickbay: Installation) -> None:
    """From the admission on, the same when it is told again; an incident that was never admitted had none."""
    admitted = Admission(state=AdmissionState.ADMITTED, at=datetime.now(UTC) - timedelta(minutes=5))
    incident = await opened(sickbay, admission=admitted)
    first = await incident.close()
    assert first.quarantined is not None
    assert timedelta(minutes=5) <= first.quarantined < timedelta(minutes=6)
    assert await incident.close() == first
    assert (await (await opened(sickbay)).close(Phase.CLEARED)).quarantined is None


async def test_history_is_the_last_ten(sickbay: Installation) -> None:
    """The oldest line goes when the history is full."""
    incident = await opened(sickbay)
    lines = tuple(
        PastIncident(incident=f"incident/{n}", outcome=Phase.CLEARED, opened_at=NOW, closed_at=NOW)
        for n in range(HISTORY_LENGTH)
    )
    await incident.records.write_status(await incident.record(), RecordStatus(history=lines))
    await incident.close()
    history = (await incident.status()).history
    assert [past.incident for past in history[:2]] == ["incident/1", "incident/2"]
    assert (len(history), history[-1].incident) == (HISTORY_LENGTH, incident.target.incident)


async def test_who_is_superseded_writes_nothing(sickbay: Installation) -> None:
    """Another uid, incident or run, a closed or a missing record end the step for good, without a trace."""
    incident = await opened(sickbay)
    other = Incident(sickbay, incident.target.model_copy(update={"record_uid": "another"}))
    none = await opened(sickbay)
    none = Incident(sickbay, none.target.model_copy(update={"device": a_device()}))
    before = await incident.record()
    await refused(other)
    await refused(none)
    assert await incident.record() == before
    second = await taken_over(sickbay, incident, "100", run=2)
    await refused(incident)
    await second.write()
    third = await taken_over(sickbay, second, "200")
    await refused(second)
    await third.close()
    with pytest.raises(ApplicationError) as caught:
        await third.write()
    assert caught.value.type == SUPERSEDED


async def refused(incident: Incident) -> None:
    """Both activities are told that the record is no longer theirs."""
    for attempt in (incident.write(), incident.close()):
        with pytest.raises(ApplicationError, match="no longer this incident's") as caught:
            await attempt
        assert (caught.value.type, caught.value.non_retryable) == (SUPERSEDED, True)


async def test_another_run_does_not_close_again(sickbay: Installation) -> None:
    """A record that a later run has closed is not the earlier run's to finish."""
    first = await opened(sickbay)
    second = await taken_over(sickbay, first, "100", run=2)
    await second.close()
    await refused(first)


async def test_phases_have_their_verbs(sickbay: Installation) -> None:
    """A final phase is not written in passing, and no other one closes."""
    incident = await opened(sickbay)
    with pytest.raises(ApplicationError, match="close_record alone"):
        await incident.write(Phase.RELEASED)
    with pytest.raises(ApplicationError, match="ends no incident"):
        await incident.close(Phase.PROBING)
