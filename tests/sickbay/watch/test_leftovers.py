"""Trials whose incident is over without having removed them: the leader does, and leaves all others alone."""

from __future__ import annotations

import pytest

from k8s.hardware import identify
from k8s.listings import SliceLister
from k8s.probe_objects import PROBE_NAMESPACE, ProbeStep, claim_body, pod_body
from k8s.resources import PODS, RESOURCECLAIMS
from k8s.trials import Standing
from sickbay.model.device import DeviceKey
from sickbay.model.incident import Target, Trial
from sickbay.model.policy import Canary
from sickbay.model.record import Closed, Counters, FenceRef, Phase, Record, RecordStatus
from sickbay.policy.opening import target_of
from sickbay.watch.leftovers import awaited
from tests.builders import DEVICE, target
from tests.conftest import AddNodes
from tests.installation import record_spec
from tests.k8s import cluster
from tests.sickbay.watch.house import House, policy

CANARY = 7


def record(phase: Phase = Phase.SOAKING, uid: str = "record-1", version: str = "100") -> Record:
    """Build the record of an incident that this version opened."""
    spec = record_spec(DEVICE, incident=DEVICE.incident_id(version), status_version=version)
    status = RecordStatus(incident=spec.incident, phase=phase)
    return Record(name=DEVICE.record_name, uid=uid, resource_version="1", spec=spec, status=status)


@pytest.mark.parametrize(
    ("found", "stays"),
    [
        pytest.param(record(), True, id="of the open incident"),
        pytest.param(record(Phase.RETIRED), False, id="of one that has ended"),
        pytest.param(record(version="200"), False, id="of the one before"),
        pytest.param(record(uid="record-2"), False, id="of a record that was deleted, and another made"),
        pytest.param(None, False, id="of a record that was deleted"),
    ],
)
def test_a_trial_is_awaited_by_its_own_open_incident_alone(found: Record | None, *, stays: bool) -> None:
    """Whichever run of it."""
    of = target()
    standing = Standing(PODS, DEVICE.numbered(1), "uid", DEVICE, of.incident, of.record_uid)
    assert awaited(standing, found) is stays


async def left(house: House, device: DeviceKey, of: Target) -> None:
    """Put a canary's claim and pod there."""
    step = ProbeStep(of, CANARY, Trial.CANARY)
    claim = claim_body(step, identify(await SliceLister(house.gateway).get(device.driver), device, "uuid"))
    pod = pod_body(step, Canary().image, Canary().timeout, "1")
    await cluster.create(house.gateway, RESOURCECLAIMS, PROBE_NAMESPACE, claim)
    await cluster.create(house.gateway, PODS, PROBE_NAMESPACE, pod)


@pytest.mark.lab
async def test_a_canary_goes_when_its_record_was_closed_by_hand(
    house: House, namespace: str, add_nodes: AddNodes
) -> None:
    """Pod, then claim; fence and record stay, and so does the canary of an open incident, until its record is gone."""
    retired, soaking = await house.held_devices(namespace, add_nodes, 2)
    async with house.watching(policy(namespace)) as watcher:
        await house.leading(watcher)
        records = {}
        for device in (retired, soaking):
            fence, begun = await house.broken(device)
            known = {"counters": Counters(fence=1, probe=CANARY), "fence": FenceRef(name=fence.name, uid=fence.uid)}
            records[device] = await house.says(begun, Phase.SOAKING, trial=Trial.CANARY, **known)
            await left(house, device, target_of(begun))
        closed = Closed(at=records[retired].spec.first_bad_at, outcome=Phase.RETIRED)
        await house.says(records[retired], Phase.RETIRED, closed=closed)

        async def gone() -> bool:
            return await cluster.trial_there(house.gateway, retired.numbered(CANARY)) == (False, False)

        await cluster.until(gone)
        assert await cluster.trial_there(house.gateway, soaking.numbered(CANARY)) == (True, True)
        assert (await house.fence(retired)).latched
        assert (await house.records.get(retired.record_name)).retired
        await house.records.delete(await house.records.unlatch(records[soaking], "k"))

        async def gone_too() -> bool:
            return await cluster.trial_there(house.gateway, soaking.numbered(CANARY)) == (False, False)

        await cluster.until(gone_too)
