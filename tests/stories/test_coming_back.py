"""How a device comes back, or does not: by whole stories on a real control plane and a real Temporal server."""

from __future__ import annotations

import pytest

from sickbay.model.record import Phase, Record
from tests.k8s import cluster
from tests.stories.scene import Scene

pytestmark = [pytest.mark.lab, pytest.mark.crash]


async def test_a_card_that_is_swapped_while_it_soaks_is_retired_and_the_new_one_tried(scene: Scene) -> None:
    """What failed is never released on what came, and the fence holds until the new card has proved itself."""
    seat = await scene.lone_pod("swapped")
    await scene.breaks(seat)
    await scene.delete("swapped")
    before = await scene.reaches(seat, Phase.SOAKING)
    await scene.ward.lab.fleet.swap(seat.key.pool, seat.key.device)

    async def another() -> Record | None:
        now = await scene.record(seat)
        return now if now is not None and now.spec.incident != before.spec.incident else None

    after = await cluster.until(another, within=90)
    assert after.spec.hardware_id not in {before.spec.hardware_id, "unknown"}
    assert [past.outcome for past in after.status.history] == [Phase.RETIRED]
    await scene.released(seat)
    ended = await scene.record(seat)
    assert ended is not None
    assert [past.outcome for past in ended.status.history] == [Phase.RETIRED, Phase.RELEASED]


async def test_a_fault_that_shows_only_under_load_does_not_come_back(scene: Scene) -> None:
    """It passes every probe and no canary, until it is repaired."""
    seat = await scene.lone_pod("feeble")
    fleet = scene.ward.lab.fleet
    await scene.breaks(seat, for_good=True)
    await scene.delete("feeble")
    await scene.reaches(seat, Phase.PROBING)
    await fleet.heal(seat.key.pool, seat.key.device)
    await fleet.break_under_load(seat.key.pool, seat.key.device)

    async def tried() -> Record | None:
        record = await scene.record(seat)
        return record if record is not None and record.status.counters.probe >= 6 else None

    record = await cluster.until(tried, within=90)
    assert not record.closed
    await fleet.heal(seat.key.pool, seat.key.device)
    await scene.released(seat)
