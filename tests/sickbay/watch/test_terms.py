"""One leader after another: what a new term finds, and what it leaves alone."""

from __future__ import annotations

from datetime import timedelta

from k8s.control import MemoryMap
from k8s.election import Timing
from k8s.lab.lab import Lab
from k8s.lab.nodes.fleet import Health as Word
from sickbay.model.observation import Health
from sickbay.model.record import (
    SeenSource,
)
from tests.conftest import AddNodes
from tests.k8s import cluster
from tests.sickbay.watch.house import UNHEALTHY, House, policy

FAST = Timing(timedelta(seconds=3), timedelta(seconds=2), timedelta(seconds=0.5))


async def test_device_that_is_bad_already_is_found_at_the_start(
    house: House, lab: Lab, namespace: str, add_nodes: AddNodes
) -> None:
    """What happened while nobody led is found by the first look."""
    (device,) = await house.held_devices(namespace, add_nodes)
    await lab.fleet.break_device(device.pool, device.device)
    async with house.watching(policy(namespace)):
        assert (await house.fence(device)).number == 1


async def test_restarted_watcher_does_not_reopen_either(
    house: House, lab: Lab, namespace: str, add_nodes: AddNodes
) -> None:
    """A new process that hears the sticky report for the first time opens nothing."""
    bad, other = await house.held_devices(namespace, add_nodes, 2)
    async with house.watching(policy(namespace)):
        await lab.fleet.break_device(bad.pool, bad.device)
        await house.fence(bad)
        opened = await house.record(bad)
        await house.told(opened.spec.incident)
    await house.release(bad, SeenSource(uid=opened.spec.sources[0].uid, resource_version="1", digest=UNHEALTHY))
    async with house.watching(policy(namespace)):
        await lab.fleet.break_device(other.pool, other.device)
        await house.fence(other)
        assert (await house.records.get(bad.record_name)).closed


async def test_second_watcher_stands_by_and_takes_over(
    house: House, lab: Lab, namespace: str, add_nodes: AddNodes
) -> None:
    """Two watchers, one acts; when it goes the other acts, and nothing is done twice."""
    first, second = await house.held_devices(namespace, add_nodes, 2)
    async with house.watching(policy(namespace), timing=FAST) as standby:
        async with house.watching(policy(namespace), timing=FAST) as other:
            leader = await house.leading(standby, other)
            follower = other if leader is standby else standby
            await lab.fleet.break_device(first.pool, first.device)
            before = await house.record(first)
            assert not follower.acting
        # `other` is gone; whoever is left leads.
        await house.leading(standby)
        await lab.fleet.break_device(second.pool, second.device)
        assert (await house.fence(second)).number == 1
        assert (await house.records.get(first.record_name)).spec == before.spec


async def test_known_devices_survive_a_change_of_leader(
    house: House, lab: Lab, namespace: str, add_nodes: AddNodes
) -> None:
    """Unknown is the first that a new process hears of a device, and it counts because the last leader knew it."""
    (device,) = await house.held_devices(namespace, add_nodes)
    memory = MemoryMap(house.gateway)

    async def remembered() -> bool:
        return device.digest in (await memory.load()).known

    async with house.watching(policy(namespace)) as watcher:
        await house.leading(watcher)
        await cluster.until(remembered)
    await lab.fleet.break_device(device.pool, device.device, health=Word.UNKNOWN)
    async with house.watching(policy(namespace)):
        assert (await house.record(device)).spec.severity is Health.UNKNOWN


async def test_ended_workflow_of_an_open_record_is_run_again(
    house: House, lab: Lab, namespace: str, add_nodes: AddNodes
) -> None:
    """A terminated workflow comes back as the next run of the same incident."""
    (device,) = await house.held_devices(namespace, add_nodes)
    async with house.watching(policy(namespace)) as watcher:
        await house.leading(watcher)
        await lab.fleet.break_device(device.pool, device.device)
        record = await house.record(device)
        await house.told(record.spec.incident)
        await (await house.temporal.client()).get_workflow_handle(record.spec.incident).terminate("by hand")
        await lab.fleet.heal(device.pool, device.device)  # its word finds nobody there
        told = await house.told(record.spec.incident)
        assert told[0] == "began run 2 Unhealthy admitted=True"
        assert (await house.records.get(device.record_name)).spec.run == 2
