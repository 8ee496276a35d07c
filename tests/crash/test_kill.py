"""Kill -9 of `sickbay run`, and of the Temporal server, with incidents parked at every point of their way.

Each incident ends Released, and by the API server's own log each effect happened once.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.crash.harness import Ward
from tests.crash.jobs import Seat
from tests.crash.points import FENCE, POINTS, VERIFICATION, Parking
from tests.crash.process import Sickbay
from tests.crash.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.crash]


async def all_reached(parked: Iterable[Parking], sickbay: Sickbay) -> None:
    """Wait until every incident is at its point."""

    async def reached() -> bool:
        sickbay.check()
        return all(place.reached for place in parked)

    try:
        await until("every incident is parked", reached, within=240)
    except AssertionError as error:
        raise AssertionError(f"{error}; not {[str(place.point) for place in parked if not place.reached]}") from None


async def parked_everywhere(ward: Ward, sickbay: Sickbay, job: str) -> tuple[list[Seat], list[Parking]]:
    """Break a device for each point, and wait until each one's incident is held there."""
    await sickbay.ready()
    seats = await ward.jobs(job, len(POINTS), devices=2 * len(POINTS))
    parked = [Parking(sickbay.proxy, seat, point) for seat, point in zip(seats, POINTS, strict=True)]
    await ward.break_devices(seats)
    await all_reached(parked, sickbay)
    assert len(parked) >= 20
    return seats, parked


async def test_sickbay_killed_before_after_and_between_each_effect_and_its_result(ward: Ward) -> None:
    """Another `sickbay run` goes on with every incident where it was."""
    first = await ward.sickbay()
    seats, _ = await parked_everywhere(ward, first, "killed")
    await ward.kill(first)
    second = await ward.sickbay()
    await ward.released(seats, by=second)
    findings = ward.verdict()
    assert findings.violations == [], findings


async def test_temporal_killed_before_after_and_between_each_effect_and_its_result(ward: Ward) -> None:
    """What was under way is carried out while Temporal is away; when it is back it learns so, and goes on."""
    sickbay = await ward.sickbay()
    seats, parked = await parked_everywhere(ward, sickbay, "forgotten")
    await ward.kill_temporal()
    for place in parked:
        place.release()
    await ward.lab.temporal.start()
    await ward.released(seats, by=sickbay)
    findings = ward.verdict()
    assert findings.violations == [], findings


async def test_sickbay_killed_between_record_fence_start_and_verification(ward: Ward) -> None:
    """Whoever leads next finds what is written and does the rest: nothing is lost, nothing happens twice."""
    first = await ward.sickbay()
    await first.ready()
    await first.says("term_began")
    seats = await ward.jobs("gaps", 15, devices=30)
    unverified, unfenced, unstarted = seats[:5], seats[5:10], seats[10:]
    started = [Parking(first.proxy, seat, VERIFICATION.before) for seat in unverified]
    await ward.break_devices(unverified)
    await all_reached(started, first)
    # The leader gives these up after some seconds, and goes on to the start.
    parked = [
        *(Parking(first.proxy, seat, FENCE.before) for seat in unfenced),
        *(Parking(first.proxy, seat, FENCE.after) for seat in unstarted),
    ]
    await ward.break_devices([*unfenced, *unstarted])
    await all_reached(parked, first)
    await ward.kill(first)
    records, fences = await ward.records(), await ward.fences()
    incidents = {seat: records[seat.key.record_name].spec.incident for seat in seats}
    fenced = {seat for seat in seats if seat.key.numbered(1) in fences}
    assert fenced == {*unstarted, *unverified}
    told = {line["incident"] for line in first.said("incident_started")}
    assert told & set(incidents.values()) == {incidents[seat] for seat in unverified}
    second = await ward.sickbay()
    await ward.released(seats, by=second)
    findings = ward.verdict()
    assert findings.violations == [], findings
