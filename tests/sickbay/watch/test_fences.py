"""Fences and the records that answer for them: orphans, fences taken away, and those never put."""

from __future__ import annotations

from k8s.gateway import MERGE_PATCH
from k8s.lab.lab import Lab
from sickbay.model.observation import Reason
from sickbay.model.record import (
    EFFECT_ANNOTATION,
    QUARANTINE_KEY,
    RAMP_KEY,
    RAMP_STEP,
    Admission,
    AdmissionState,
    Counters,
    FenceRef,
    Phase,
)
from sickbay.policy.opening import target_of
from sickbay.telemetry.alert import Alert
from tests.conftest import AddNodes
from tests.installation import BREAK_GLASS, Installation, record_spec
from tests.k8s import cluster
from tests.sickbay.watch.house import House, directory_of, policy


async def test_orphan_fence_gets_an_incident(house: House, namespace: str, add_nodes: AddNodes) -> None:
    """A fence of ours without an open incident is kept, and answered for by a new one."""
    (device,) = await house.held_devices(namespace, add_nodes)
    await house.fences.put(device, 3, incident="incident/of/long/ago", effect_key="k")
    async with house.watching(policy(namespace)) as watcher:
        await house.leading(watcher)
        record = await house.record(device)
        assert (record.spec.reason, record.spec.admission.by) == (Reason.ORPHAN, "orphan")
        assert watcher.tells(Alert.ORPHAN_FENCE, str(device))
        assert record.spec.first_fence == 4
        assert (await house.fence(device, 4)).incident == record.spec.incident
        assert (await house.fence(device, 3)).latched
        assert await house.told(record.spec.incident)


async def test_fence_deleted_by_hand_is_told_at_once(
    house: House, sickbay: Installation, namespace: str, add_nodes: AddNodes
) -> None:
    """The incident hears that its fence was taken away; during a release it does not."""
    (device,) = await house.held_devices(namespace, add_nodes)
    async with house.watching(policy(namespace)) as watcher:
        await house.leading(watcher)
        fence, record = await house.broken(device)
        await house.says(
            record, Phase.QUARANTINED, counters=Counters(fence=1), fence=FenceRef(name=fence.name, uid=fence.uid)
        )
        async with sickbay.as_user("eve", BREAK_GLASS) as eve:
            await eve.request("DELETE", sickbay.rules.path(name=fence.name))
        await house.told(record.spec.incident, when=lambda told: "fence lost Unhealthy x1" in told)


async def test_fence_that_a_hand_opened_for_the_ramp_is_told(
    house: House, lab: Lab, sickbay: Installation, namespace: str, add_nodes: AddNodes
) -> None:
    """Who has opted in would get a device that nobody has tried; the incident's own ramp is no loss."""
    (device,) = await house.held_devices(namespace, add_nodes)
    async with house.watching(policy(namespace)) as watcher:
        await house.leading(watcher)
        fence, record = await house.broken(device)
        known = FenceRef(name=fence.name, uid=fence.uid)
        await house.says(record, Phase.QUARANTINED, counters=Counters(fence=1), fence=known)
        own = f"{target_of(record).effect_key(RAMP_STEP, 2)}/1"
        async with sickbay.as_user("eve", BREAK_GLASS) as eve:

            async def turn(key: str, **annotations: str) -> None:
                body = {"metadata": {"annotations": annotations}, "spec": {"taint": {"key": key}}}
                path = sickbay.rules.path(name=fence.name)
                await eve.request("PATCH", path, body=body, content_type=MERGE_PATCH)

            await turn(RAMP_KEY, **{EFFECT_ANNOTATION: own})
            await lab.fleet.heal(device.pool, device.device)
            told = await house.told(record.spec.incident, when=lambda told: len(told) > 1)
            assert told[1:] == ["Healthy x1"]
            await turn(QUARANTINE_KEY, **{EFFECT_ANNOTATION: "back"})
            await turn(RAMP_KEY)
            await house.told(record.spec.incident, when=lambda told: "fence lost Unhealthy x1" in told)


async def test_fence_that_we_have_not_heard_of_yet_is_not_lost(
    house: House, lab: Lab, namespace: str, add_nodes: AddNodes
) -> None:
    """Record and fence are told by two watches: what only our copy lacks is looked for live before anybody is told."""
    (device,) = await house.held_devices(namespace, add_nodes)
    async with house.watching(policy(namespace)) as watcher:
        await house.leading(watcher)
        fence, record = await house.broken(device)
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
