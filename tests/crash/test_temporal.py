"""Temporal is away, or is another one when it comes back: bad devices leave the pool all the same, and stay out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from temporalio.client import Client

from sickbay.model.record import Phase
from tests.crash.harness import POLICY, Ward
from tests.crash.points import PROBE_REMOVED, Parking
from tests.crash.waiting import never, until

pytestmark = [pytest.mark.lab, pytest.mark.crash]


async def test_sickbay_killed_and_started_while_temporal_is_away(ward: Ward) -> None:
    """It fences without Temporal, tells it once, and the incidents start within 5 s of its return."""
    first = await ward.sickbay()
    await first.ready()
    seats = await ward.jobs("alone", 4, devices=8)
    await ward.kill_temporal()
    await ward.kill(first)
    second = await ward.sickbay()
    await second.ready(but=["temporal", "worker"])
    await second.says("term_began")
    await ward.break_devices(seats)

    async def fenced() -> bool:
        second.check()
        return {seat.key.numbered(1) for seat in seats} <= set(await ward.fences())

    await until("every bad device is fenced", fenced, within=10)
    await second.says("alert_began", alert="TemporalUnavailable")
    assert len(second.said("alert_began")) == 1
    assert not second.said("incident_started")
    records = await ward.records()
    await ward.lab.temporal.start()
    back = datetime.now(UTC)
    for seat in seats:
        started = await second.says("incident_started", incident=records[seat.key.record_name].spec.incident)
        assert datetime.fromisoformat(started["timestamp"]) - back < timedelta(seconds=5)
    await ward.released(seats, by=second)
    findings = ward.verdict()
    assert findings.violations == [], findings


async def test_temporals_database_deleted_while_20_fences_stand(ward: Ward) -> None:
    """Nothing is started and one alert is given, until a person adopts the new namespace; then all go on."""
    sickbay = await ward.sickbay(probe={**POLICY["probe"], "first": "3s", "longest": "10s"})
    await sickbay.ready()
    seats = await ward.jobs("orphaned", 20, devices=40)
    probed = [Parking(sickbay.proxy, seat, PROBE_REMOVED.before) for seat in seats[:5]]
    await ward.break_devices(seats, for_good=True)
    names = {seat.key.record_name for seat in seats}

    async def evacuated() -> bool:
        sickbay.check()
        records = await ward.records()
        free = all(n in records and records[n].status.phase in {Phase.RECOVERING, Phase.PROBING} for n in names)
        return free and all(place.reached for place in probed)

    await until("every device is fenced and free", evacuated, within=240)
    fences = await ward.fences()
    assert len(fences) == 20
    await ward.kill_temporal()
    for file in ward.database.parent.glob(f"{ward.database.name}*"):
        file.unlink()
    for place in probed:
        place.release()
    await ward.lab.temporal.start()
    await sickbay.says("alert_began", alert="NamespaceMismatch")
    client = await Client.connect(ward.lab.temporal.address)

    async def started_or_lifted() -> bool:
        return (await client.count_workflows()).count > 0 or await ward.fences() != fences

    await never("an incident was started, or a fence went", started_or_lifted, during=10)
    assert len(sickbay.said("alert_began", alert="NamespaceMismatch")) == 1
    await ward.install("--adopt-namespace")
    await ward.heal(seats)
    await ward.released(seats, by=sickbay)
    assert len(sickbay.said("alert_began", alert="NamespaceMismatch")) == 1
    assert len({line["incident"] for line in sickbay.said("incident_restarted")}) == 20
    findings = ward.verdict()
    assert findings.violations == [], findings
