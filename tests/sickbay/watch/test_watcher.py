"""The watcher on a real cluster: what is said of a device becomes a record, a fence and a workflow."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from k8s.lab.lab import Lab
from k8s.lab.nodes.fleet import Health as Word
from k8s.records import Records
from sickbay.model.observation import Health, Reason
from sickbay.model.policy import Mode
from sickbay.model.record import (
    Admission,
    AdmissionState,
    Phase,
    RecordDevice,
    RecordSpec,
    SeenSource,
)
from sickbay.telemetry.alert import Alert
from sickbay.watch import signals
from sickbay.watch.directory import DOUBT_FLOOR, DOUBT_SHARE
from tests.builders import NOW
from tests.conftest import AddNodes
from tests.installation import CLUSTER, OPERATORS, Installation
from tests.k8s import cluster
from tests.sickbay.watch.house import UNHEALTHY, House, directory_of, policy


async def test_bad_device_is_recorded_fenced_and_has_an_incident(
    house: House, lab: Lab, namespace: str, add_nodes: AddNodes
) -> None:
    """An Unhealthy device gets one admitted record, its first fence, and the workflow that the record names."""
    (device,) = await house.held_devices(namespace, add_nodes)
    async with house.watching(policy(namespace)) as watcher:
        await house.leading(watcher)
        await lab.fleet.break_device(device.pool, device.device, message="xid 79")
        record, fence = await house.record(device), await house.fence(device)
        spec = record.spec
        assert (spec.severity, spec.admission.state, spec.message) == (
            Health.UNHEALTHY,
            AdmissionState.ADMITTED,
            "xid 79",
        )
        assert (spec.term, spec.run, spec.first_fence) == (watcher.term, 1, 1)
        assert spec.hardware_id != "unknown"
        assert fence.matches(device, spec.incident, shadow=False)
        assert fence.effect_key == f"{device}/{spec.status_version}/fence/1"
        # What the device says now, Healthy, may have been told as well.
        assert (await house.told(spec.incident))[0] == "began run 1 Unhealthy admitted=True"


async def test_observe_mode_writes_nothing(house: House, lab: Lab, namespace: str, add_nodes: AddNodes) -> None:
    """In mode observe a bad device is seen and nothing else."""
    bad, good = await house.held_devices(namespace, add_nodes, 2)
    async with house.watching(policy(namespace, mode=Mode.OBSERVE)) as watcher:
        await house.leading(watcher)
        await lab.fleet.break_device(bad.pool, bad.device)

        async def seen() -> bool:
            return directory_of(watcher).track(bad).evidence(policy(namespace)).health is Health.UNHEALTHY

        await cluster.until(seen)
        await lab.fleet.break_device(good.pool, good.device)
        assert await house.none_of(bad)


async def test_shadow_mode_fences_with_no_effect(house: House, lab: Lab, namespace: str, add_nodes: AddNodes) -> None:
    """In mode shadow the fence keeps nothing away."""
    (device,) = await house.held_devices(namespace, add_nodes)
    async with house.watching(policy(namespace, mode=Mode.SHADOW)) as watcher:
        await house.leading(watcher)
        await lab.fleet.break_device(device.pool, device.device)
        assert (await house.fence(device)).effect == "None"


async def test_suspect_that_turns_bad_is_the_same_incident(
    house: House, lab: Lab, namespace: str, add_nodes: AddNodes
) -> None:
    """Unknown opens a Suspect without a fence; Unhealthy admits it, fences, and tells it so."""
    (device,) = await house.held_devices(namespace, add_nodes)
    async with house.watching(policy(namespace)) as watcher:
        await house.leading(watcher)
        await lab.fleet.break_device(device.pool, device.device, health=Word.UNKNOWN)
        suspect = await house.record(device)
        assert (suspect.spec.severity, suspect.spec.admission.state) == (Health.UNKNOWN, AdmissionState.NONE)
        await house.told(suspect.spec.incident)
        assert not await house.fences.list(device)
        await lab.fleet.break_device(device.pool, device.device)
        fence = await house.fence(device)
        raised = await house.record(device, when=lambda r: r.admitted)
        for field in ("incident", "status_version", "first_bad_at", "run"):
            assert getattr(raised.spec, field) == getattr(suspect.spec, field)
        assert raised.spec.severity is Health.UNHEALTHY
        assert fence.incident == suspect.spec.incident
        told = await house.told(suspect.spec.incident, when=lambda told: "admitted by guard" in told)
        assert told[0] == "began run 1 Unknown admitted=False"


async def test_record_that_a_person_made_runs_the_same_way(
    house: House, lab: Lab, sickbay: Installation, namespace: str, add_nodes: AddNodes
) -> None:
    """A device that nobody complains of is fenced because a person made its record."""
    (device,) = await house.held_devices(namespace, add_nodes)
    spec = RecordSpec(
        cluster=CLUSTER,
        device=RecordDevice(driver=device.driver, pool=device.pool, device=device.device),
        reason=Reason.PERSON,
        first_bad_at=NOW,
        incident=device.incident_id("person-1"),
        status_version="person-1",
        actor="ada",
        admission=Admission(state=AdmissionState.ADMITTED, by="ada"),
    )
    async with house.watching(policy(namespace)) as watcher:
        await house.leading(watcher)
        async with sickbay.as_user("ada", OPERATORS) as ada:
            await Records(ada).create(device, spec)
        assert (await house.fence(device)).incident == spec.incident
        # What the device says now, Healthy, may have been told as well.
        assert (await house.told(spec.incident))[0] == "began run 1 Unhealthy admitted=True"


async def test_ended_incident_is_not_reopened_by_what_it_saw(
    house: House, lab: Lab, namespace: str, add_nodes: AddNodes
) -> None:
    """A sticky report that the release outvoted opens nothing; a new transition takes the record over."""
    (device,) = await house.held_devices(namespace, add_nodes)
    async with house.watching(policy(namespace)) as watcher:
        await house.leading(watcher)
        _, opened = await house.broken(device)
        source = opened.spec.sources[0]
        seen = SeenSource(uid=source.uid, resource_version=source.resource_version, digest=UNHEALTHY)
        await house.release(device, seen)
        await lab.fleet.break_device(device.pool, device.device, message="the same in other words")

        async def heard() -> bool:
            return "other words" in directory_of(watcher).track(device).voices[0].said.message

        await cluster.until(heard)
        assert (await house.records.get(device.record_name)).closed
        await lab.fleet.heal(device.pool, device.device)
        await lab.fleet.break_device(device.pool, device.device)
        again = await house.record(device, when=lambda r: not r.closed)
        assert (again.spec.run, again.spec.first_fence, again.uid) == (1, 2, opened.uid)
        assert again.spec.incident != opened.spec.incident
        assert (await house.fence(device, 2)).incident == again.spec.incident


async def test_stale_lease_is_a_suspect_named_by_the_lease(
    house: House, lab: Lab, namespace: str, add_nodes: AddNodes
) -> None:
    """A node that stops renewing makes its devices Unknown; stale again, on a pod that did not change, is another."""
    (device,) = await house.held_devices(namespace, add_nodes, lease_interval=timedelta(seconds=1))
    async with house.watching(policy(namespace, staleness="4s", soak={"check": "1s"})) as watcher:
        await house.leading(watcher)
        await lab.fleet.stop_lease(device.pool)
        suspect = await house.record(device)
        assert (suspect.spec.reason, suspect.spec.severity) == (Reason.NODE_UNREACHABLE, Health.UNKNOWN)
        assert suspect.spec.status_version == suspect.spec.lease_version
        assert not await house.fences.list(device)
        seen = (SeenSource(uid=s.uid, resource_version=s.resource_version) for s in suspect.spec.sources)
        await house.release(device, *seen, outcome=Phase.CLEARED, lease_version=suspect.spec.lease_version)
        await lab.fleet.resume_lease(device.pool)

        async def heard_of() -> bool:
            return directory_of(watcher).track(device).evidence(policy(namespace)).health is Health.HEALTHY

        await cluster.until(heard_of)
        await lab.fleet.stop_lease(device.pool)
        again = await house.record(device, when=lambda r: not r.closed)
        assert again.spec.incident != suspect.spec.incident
        assert again.spec.reason is Reason.NODE_UNREACHABLE
        assert [s.uid for s in again.spec.sources] == [s.uid for s in suspect.spec.sources]


async def test_two_versions_of_a_status_in_one_second_are_one_incident(
    house: House, lab: Lab, namespace: str, add_nodes: AddNodes
) -> None:
    """The first names the incident, and the second, just as bad, opens no other."""
    (device,) = await house.held_devices(namespace, add_nodes)
    async with house.watching(policy(namespace)) as watcher:
        await house.leading(watcher)
        for message in ("xid 79", "xid 48"):
            await lab.fleet.break_device(device.pool, device.device, message=message)

        async def heard_both() -> bool:
            return directory_of(watcher).track(device).voices[0].said.message == "xid 48"

        await cluster.until(heard_both)
        record = await house.record(device)
        assert (await house.fence(device)).incident == record.spec.incident
        assert record.spec.message == "xid 79"
        incidents = {r.spec.incident for r in (await house.records.list()).records}
        assert incidents == {record.spec.incident}
        assert [f.number for f in await house.fences.list(device)] == [1]


async def test_hundred_dispatches_are_one_incident(house: House, lab: Lab, namespace: str, add_nodes: AddNodes) -> None:
    """However often a device is looked at at once: one record, one fence, one workflow."""
    (device,) = await house.held_devices(namespace, add_nodes)
    async with house.watching(policy(namespace)) as watcher:
        await house.leading(watcher)
        directory_of(watcher).listener.device = lambda _: None  # deaf, so that only the calls below act
        await lab.fleet.break_device(device.pool, device.device)

        async def seen() -> bool:
            return directory_of(watcher).track(device).evidence(policy(namespace)).health is Health.UNHEALTHY

        await cluster.until(seen)
        assert watcher._serving is not None
        leader = watcher._serving._leader
        await asyncio.gather(*(leader.process(device) for _ in range(100)))
        record = await house.record(device)
        assert len(await house.fences.list(device)) == 1
        assert await house.told(record.spec.incident) == ["began run 1 Unhealthy admitted=True"]


async def test_flapping_device_is_one_incident_and_few_words(
    house: House, lab: Lab, namespace: str, add_nodes: AddNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty flips in a few seconds: one record, one fence, and what the incident is told does not grow with them."""
    monkeypatch.setattr(signals, "INTERVAL", timedelta(seconds=5))
    (device,) = await house.held_devices(namespace, add_nodes)
    async with house.watching(policy(namespace)) as watcher:
        await house.leading(watcher)
        for _ in range(10):
            await lab.fleet.break_device(device.pool, device.device)
            await lab.fleet.heal(device.pool, device.device)
        record = await house.record(device)
        told = await house.told(record.spec.incident, when=lambda told: len(told) > 1)
        assert len(told) == 2
        assert len(await house.fences.list(device)) == 1
        assert (await house.records.get(device.record_name)).spec == record.spec


async def test_record_of_long_ago_is_removed(house: House, lab: Lab, namespace: str, add_nodes: AddNodes) -> None:
    """A closed record goes after ``keep``, once nothing bad is said that it would explain."""
    (device,) = await house.held_devices(namespace, add_nodes)
    async with house.watching(policy(namespace, keep="1s")) as watcher:
        await house.leading(watcher)
        _, record = await house.broken(device)
        source = record.spec.sources[0]
        await house.release(device, SeenSource(uid=source.uid, resource_version=source.resource_version))
        await lab.fleet.heal(device.pool, device.device)

        async def removed() -> bool:
            return await house.none_of(device)

        await cluster.until(removed)


async def test_most_of_the_fleet_unknown_opens_nothing(
    house: House, lab: Lab, namespace: str, add_nodes: AddNodes
) -> None:
    """When most devices turn Unknown at once it is none of theirs: no new suspects beyond the doubt, and one alert."""
    devices = await house.held_devices(namespace, add_nodes, 2 * DOUBT_FLOOR)
    async with house.watching(policy(namespace)) as watcher:
        await house.leading(watcher)
        for device in devices:
            await lab.fleet.break_device(device.pool, device.device, health=Word.UNKNOWN)

        async def told() -> bool:
            return watcher.tells(Alert.FLEET_IN_DOUBT)

        await cluster.until(told)
        directory = directory_of(watcher)
        assert directory.in_doubt
        opened = len((await house.records.list()).records)
        assert opened <= max(DOUBT_FLOOR, DOUBT_SHARE * len(directory._reported)) < len(directory.doubted)
