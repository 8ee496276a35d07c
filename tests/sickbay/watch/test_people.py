"""What people said of an incident, and the leader: a paused one is left in peace, a retired one is over."""

from __future__ import annotations

from datetime import timedelta

import pytest

from k8s.gateway import MERGE_PATCH, decode
from k8s.lab.lab import Lab
from k8s.resources import RESOURCESLICES
from sickbay.model.observation import Health, Reason
from sickbay.model.record import PAUSED, Closed, Condition, Counters, FenceRef, Phase
from sickbay.watch import leader, signals
from tests.conftest import AddNodes
from tests.k8s import cluster
from tests.sickbay.watch.house import House, directory_of, policy

pytestmark = pytest.mark.lab


async def test_a_paused_incident_is_told_only_afterwards(
    house: House, lab: Lab, namespace: str, add_nodes: AddNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However its device flaps meanwhile; then it is told what is said by then."""
    monkeypatch.setattr(signals, "INTERVAL", timedelta(0))
    (device,) = await house.held_devices(namespace, add_nodes)
    async with house.watching(policy(namespace)) as watcher:
        await house.leading(watcher)
        await lab.fleet.break_device(device.pool, device.device)
        await house.fence(device)
        record = await house.record(device)
        await house.told(record.spec.incident)
        fence = (await house.fences.list(device))[0]
        known = {"counters": Counters(fence=1), "fence": FenceRef(name=fence.name, uid=fence.uid)}
        record = await house.says(record, Phase.QUARANTINED, conditions=(Condition(type=PAUSED),), **known)

        async def known_paused() -> bool:
            found = directory_of(watcher).books.record(device)
            return found is not None and found.paused

        await cluster.until(known_paused)
        before = await house.told(record.spec.incident)
        for _ in range(5):
            await lab.fleet.break_device(device.pool, device.device)
            await lab.fleet.heal(device.pool, device.device)

        async def heard() -> bool:
            return directory_of(watcher).track(device).evidence(policy(namespace)).health is Health.HEALTHY

        await cluster.until(heard)
        assert await house.told(record.spec.incident) == before
        record = await house.records.get(device.record_name)
        await house.says(record, Phase.QUARANTINED, conditions=(Condition(type=PAUSED, status="False"),))
        after = await house.told(record.spec.incident, when=lambda told: len(told) > len(before))
        assert len(after) == len(before) + 1


async def test_a_retired_device_comes_back_as_other_hardware(
    house: House, lab: Lab, namespace: str, add_nodes: AddNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that is said of the old one opens an incident; a new card in its slot does, fenced as it is."""
    monkeypatch.setattr(leader, "RETIRED", timedelta(milliseconds=200))
    (device,) = await house.held_devices(namespace, add_nodes)
    async with house.watching(policy(namespace, keep="0s")) as watcher:
        await house.leading(watcher)
        await lab.fleet.break_device(device.pool, device.device)
        fence = await house.fence(device)
        record = await house.record(device)
        await house.told(record.spec.incident)
        closed = Closed(at=record.spec.first_bad_at, outcome=Phase.RETIRED)
        known = {"counters": Counters(fence=1), "fence": FenceRef(name=fence.name, uid=fence.uid), "closed": closed}
        retired = await house.says(record, Phase.RETIRED, **known)
        handle = (await house.temporal.client()).get_workflow_handle(record.spec.incident)
        await handle.terminate("ended by the test")
        await house.records.unlatch(retired, "close/1")

        async def untaken() -> bool:
            return f"{namespace}.example" not in {d for d, n in directory_of(watcher).books.taken.items() if n}

        await cluster.until(untaken)
        await lab.fleet.heal(device.pool, device.device)
        await lab.fleet.break_device(device.pool, device.device, message="still bad")

        async def heard() -> bool:
            return directory_of(watcher).track(device).voices[0].said.message == "still bad"

        await cluster.until(heard)
        assert (await house.records.get(device.record_name)).spec.incident == record.spec.incident
        await swap(lab, device.driver, device.device)
        again = await house.record(device, when=lambda r: not r.closed)
        assert again.spec.hardware_id == "GPU-new"
        assert again.spec.reason in {Reason.ORPHAN, Reason.REPORTED}
        assert fence.uid in {f.uid for f in await house.fences.list(device)}


async def swap(lab: Lab, driver: str, device: str) -> None:
    """Let the driver publish other hardware in a slot."""
    listed = decode(await lab.gateway.request("GET", RESOURCESLICES.path()))
    (published,) = [s for s in listed["items"] if s["spec"]["driver"] == driver]
    devices = published["spec"]["devices"]
    for found in devices:
        if found["name"] == device:
            found["attributes"]["uuid"] = {"string": "GPU-new"}
    path = RESOURCESLICES.path(name=published["metadata"]["name"])
    await lab.gateway.request("PATCH", path, body={"spec": {"devices": devices}}, content_type=MERGE_PATCH)
