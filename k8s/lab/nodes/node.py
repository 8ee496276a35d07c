"""One stand-in node: its objects in the cluster, its Lease, its devices."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import Any, Final

import msgspec

from k8s.gateway import MERGE_PATCH, Gateway
from k8s.lab.nodes import objects
from k8s.lab.nodes.devices import Device
from k8s.lab.nodes.driver import Driver
from k8s.lab.nodes.fleet import NodeShape
from k8s.lab.nodes.wire import Node
from sickbay import errors

STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
"""What kubelet uses: conditions are merged by their type."""

_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_SLICES: Final = "/apis/resource.k8s.io/v1/resourceslices"


class StandInNode:
    """One node.

    Attributes:
        name: of the Node, its Lease and its slice pool.
        number: within the lab, from 0.
        devices: by name.
        reachable: cleared while the node is cut off.
        driver: of its devices.
    """

    def __init__(self, name: str, number: int, shape: NodeShape, gateway: Gateway) -> None:
        self.name = name
        self.number = number
        self.shape = shape
        self.devices = {f"gpu-{i}": Device(f"gpu-{i}") for i in range(shape.devices)}
        self.reachable = asyncio.Event()
        self.reachable.set()
        self.driver = Driver(self.devices, shape.driver_delays)
        self._gateway = gateway
        self._uid = ""
        self._generation = 1
        self._renewing: asyncio.Task[None] | None = None

    async def register(self) -> None:
        """Create the Node, its Lease and its slice, and begin to renew."""
        body = objects.node(self.name, self.number, self.shape)
        created = await self._gateway.request("POST", "/api/v1/nodes", body=body)
        self._uid = msgspec.json.decode(created, type=Node).metadata.uid
        await self._gateway.request("POST", _LEASES, body=objects.lease(self.name, self._uid))
        await self._gateway.request("POST", _SLICES, body=self._slice())
        self._renew_from_now()

    async def unregister(self) -> None:
        """Delete what `register` created, and renew no more."""
        self.stop_renewing()
        for path in (
            f"{_SLICES}/{objects.slice_name(self.name, self.shape.driver)}",
            f"{_LEASES}/{self.name}",
            f"/api/v1/nodes/{self.name}",
        ):
            await self._delete(path)

    async def swap(self, device: Device) -> None:
        """Replace the card, and publish the pool's next generation; without a driver, that is left to its return."""
        device.replace()
        self._generation += 1
        if self.driver.there.is_set():
            await self.publish()

    async def publish(self) -> None:
        """Publish the pool as it is now, whether or not its slice is still there."""
        body, path = self._slice(), f"{_SLICES}/{objects.slice_name(self.name, self.shape.driver)}"
        try:
            await self._gateway.request("PATCH", path, body={"spec": body["spec"]}, content_type=MERGE_PATCH)
        except errors.NotFound:
            await self._gateway.request("POST", _SLICES, body=body)

    async def withdraw(self) -> None:
        """Take the pool's slice away, as kubelet does when the driver stays gone; a node that is cut off does not."""
        await self.reachable.wait()
        await self._delete(f"{_SLICES}/{objects.slice_name(self.name, self.shape.driver)}")

    def cut_off(self) -> None:
        """Stop renewing, and let nothing be written for this node."""
        self.reachable.clear()
        self.stop_renewing()

    async def come_back(self) -> None:
        """Renew at once and say that the node is ready."""
        await self._renew()
        await self._gateway.request(
            "PATCH", f"/api/v1/nodes/{self.name}/status", body=objects.ready_again(), content_type=STRATEGIC_PATCH
        )
        self.reachable.set()
        self._renew_from_now()

    def stop_renewing(self) -> None:
        """End the renewal of the Lease."""
        if self._renewing is not None:
            self._renewing.cancel()

    async def _delete(self, path: str) -> None:
        with suppress(errors.NotFound):
            await self._gateway.request("DELETE", path)

    def _slice(self) -> dict[str, Any]:
        return objects.resource_slice(self.name, self._uid, self.shape, list(self.devices.values()), self._generation)

    def _renew_from_now(self) -> None:
        self.stop_renewing()
        self._renewing = asyncio.create_task(self._keep_renewing(), name=f"lease of {self.name}")

    async def _keep_renewing(self) -> None:
        interval = self.shape.lease_interval.total_seconds()
        await asyncio.sleep(interval * random.random())  # noqa: S311 - spreads hundreds of nodes over the interval
        while True:
            try:
                await self._renew()
            except (errors.UnavailableError, errors.ServerFault, errors.TooManyRequests):
                await asyncio.sleep(min(1.0, interval))
                continue
            await asyncio.sleep(interval)

    async def _renew(self) -> None:
        await self._gateway.request(
            "PATCH",
            f"{_LEASES}/{self.name}",
            body={"spec": {"renewTime": objects.timestamp(micro=True)}},
            content_type=MERGE_PATCH,
        )
