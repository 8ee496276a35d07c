"""An open incident of a device that a pod holds, on the lab's nodes, with the activities that concern pods."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from activities.evictions import EvictionActivities
from activities.probes import ProbeActivities
from activities.readings import ReadingActivities
from activities.users import UserActivities
from k8s.fences import Fences
from k8s.gateway import Gateway
from k8s.listings import ClaimLister, SliceLister
from k8s.probes import Probes
from k8s.readings import Readings
from k8s.records import Records
from k8s.slots import EvictionSlots
from k8s.users import UserLists
from k8s.wire import Pod
from sickbay import errors
from sickbay.model.device import DeviceKey
from sickbay.model.incident import Target
from sickbay.model.record import Record
from sickbay.policy.opening import target_of
from tests.installation import Installation, record_spec
from tests.k8s import cluster

AT_ONCE = timedelta(0)


@dataclass(frozen=True)
class Incident:
    """What a test has in hand.

    Attributes:
        gateway: as Sickbay's own account.
        record: as it was opened.
    """

    gateway: Gateway
    record: Record
    reading: ReadingActivities
    users: UserActivities
    eviction: EvictionActivities
    probe: ProbeActivities
    probes: Probes
    slots: EvictionSlots

    @property
    def target(self) -> Target:
        """What its effects name."""
        return target_of(self.record)

    @property
    def device(self) -> DeviceKey:
        """Its device."""
        return self.record.spec.key

    async def end(self) -> None:
        """Let the record go on without us: another run takes it."""
        spec = self.record.spec.model_copy(update={"run": self.record.spec.run + 1})
        await Records(self.gateway).write_spec(self.record, spec)

    async def fence(self) -> None:
        """Put the first fence."""
        key = self.target.effect_key("fence", 1)
        await Fences(self.gateway).put(self.device, 1, incident=self.target.incident, effect_key=key)

    async def unfence(self) -> None:
        """Lift it; Kubernetes may write its status meanwhile, and then it is tried again, as an activity is."""
        fences = Fences(self.gateway)
        while True:
            placed = await fences.get(self.device.numbered(1))
            with suppress(errors.Conflict):
                fence = await fences.unlatch(placed.name, placed.uid, "k")
                if fence is not None:
                    await fences.delete(fence.name, fence.uid, fence.resource_version)
                break

    async def clean(self) -> None:
        """Remove what the first trials left, whoever owns the record by now, and the fence."""

        async def gone(number: int) -> bool:
            return not await self.probes.stop(self.target, number)

        for number in (1, 2):
            await cluster.until(partial(gone, number))
        await self.unfence()


async def open_incident(sickbay: Installation, device: DeviceKey, node: str, pod: Pod | None = None) -> Incident:
    """Open one, as the leader does, on what this pod said."""
    gateway = sickbay.gateway
    records = Records(gateway)
    sources = (
        [{"kind": "Pod", "namespace": pod.metadata.namespace, "name": pod.metadata.name, "uid": pod.metadata.uid}]
        if pod
        else []
    )
    spec = record_spec(device, term=await sickbay.term(), node=node, sources=sources)
    claims, slices = ClaimLister(gateway, spacing=AT_ONCE), SliceLister(gateway, spacing=AT_ONCE)
    users, slots = UserLists(gateway, claims), EvictionSlots(gateway)
    probes = Probes(gateway, claims, slices)
    return Incident(
        gateway=gateway,
        record=await records.create(device, spec),
        reading=ReadingActivities(records, Readings(gateway, claims, slices), probes),
        users=UserActivities(records, users, slots),
        eviction=EvictionActivities(gateway, records, users, slots),
        probe=ProbeActivities(records, probes),
        probes=probes,
        slots=slots,
    )
