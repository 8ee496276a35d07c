"""The watcher on a real cluster: what is said of a device becomes a record, a fence and a workflow."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from k8s.control import ControlMap, MemoryMap
from k8s.election import Timing
from k8s.lab.lab import Lab
from k8s.lab.nodes.fleet import Health as Word
from k8s.records import Records
from sickbay.model.observation import Health, Reason, digest_of
from sickbay.model.policy import Guard, Mode
from sickbay.model.record import (
    Admission,
    AdmissionState,
    Condition,
    Counters,
    FenceRef,
    Phase,
    RecordDevice,
    RecordSpec,
    SeenSource,
)
from sickbay.watch.alerts import Alert
from sickbay.watch.directory import DOUBT_FLOOR, DOUBT_SHARE
from tests.builders import NOW
from tests.conftest import AddNodes
from tests.installation import BREAK_GLASS, CLUSTER, OPERATORS, Installation, record_spec
from tests.k8s import cluster
from tests.sickbay.watch.house import House, directory_of, policy

UNHEALTHY = digest_of(Health.UNHEALTHY, Reason.REPORTED)
FAST = Timing(timedelta(seconds=3), timedelta(seconds=2), timedelta(seconds=0.5))


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


async def test_device_that_is_bad_already_is_found_at_the_start(
    house: House, lab: Lab, namespace: str, add_nodes: AddNodes
) -> None:
    """What happened while nobody led is found by the first look."""
    (device,) = await house.held_devices(namespace, add_nodes)
    await lab.fleet.break_device(device.pool, device.device)
    async with house.watching(policy(namespace)):
        assert (await house.fence(device)).number == 1


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
    """In mode approve nothing is fenced before a person says so, and the record says who."""
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
        await lab.fleet.break_device(device.pool, device.device)
        await house.fence(device)
        opened = await house.record(device)
        await house.told(opened.spec.incident)
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


async def test_orphan_fence_gets_an_incident(house: House, namespace: str, add_nodes: AddNodes) -> None:
    """A fence of ours without an open incident is kept, and answered for by a new one."""
    (device,) = await house.held_devices(namespace, add_nodes)
    await house.fences.put(device, 3, incident="incident/of/long/ago", effect_key="k")
    async with house.watching(policy(namespace)) as watcher:
        await house.leading(watcher)
        record = await house.record(device)
        assert (record.spec.reason, record.spec.admission.by) == (Reason.ORPHAN, "orphan")
        assert record.spec.first_fence == 4
        assert (await house.fence(device, 4)).incident == record.spec.incident
        assert (await house.fence(device, 3)).latched
        assert await house.told(record.spec.incident)


async def test_fence_deleted_by_hand_is_told_at_once(
    house: House, lab: Lab, sickbay: Installation, namespace: str, add_nodes: AddNodes
) -> None:
    """The incident hears that its fence was taken away; during a release it does not."""
    (device,) = await house.held_devices(namespace, add_nodes)
    async with house.watching(policy(namespace)) as watcher:
        await house.leading(watcher)
        await lab.fleet.break_device(device.pool, device.device)
        fence, record = await house.fence(device), await house.record(device)
        await house.told(record.spec.incident)
        await house.says(
            record, Phase.QUARANTINED, counters=Counters(fence=1), fence=FenceRef(name=fence.name, uid=fence.uid)
        )
        async with sickbay.as_user("eve", BREAK_GLASS) as eve:
            await eve.request("DELETE", sickbay.rules.path(name=fence.name))
        await house.told(record.spec.incident, when=lambda told: "fence lost Unhealthy x1" in told)


async def test_fence_that_we_have_not_heard_of_yet_is_not_lost(
    house: House, lab: Lab, namespace: str, add_nodes: AddNodes
) -> None:
    """Record and fence are told by two watches: what only our copy lacks is looked for live before anybody is told."""
    (device,) = await house.held_devices(namespace, add_nodes)
    async with house.watching(policy(namespace)) as watcher:
        await house.leading(watcher)
        await lab.fleet.break_device(device.pool, device.device)
        fence, record = await house.fence(device), await house.record(device)
        await house.told(record.spec.incident)
        books = directory_of(watcher).books
        books._fences.clear()
        known = FenceRef(name=fence.name, uid=fence.uid)
        await house.says(record, Phase.QUARANTINED, counters=Counters(fence=1), fence=known)

        async def looked() -> bool:
            return fence.name in books.fences(device)

        await cluster.until(looked)
        await lab.fleet.heal(device.pool, device.device)
        told = await house.told(record.spec.incident, when=lambda told: len(told) > 1)
        assert told[1:] == ["Healthy x1"]


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


async def test_stale_lease_is_a_suspect_named_by_the_lease(
    house: House, lab: Lab, namespace: str, add_nodes: AddNodes
) -> None:
    """A node that stops renewing makes its devices Unknown; stale again after an end is another incident."""
    (device,) = await house.held_devices(namespace, add_nodes)
    async with house.watching(policy(namespace, staleness="15s")) as watcher:
        await house.leading(watcher)
        await lab.fleet.stop_lease(device.pool)
        suspect = await house.record(device)
        assert (suspect.spec.reason, suspect.spec.severity) == (Reason.NODE_UNREACHABLE, Health.UNKNOWN)
        assert suspect.spec.status_version == suspect.spec.lease_version
        assert not await house.fences.list(device)


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


async def test_flapping_device_is_one_incident_and_few_words(
    house: House, lab: Lab, namespace: str, add_nodes: AddNodes
) -> None:
    """Twenty flips in a few seconds: one record, one fence, and what the incident is told does not grow with them."""
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


async def test_record_without_a_fence_is_finished_by_the_next_leader(
    house: House, sickbay: Installation, namespace: str, add_nodes: AddNodes
) -> None:
    """A leader that died between record and fence leaves an admitted record: the next one fences and starts it."""
    (device,) = await house.held_devices(namespace, add_nodes)
    spec = record_spec(device, term=await sickbay.lead(), admission=Admission(state=AdmissionState.ADMITTED))
    await house.records.create(device, spec)
    async with house.watching(policy(namespace)):
        assert (await house.fence(device)).effect_key == f"{device}/100/fence/1"
        # What the device says now, Healthy, may have been told as well.
        assert (await house.told(spec.incident))[0] == "began run 1 Unhealthy admitted=True"


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


async def test_record_of_long_ago_is_removed(house: House, lab: Lab, namespace: str, add_nodes: AddNodes) -> None:
    """A closed record goes after ``keep``, once nothing bad is said that it would explain."""
    (device,) = await house.held_devices(namespace, add_nodes)
    async with house.watching(policy(namespace, keep="1s")) as watcher:
        await house.leading(watcher)
        await lab.fleet.break_device(device.pool, device.device)
        await house.fence(device)
        record = await house.record(device)
        await house.told(record.spec.incident)
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
            return watcher._alerts.holds(Alert.FLEET_IN_DOUBT)

        await cluster.until(told)
        directory = directory_of(watcher)
        assert directory.in_doubt
        opened = len((await house.records.list()).records)
        assert opened <= max(DOUBT_FLOOR, DOUBT_SHARE * len(directory._reported)) < len(directory.doubted)
