"""The business check in whole stories: on a real control plane, a real Temporal server and a real Prometheus."""

from __future__ import annotations

import math

import pytest

from sickbay.model.record import NEEDS_OPERATOR, Phase, Record
from tests.k8s import cluster
from tests.prometheus import needs_prometheus
from tests.stories.scene import Scene

pytestmark = [pytest.mark.lab, pytest.mark.crash, pytest.mark.soak, needs_prometheus]


async def test_a_device_that_works_and_is_not_good_does_not_come_back(scene: Scene) -> None:
    """Probe, canary and soak pass every time; its number keeps it out, until that is good too."""
    seat = await scene.lone_pod("slow")
    scene.number(seat, 0.25)
    await scene.breaks(seat)
    await scene.delete("slow")

    async def tried_again() -> Record | None:
        record = await scene.record(seat)
        return record if record is not None and record.status.counters.probe >= 4 else None

    record = await cluster.until(tried_again, within=90)
    assert not record.closed
    state = await scene.ward.temporal.state(record.spec.incident)
    assert state is not None
    assert any("BusinessCheckFailed: 0.25, good is at least 1" in line.text for line in state.timeline)
    scene.number(seat, 1.5)
    await scene.released(seat)


async def test_a_number_that_is_none_keeps_the_fence_and_asks_a_person(scene: Scene) -> None:
    """It blames the device for nothing, and goes on by itself when there is a number."""
    seat = await scene.lone_pod("unmeasured")
    scene.number(seat, math.nan)
    await scene.breaks(seat)
    await scene.delete("unmeasured")
    record = await scene.reaches(seat, Phase.NEEDS_OPERATOR, within=90)
    asked = record.status.condition(NEEDS_OPERATOR)
    assert asked is not None
    assert asked.reason == "BusinessCheckUnsure"
    assert "NotANumber: business.query gives nan" in asked.message
    assert seat.key.numbered(record.status.counters.fence) in await scene.ward.fences()
    scene.number(seat, 1)
    await scene.released(seat)
    ended = await scene.record(seat)
    assert ended is not None
    assert ended.status.counters.probe == 2  # one probe, one canary
