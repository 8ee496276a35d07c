"""A device that a person gives up, and the leader: the incident is told at once, and nothing else is decided."""

from __future__ import annotations

import pytest

from k8s.fences import Fences
from k8s.lab.lab import Lab
from k8s.records import Records
from sickbay.model.policy import Guard, Mode
from sickbay.model.record import PAUSED, AdmissionState, Closed, Condition, Disowning, Phase, Record, SeenSource
from tests.conftest import AddNodes
from tests.installation import BREAK_GLASS, Installation
from tests.k8s import cluster
from tests.sickbay.watch.house import UNHEALTHY, House, directory_of, policy

pytestmark = pytest.mark.lab


async def give_up(sickbay: Installation, record: Record) -> None:
    """Say it as somebody who may."""
    async with sickbay.as_user("eve", BREAK_GLASS) as eve:
        records = Records(eve)
        word = Disowning(by="eve", reason="needed", incident=record.spec.incident)
        await records.disown(await records.get(record.name), word)


async def test_a_paused_incident_is_told_at_once(
    house: House, sickbay: Installation, namespace: str, add_nodes: AddNodes
) -> None:
    """Once, though it is told nothing else, and by the next leader again."""
    (device,) = await house.held_devices(namespace, add_nodes)
    one = policy(namespace)
    async with house.watching(one) as watcher:
        await house.leading(watcher)
        _, record = await house.broken(device)
        await house.says(record, Phase.QUARANTINED, conditions=(Condition(type=PAUSED),))
        await give_up(sickbay, record)
        told = await house.told(record.spec.incident, when=lambda told: any("given up" in line for line in told))
        assert sum("given up" in line for line in told) == 1
    async with house.watching(one) as watcher:
        await house.leading(watcher)
        await house.told(record.spec.incident, when=lambda told: sum("given up" in line for line in told) == 2)


async def test_what_is_given_up_is_not_admitted(
    house: House, sickbay: Installation, lab: Lab, namespace: str, add_nodes: AddNodes
) -> None:
    """Whatever room there is: it would only be fenced to be freed. The room is another's."""
    first, second = await house.held_devices(namespace, add_nodes, 2)
    one = policy(namespace, mode=Mode.APPROVE, guard=Guard(share=1.0, floor=0, ceiling=1000))
    async with house.watching(one) as watcher:
        await house.leading(watcher)
        await lab.fleet.break_device(first.pool, first.device)
        held = await house.record(first)
        await house.told(held.spec.incident)  # one that begins later reads it first of all
        await give_up(sickbay, held)
        await house.told(held.spec.incident, when=lambda told: any("given up" in line for line in told))
        approved = (Condition(type="Approved", message="ada"),)
        await house.says(await house.records.get(held.name), Phase.HELD, conditions=approved)
        await lab.fleet.break_device(second.pool, second.device)
        other = await house.record(second)
        await house.says(other, Phase.HELD, conditions=approved)
        await house.record(second, when=lambda r: r.admitted)
        assert (await house.records.get(held.name)).spec.admission.state is AdmissionState.HELD
        assert not await Fences(house.gateway).list(first)


async def test_it_is_over_with_its_incident(
    house: House, sickbay: Installation, lab: Lab, namespace: str, add_nodes: AddNodes
) -> None:
    """What was said of it by then opens nothing; what is said anew opens another, which nobody has given up."""
    (device,) = await house.held_devices(namespace, add_nodes)
    async with house.watching(policy(namespace)) as watcher:
        await house.leading(watcher)
        _, record = await house.broken(device)
        await give_up(sickbay, record)
        await house.told(record.spec.incident, when=lambda told: any("given up" in line for line in told))
        source = record.spec.sources[0]
        seen = SeenSource(uid=source.uid, resource_version=source.resource_version, digest=UNHEALTHY)
        await house.release(device, seen, outcome=Phase.DISOWNED)

        async def known() -> bool:
            found = directory_of(watcher).books.record(device)
            return found is not None and found.closed

        await cluster.until(known)
        assert (await house.records.get(record.name)).status.closed == Closed(
            at=record.spec.first_bad_at, outcome=Phase.DISOWNED, seen=(seen,)
        )
        await lab.fleet.heal(device.pool, device.device)
        await lab.fleet.break_device(device.pool, device.device)
        again = await house.record(device, when=lambda r: not r.closed)
        assert again.spec.incident != record.spec.incident
        assert (again.disowning is None, again.disowned) == (False, None)
        await house.fence(device, 2)
