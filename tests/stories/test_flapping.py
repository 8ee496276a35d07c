"""A device that is bad for five seconds and well for five, for ten minutes, on a real cluster."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any, Final

import pytest
from temporalio.api.enums.v1 import EventType

from k8s.lab.audit import AuditLog
from sickbay.model.policy import Policy
from tests.crash.harness import Ward
from tests.crash.jobs import Seat
from tests.crash.waiting import never
from tests.crash.watching import watching
from tests.stories.scene import Scene

pytestmark = [pytest.mark.lab, pytest.mark.crash, pytest.mark.soak]

HALF: Final = 5.0
FLIPS: Final = 120
TIMES: Final = ("confirm", "stable", "settle", "migration", "probe", "canary", "soak", "ramp")
"""Parts of the policy that are as for a user who says nothing of them."""


class Witness:
    """What a watch shows of a pod on a device, and of the device's fence.

    Attributes:
        left: when the pod was first seen on its way out, by our clock.
        events: of rules for the device: what happened.
    """

    def __init__(self, seat: Seat) -> None:
        self.left: list[float] = []
        self.events: list[str] = []
        self._seat = seat

    def take_pod(self, _: str, pod: dict[str, Any]) -> None:
        """Note when it leaves."""
        metadata = pod["metadata"]
        if metadata["uid"] == self._seat.uid and "deletionTimestamp" in metadata:
            self.left.append(time.monotonic())

    def take_rule(self, event: str, rule: dict[str, Any]) -> None:
        """Note what becomes of a fence."""
        key, selector = self._seat.key, rule["spec"]["deviceSelector"]
        if selector == {"driver": key.driver, "pool": key.pool, "device": key.device}:
            self.events.append(event)

    async def opened(self) -> bool:
        """Whether the fence was gone, if only for a moment."""
        return "DELETED" in self.events


async def test_ten_minutes_of_flapping(tmp_path_factory: pytest.TempPathFactory) -> None:
    """One incident, one fence that stands throughout, one eviction soon after confirm, few words and little history."""
    policy = Policy()
    usual = policy.model_dump(mode="json", by_alias=True)
    async with Ward.open(tmp_path_factory.mktemp("flapping")) as ward:
        run = await ward.sickbay(**{name: usual[name] for name in TIMES})
        await run.ready()
        scene = Scene(ward, run)
        seat = await scene.deployment("flapping")
        witness, log = Witness(seat), AuditLog(ward.lab.audit_log, from_end=True)
        async with (
            watching(ward.lab.gateway, "/api/v1/pods", witness.take_pod),
            watching(ward.lab.gateway, "/apis/resource.k8s.io/v1/devicetaintrules", witness.take_rule),
        ):
            began = await flapped(scene, seat, witness)
        run.check()
        record = await scene.record(seat)
        assert record is not None
        moved = timedelta(seconds=witness.left[0] - began)
        assert policy.confirm <= moved <= policy.confirm + timedelta(seconds=10)
        assert (record.closed, record.status.history, record.status.counters.fence) == (False, (), 1)
        writes = [entry for entry in log.read() if entry.wrote and entry.user.username.endswith(":sickbay:sickbay")]
        assert [e.verb for e in writes if e.resource == "devicetaintrules"] == ["create"]
        assert [e.object_ref.name for e in writes if e.resource == "pods/eviction"] == [seat.pod]
        handle = (await ward.temporal.client()).get_workflow_handle(record.spec.incident)
        kinds = [event.event_type async for event in handle.fetch_history_events()]
        assert kinds.count(EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED) <= 25
        assert len(kinds) < 200


async def flapped(scene: Scene, seat: Seat, witness: Witness) -> float:
    """Let the device flap to the end, and see that its fence stands; give when that began, by our clock."""
    fleet, began = scene.ward.lab.fleet, time.monotonic()
    for flip in range(FLIPS):
        await (fleet.heal if flip % 2 else fleet.break_device)(seat.key.pool, seat.key.device)
        rest = began + (flip + 1) * HALF - time.monotonic()
        await never("the fence was lifted", witness.opened, during=rest)
    return began
