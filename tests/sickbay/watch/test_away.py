"""Temporal away, back, or another: devices are fenced all the same, incidents start when it is time."""

from __future__ import annotations

from pathlib import Path

from k8s.control import ControlMap
from k8s.lab.lab import Lab
from sickbay.telemetry.alert import Alert
from tests.conftest import AddNodes
from tests.k8s import cluster
from tests.sickbay.watch.house import House, policy


async def test_fenced_without_temporal_and_started_when_it_is_back(
    house: House, lab: Lab, namespace: str, add_nodes: AddNodes
) -> None:
    """A watcher that starts without Temporal fences, tells so once, and starts the incident soon after it is back."""
    (device,) = await house.held_devices(namespace, add_nodes)
    await lab.temporal.kill()
    try:
        async with house.watching(policy(namespace)) as watcher:
            await house.leading(watcher)
            await lab.fleet.break_device(device.pool, device.device)
            await house.fence(device)

            async def told() -> bool:
                return watcher.tells(Alert.TEMPORAL_UNAVAILABLE)

            await cluster.until(told)
            record = await house.record(device)
            await lab.temporal.start()
            assert await house.told(record.spec.incident, within=5.0) == ["began run 1 Unhealthy admitted=True"]
            assert b'sickbay_alerts_total{alert="TemporalUnavailable"} 1.0' in watcher._meter.exposed()
    finally:
        if not lab.temporal.running:
            await lab.temporal.start()


async def test_replaced_database_starts_nothing_until_it_is_adopted(
    house: House, lab: Lab, namespace: str, add_nodes: AddNodes
) -> None:
    """With another database nothing is started and fences stay; once a person has adopted it, all go on."""
    devices = await house.held_devices(namespace, add_nodes, 3)
    async with house.watching(policy(namespace)) as watcher:
        await house.leading(watcher)
        for device in devices:
            await lab.fleet.break_device(device.pool, device.device)
        incidents = [(await house.record(device)).spec.incident for device in devices]
        for incident in incidents:
            await house.told(incident)
        await lab.temporal.stop()
        database = lab.temporal._options.database
        assert database is not None
        forget(database)
        await lab.temporal.start()

        async def told() -> bool:
            return watcher.tells(Alert.NAMESPACE_MISMATCH)

        await cluster.until(told)
        for device, incident in zip(devices, incidents, strict=True):
            await lab.fleet.heal(device.pool, device.device)  # a word for an incident that is not there
            assert (await house.temporal.describe(incident)).standing == "NotFound"
            assert len(await house.fences.list(device)) == 1
        found = await house.temporal.namespace_id()
        await ControlMap(lab.gateway).adopt(found)
        for device, incident in zip(devices, incidents, strict=True):
            assert (await house.told(incident))[0] == "began run 1 Unhealthy admitted=True"
            assert (await house.records.get(device.record_name)).spec.namespace_id == found


def forget(database: Path) -> None:
    """Remove a database with its journals."""
    for file in database.parent.glob(f"{database.name}*"):
        file.unlink()
