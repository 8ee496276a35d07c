"""Where a story plays: a lab in which Sickbay runs, jobs on devices of their own, and what became of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client import Gauge

from k8s.gateway import decode
from k8s.lab.nodes.fleet import NodeShape
from k8s.resources import DEPLOYMENTS, PODS, RESOURCECLAIMTEMPLATES
from sickbay import errors
from sickbay.model.record import Phase, Record
from tests.crash.harness import LEASE_INTERVAL, Ward
from tests.crash.jobs import NAMESPACE, Seat, seats_of
from tests.crash.process import Sickbay
from tests.k8s import cluster


@dataclass(frozen=True)
class Scene:
    """The lab, and the one ``sickbay run`` in it.

    Attributes:
        numbers: what Prometheus says of a device, by its pool and its uuid; None where nobody asks one.
    """

    ward: Ward
    run: Sickbay
    numbers: Gauge | None = None

    async def lone_pod(self, name: str, *, told: Mapping[str, str] | None = None, restart: str = "Always") -> Seat:
        """Start a pod without an owner, on a device of its own, and tell which."""
        await self._own_devices(name)
        gateway = self.ward.lab.gateway
        await cluster.create_pod(gateway, NAMESPACE, name, behaviour=told, template=name, restart=restart)
        return await self.seat(name)

    async def deployment(self, name: str, *, told: Mapping[str, str] | None = None) -> Seat:
        """Start a Deployment of one pod, on a device of its own, and tell which."""
        await self._own_devices(name)
        body = cluster.workload("Deployment", name, behaviour=told, template=name)
        await cluster.create(self.ward.lab.gateway, DEPLOYMENTS, NAMESPACE, body)
        return await self.seat(name)

    async def wants_device_of(self, name: str, seat: Seat, *, told: Mapping[str, str] | None = None) -> None:
        """Create a pod that wants exactly the device of another, and runs once."""
        uuid = self.uuid(seat)
        driver, gateway = seat.key.driver, self.ward.lab.gateway
        wish = f'device.attributes["{driver}"].uuid == "{uuid}"'
        spec = cluster.claim_spec(driver, selectors=[{"cel": {"expression": wish}}])
        template = {"metadata": {"name": name}, "spec": {"spec": spec}}
        await cluster.create(gateway, RESOURCECLAIMTEMPLATES, NAMESPACE, template)
        await cluster.create_pod(gateway, NAMESPACE, name, behaviour=told, template=name, restart="Never")

    def uuid(self, seat: Seat) -> str:
        """Tell the identity of a device's hardware."""
        node = next(n for n in self.ward.lab.fleet.describe() if n.name == seat.key.pool)
        return next(d.uuid for d in node.devices if d.name == seat.key.device)

    def number(self, seat: Seat, value: float) -> None:
        """Have Prometheus say this of a device from its next scrape on."""
        assert self.numbers is not None
        self.numbers.labels(seat.key.pool, self.uuid(seat)).set(value)

    async def seat(self, name: str) -> Seat:
        """Wait for the one running pod of a job."""

        async def look() -> Seat | None:
            return next(iter(await seats_of(self.ward.lab.gateway, name)), None)

        return await cluster.until(look, within=60)

    async def delete(self, pod: str) -> None:
        """Delete a pod, as its owner does."""
        await cluster.delete(self.ward.lab.gateway, PODS, NAMESPACE, pod)

    async def unschedulable(self, pod: str) -> str:
        """Wait until the scheduler says why a pod has no place, and give its words."""

        async def said() -> str | None:
            found = decode(await self.ward.lab.gateway.request("GET", PODS.path(NAMESPACE, pod)))
            reasons = (c for c in found["status"].get("conditions", []) if c.get("reason") == "Unschedulable")
            return next((c["message"] for c in reasons), None)

        return await cluster.until(said, within=60)

    async def breaks(self, seat: Seat, *, for_good: bool = False) -> None:
        """Make a device ill; it is well again when its pod is gone, unless for good."""
        await self.ward.break_devices([seat], for_good=for_good)

    async def record(self, seat: Seat) -> Record | None:
        """Read the device's record."""
        return await self.ward.record(seat.key.record_name)

    async def begins(self, seat: Seat) -> Record:
        """Wait until the device has an incident that has said something, whatever has become of it."""

        async def look() -> Record | None:
            record = await self.record(seat)
            return record if record is not None and record.status.incident == record.spec.incident else None

        return await cluster.until(look, within=60)

    async def reaches(self, seat: Seat, phase: Phase, *, within: float = 60) -> Record:
        """Wait until the device's incident is in a phase."""

        async def look() -> Record | None:
            record = await self.record(seat)
            return record if record is not None and record.status.phase is phase else None

        try:
            return await cluster.until(look, within=within)
        except TimeoutError:
            record = await self.record(seat)
            stands = record and (record.status.phase, await self.headline(record))
            raise AssertionError(f"{seat.device} is not {phase} but {stands}") from None

    async def headline(self, record: Record) -> str:
        """Read where the incident says it stands."""
        try:
            return await self.ward.temporal.headline(record.spec.incident)
        except errors.TemporalUnavailable:
            return ""

    async def released(self, seat: Seat) -> None:
        """Wait until the device's incident has ended well."""
        await self.ward.released([seat], by=self.run)

    async def _own_devices(self, name: str) -> None:
        """Add a node whose devices no other story uses, and a template that claims one of them."""
        driver = f"{name}.example"
        shape = NodeShape(devices=3, driver=driver, prefix=name, lease_interval=LEASE_INTERVAL)
        await self.ward.lab.fleet.add(1, shape)
        await cluster.create_template(self.ward.lab.gateway, NAMESPACE, name, driver)
