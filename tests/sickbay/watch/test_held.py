"""Admission on a real cluster: the guard, a person's approval, and the pause switch."""

from __future__ import annotations

import asyncio
from functools import partial

from k8s.control import ControlMap
from k8s.lab.lab import Lab
from k8s.lab.nodes.fleet import Health as Word
from sickbay.model.observation import Health
from sickbay.model.policy import Guard, Mode
from sickbay.model.record import (
    AdmissionState,
    Condition,
    Phase,
    SeenSource,
)
from sickbay.telemetry.alert import Alert
from sickbay.watch.waiting import GATHER
from tests.conftest import AddNodes
from tests.k8s import cluster
from tests.sickbay.watch.house import House, policy, sample


async def test_guard_holds_and_admits_later(house: House, lab: Lab, namespace: str, add_nodes: AddNodes) -> None:
    """Beyond the share an incident is Held, with its numbers; a release admits it."""
    first, second = await house.held_devices(namespace, add_nodes, 2)
    one = policy(namespace, guard=Guard(share=0.5, floor=0, ceiling=1000))
    async with house.watching(one) as watcher:
        await house.leading(watcher)
        await lab.fleet.break_device(first.pool, first.device)
        await house.fence(first)
        await lab.fleet.break_device(second.pool, second.device)
        held = await house.record(second)
        assert held.spec.admission.state is AdmissionState.HELD
        assert "1 of 2 devices" in held.spec.admission.numbers
        assert not await house.fences.list(second)
        source = (await house.records.get(first.record_name)).spec.sources[0]
        await house.release(first, SeenSource(uid=source.uid, resource_version=source.resource_version))
        admitted = await house.record(second, when=lambda r: r.admitted)
        assert (await house.fence(second)).incident == admitted.spec.incident
        await house.told(admitted.spec.incident, when=lambda told: "admitted by guard" in told)


async def test_person_approves_by_name(house: House, lab: Lab, namespace: str, add_nodes: AddNodes) -> None:
    """In mode approve nothing is fenced before a person says so, of this very incident; the record says who."""
    (device,) = await house.held_devices(namespace, add_nodes)
    async with house.watching(policy(namespace, mode=Mode.APPROVE)) as watcher:
        await house.leading(watcher)
        await lab.fleet.break_device(device.pool, device.device)
        held = await house.record(device)
        assert "waits for a person" in held.spec.admission.numbers
        approved = (Condition(type="Approved", message="ada"),)
        await house.says(held, Phase.HELD, conditions=approved)
        record = await house.record(device, when=lambda r: r.admitted)
        assert record.spec.admission.by == "ada"
        await house.fence(device)
        source = record.spec.sources[0]
        await house.release(device, SeenSource(uid=source.uid, resource_version=source.resource_version))
        for health in (Word.HEALTHY, Word.UNHEALTHY):
            await lab.fleet.break_device(device.pool, device.device, health=health)
        again = await house.record(device, when=lambda r: not r.closed)
        assert again.spec.incident != record.spec.incident
        await asyncio.sleep(3 * GATHER.total_seconds())  # in which the guard rules on it
        assert (await house.records.get(device.record_name)).spec.admission.state is AdmissionState.HELD


async def test_paused_installation_only_observes(house: House, lab: Lab, namespace: str, add_nodes: AddNodes) -> None:
    """While paused nothing is written of a bad device; afterwards it is."""
    (device,) = await house.held_devices(namespace, add_nodes)
    control = ControlMap(lab.gateway)
    async with house.watching(policy(namespace)) as watcher:
        await house.leading(watcher)
        await control.pause(who="ada", why="test")
        assert watcher._serving is not None
        await watcher._serving._office.read()
        await lab.fleet.break_device(device.pool, device.device)

        async def refused() -> bool:
            return b'sickbay_refusals_total{cause="Paused"}' in watcher._meter.exposed()

        await cluster.until(refused)
        assert await house.none_of(device)
        await control.resume()
        await house.fence(device)


async def test_approval_waits_for_the_end_of_a_pause_without_haste(
    house: House, lab: Lab, namespace: str, add_nodes: AddNodes
) -> None:
    """An admission that may not be written yet is looked at again every few seconds, and written after the pause."""
    (device,) = await house.held_devices(namespace, add_nodes)
    control = ControlMap(lab.gateway)
    async with house.watching(policy(namespace, mode=Mode.APPROVE)) as watcher:
        await house.leading(watcher)
        await lab.fleet.break_device(device.pool, device.device)
        held = await house.record(device)
        await control.pause(who="ada", why="test")
        assert watcher._serving is not None
        await watcher._serving._office.read()
        await house.says(held, Phase.HELD, conditions=(Condition(type="Approved", message="ada"),))
        refused = partial(sample, watcher, "sickbay_refusals_total", cause="Paused")

        async def looked() -> bool:
            return refused() > 0

        await cluster.until(looked)
        await asyncio.sleep(10 * GATHER.total_seconds())  # in which a hasty room would ask ten times
        assert refused() <= 4  # leader and caretaker, once or twice each
        assert not await house.fences.list(device)
        await control.resume()
        await house.fence(device)


async def test_held_incident_is_not_let_loose_by_mode_shadow(
    house: House, lab: Lab, namespace: str, add_nodes: AddNodes
) -> None:
    """What began under a policy that acts waits on under one that only shows: held or still a suspect."""
    held, suspect = await house.held_devices(namespace, add_nodes, 2)
    async with house.watching(policy(namespace, mode=Mode.APPROVE)) as watcher:
        await house.leading(watcher)
        await lab.fleet.break_device(held.pool, held.device)
        await lab.fleet.break_device(suspect.pool, suspect.device, health=Word.UNKNOWN)
        assert (await house.record(held)).spec.admission.state is AdmissionState.HELD
        await house.record(suspect)
    async with house.watching(policy(namespace, mode=Mode.SHADOW)) as watcher:
        await house.leading(watcher)
        await lab.fleet.break_device(suspect.pool, suspect.device)
        raised = await house.record(suspect, when=lambda r: r.spec.severity is Health.UNHEALTHY)
        assert raised.spec.admission.state is AdmissionState.HELD
        assert "began with another policy" in raised.spec.admission.numbers

        async def told() -> bool:
            return watcher.tells(Alert.INCIDENTS_HELD)

        await cluster.until(told)
        assert (await house.records.get(held.record_name)).spec.admission.state is AdmissionState.HELD
        assert not await house.fences.list()


async def test_burst_stops_at_the_share(house: House, lab: Lab, namespace: str, add_nodes: AddNodes) -> None:
    """However many turn bad at once, no more than the share is ever fenced."""
    devices = await house.held_devices(namespace, add_nodes, 8)
    half = policy(namespace, guard=Guard(share=0.5, floor=0, ceiling=1000, per_minute=1000))
    async with house.watching(half) as watcher:
        await house.leading(watcher)
        await asyncio.gather(*(lab.fleet.break_device(d.pool, d.device) for d in devices))
        records = [await house.record(device) for device in devices]
        states = [record.spec.admission.state for record in records]
        assert sorted(states) == [AdmissionState.ADMITTED] * 4 + [AdmissionState.HELD] * 4
        fenced = [device for device, state in zip(devices, states, strict=True) if state is AdmissionState.ADMITTED]
        for device in fenced:
            await house.fence(device)
        assert {d for d in devices if await house.fences.list(d)} == set(fenced)
