"""What a lab's nodes can be told, whatever they are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Final, Protocol

DRIVER: Final = "gpu.sickbay.dev"
"""The usual DRA driver of a lab, and the name of its DeviceClass."""

FAILS_AFTER: Final = timedelta(milliseconds=500)
"""Under load, of a device that fails under load: within the usual load time of a canary."""


class Health(StrEnum):
    """The three words that a pod's status has for a device."""

    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"
    UNKNOWN = "Unknown"


@dataclass(frozen=True)
class DriverDelays:
    """How long kubelet takes to notice that a DRA driver has gone, or has come back; measured with kubelet 1.37.2.

    Attributes:
        slices: from its end to the removal of its slices.
        unknown: from its end until statuses say Unknown; before that they say what it said last. 77 to 81 s.
        back: from its start until slices and statuses are up to date.
    """

    slices: timedelta = timedelta(seconds=30)
    unknown: timedelta = timedelta(seconds=79)
    back: timedelta = timedelta(seconds=1)


@dataclass(frozen=True)
class NodeShape:
    """What a node is made of.

    Attributes:
        devices: how many, named gpu-0 and so on; at most 128, the bound of one ResourceSlice.
        driver: of the devices; each driver gets a DeviceClass of its own name.
        model: attribute of each device.
        driver_version: attribute of each device, a semantic version.
        prefix: node names are prefix, dash, number.
        labels: added to the node's.
        lease_interval: between two renewals of the node's Lease.
        cdi_ids: whether a status names a device by a CDI id, as most real drivers make kubelet do, or by
            driver/pool/device.
        driver_delays: after which the loss and the return of the driver show.
        load_time: for which a canary loads its devices before it is ready.
    """

    devices: int = 8
    driver: str = DRIVER
    model: str = "sickbay-1"
    driver_version: str = "1.0.0"
    prefix: str = "node"
    labels: Mapping[str, str] = field(default_factory=dict)
    lease_interval: timedelta = timedelta(seconds=10)
    cdi_ids: bool = False
    driver_delays: DriverDelays = DriverDelays()
    load_time: timedelta = timedelta(seconds=1)


@dataclass(frozen=True)
class DeviceState:
    """A device, as its driver sees it."""

    name: str
    uuid: str
    health: Health
    message: str
    fails_under_load: bool = False


@dataclass(frozen=True)
class NodeState:
    """A node, whether it is cut off, and whether its driver is there."""

    name: str
    reachable: bool
    devices: tuple[DeviceState, ...]
    driver: bool = True


class Fleet(Protocol):
    """The nodes of one lab. Unknown nodes and devices raise UsageError."""

    def describe(self) -> list[NodeState]:
        """Tell how all nodes are, in the order in which they were added."""
        ...

    async def add(self, count: int = 1, shape: NodeShape | None = None) -> list[str]:
        """Add nodes, wait until pods can be scheduled to them, and return their names."""
        ...

    async def remove(self, node: str) -> None:
        """Take a node out of the cluster for good, with its slices and its Lease."""
        ...

    async def break_device(
        self,
        node: str,
        device: str,
        *,
        health: Health = Health.UNHEALTHY,
        message: str = "",
        probe_fails: bool = True,
    ) -> None:
        """Make a device ill; returns when the pods that hold it say so in their status.

        Args:
            node: its node.
            device: its name, such as gpu-0.
            health: what the status says.
            message: what the driver says of it.
            probe_fails: whether a probe on it ends with 1.
        """
        ...

    async def break_under_load(
        self, node: str, device: str, *, after: timedelta = FAILS_AFTER, message: str = ""
    ) -> None:
        """Give a device a fault that shows only under load: idle, it says Healthy and passes a probe.

        Under the load of a canary that starts after this, it says Unhealthy after a time, until the load ends.

        Args:
            node: its node.
            device: its name.
            after: how much of the load it bears.
            message: what the driver says of it then.
        """
        ...

    async def heal(self, node: str, device: str) -> None:
        """Make a device well again."""
        ...

    async def swap(self, node: str, device: str) -> str:
        """Put another, healthy card into the slot: same name, new uuid, which is returned."""
        ...

    async def lose_driver(self, node: str) -> None:
        """End the node's DRA driver; what kubelet makes of that shows after the node's delays.

        Statuses say what they said last, then Unknown; the slices go; no pod with a claim starts or ends.

        Raises:
            UsageError: it is gone already.
        """
        ...

    async def regain_driver(self, node: str) -> None:
        """Start the driver again; returns when slices are published and statuses say how the devices are now.

        Raises:
            UsageError: it is there.
        """
        ...

    async def stop_lease(self, node: str) -> None:
        """Cut the node off: no renewal, no status, no pod started or ended, as if its kubelet hung."""
        ...

    async def resume_lease(self, node: str) -> None:
        """Let the node go on: it renews at once and writes what changed meanwhile."""
        ...
