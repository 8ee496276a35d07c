"""What people said of an incident, and the leader: a paused one is left in peace, a retired one is over."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from k8s.gateway import MERGE_PATCH, decode
from k8s.lab.lab import Lab
from k8s.resources import RESOURCESLICES
from sickbay.model.device import DeviceKey
from sickbay.model.observation import Health, Reason
from sickbay.model.policy import Policy
from sickbay.model.record import PAUSED, Closed, Condition, Counters, FenceRef, Phase, Record
from sickbay.telemetry.alert import Alert
from sickbay.watch import leader, signals
from sickbay.watch.watcher import Watcher
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
        fence, record = await house.broken(device)
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
        record = await retired(house, device)
        (fence,) = await house.fences.list(device)

        async def untaken() -> bool:
            return f"{namespace}.example" not in {d for d, n in directory_of(watcher).books.taken.items() if n}

        await cluster.until(untaken)
        await lab.fleet.heal(device.pool, device.device)
        await lab.fleet.break_device(device.pool, device.device, message="still bad")

        await heard(watcher, device, "still bad")
        assert (await house.records.get(device.record_name)).spec.incident == record.spec.incident
        await swap(lab, device, "uuid", "GPU-new")
        again = await house.record(device, when=lambda r: not r.closed)
        assert again.spec.hardware_id == "GPU-new"
        assert again.spec.reason in {Reason.SWAPPED, Reason.REPORTED}
        assert again.spec.admission.by == "swap"
        assert again.spec.node == record.spec.node != ""
        assert not watcher.tells(Alert.ORPHAN_FENCE, str(device))
        assert fence.uid in {f.uid for f in await house.fences.list(device)}


async def retired(house: House, device: DeviceKey, **known: Any) -> Record:
    """Break a device, and let its incident end as a person wants who retires it."""
    fence, record = await house.broken(device)
    closed = Closed(at=record.spec.first_bad_at, outcome=Phase.RETIRED)
    known |= {"counters": Counters(fence=1), "fence": FenceRef(name=fence.name, uid=fence.uid), "closed": closed}
    record = await house.says(record, Phase.RETIRED, **known)
    handle = (await house.temporal.client()).get_workflow_handle(record.spec.incident)
    await handle.terminate("ended by the test")
    return await house.records.unlatch(record, "close/1")


def by_serial(namespace: str) -> Policy:
    """Build a policy that knows hardware by an attribute which the driver does not publish yet."""
    return policy(namespace, probe={"identity": {f"{namespace}.example": "serial"}})


async def test_hardware_that_only_the_incident_knew_is_told_from_another(
    house: House, lab: Lab, namespace: str, add_nodes: AddNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record of before the first reading knows none; the same card is left fenced, another is tried."""
    monkeypatch.setattr(leader, "RETIRED", timedelta(milliseconds=200))
    (device,) = await house.held_devices(namespace, add_nodes)
    async with house.watching(by_serial(namespace)) as watcher:
        await house.leading(watcher)
        record = await retired(house, device, hardware_id="S-1")
        assert (record.spec.hardware_id, record.hardware_id) == ("unknown", "S-1")
        await swap(lab, device, "serial", "S-1")
        await published(watcher, device, "S-1")
        await lab.fleet.break_device(device.pool, device.device, message="still bad")
        await heard(watcher, device, "still bad")
        assert (await house.records.get(device.record_name)).spec.incident == record.spec.incident
        await swap(lab, device, "serial", "S-2")
        again = await house.record(device, when=lambda r: not r.closed)
        assert again.spec.hardware_id == "S-2"
        assert not watcher.tells(Alert.RETIRED_UNKNOWN, str(device))
        assert not watcher.tells(Alert.ORPHAN_FENCE, str(device))


async def test_hardware_that_nobody_knew_is_a_persons_matter(
    house: House, lab: Lab, namespace: str, add_nodes: AddNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is published later may be the same: it stays fenced and a person is told, who deletes the record."""
    monkeypatch.setattr(leader, "RETIRED", timedelta(milliseconds=200))
    (device,) = await house.held_devices(namespace, add_nodes)
    async with house.watching(by_serial(namespace)) as watcher:
        await house.leading(watcher)
        record = await retired(house, device)
        assert record.hardware_id == "unknown"
        await swap(lab, device, "serial", "S-2")

        async def told() -> bool:
            return watcher.tells(Alert.RETIRED_UNKNOWN, str(device))

        await cluster.until(told)
        same = await house.records.get(device.record_name)
        assert (same.spec.incident, same.retired) == (record.spec.incident, True)
        await house.records.delete(same)
        again = await house.record(device, when=lambda r: not r.closed)
        assert again.spec.hardware_id == "S-2"
        assert not watcher.tells(Alert.RETIRED_UNKNOWN, str(device))


async def published(watcher: Watcher, device: DeviceKey, serial: str) -> None:
    """Wait until a watcher knows which hardware is in a slot."""

    async def known() -> bool:
        return directory_of(watcher).pools.hardware_id(device, "serial") == serial

    await cluster.until(known)


async def heard(watcher: Watcher, device: DeviceKey, message: str) -> None:
    """Wait until a watcher has heard what is said of a device."""

    async def known() -> bool:
        return directory_of(watcher).track(device).voices[0].said.message == message

    await cluster.until(known)


async def swap(lab: Lab, device: DeviceKey, attribute: str, value: str) -> None:
    """Let the driver publish an identity in a slot, or another one."""
    listed = decode(await lab.gateway.request("GET", RESOURCESLICES.path()))
    (published,) = [s for s in listed["items"] if s["spec"]["driver"] == device.driver]
    devices = published["spec"]["devices"]
    for found in devices:
        if found["name"] == device.device:
            found["attributes"][attribute] = {"string": value}
    path = RESOURCESLICES.path(name=published["metadata"]["name"])
    await lab.gateway.request("PATCH", path, body={"spec": {"devices": devices}}, content_type=MERGE_PATCH)
