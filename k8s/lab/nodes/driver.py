"""The DRA driver of a stand-in node, as its kubelet sees it: also after it has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from k8s.lab.nodes.devices import Device
from k8s.lab.nodes.fleet import DriverDelays, Health

Act = Callable[[], Awaitable[object]]


class Driver:
    """What kubelet has heard of a node's devices.

    Attributes:
        there: cleared while the driver is gone.
    """

    def __init__(self, devices: Mapping[str, Device], delays: DriverDelays) -> None:
        """Begin with the driver there.

        Args:
            devices: of the node, by name.
            delays: after which its loss shows.
        """
        self.there = asyncio.Event()
        self.there.set()
        self._devices = devices
        self._delays = delays
        self._last: dict[str, tuple[Health, str]] = {}

    def heard_of(self, device: Device) -> tuple[Health, str]:
        """Give health and message of a device, as a pod's status says them now."""
        return device.told if self.there.is_set() else self._last[device.name]

    def go(self) -> None:
        """End the driver: kubelet keeps what it heard last."""
        self._last = {name: device.told for name, device in self._devices.items()}
        self.there.clear()

    async def be_missed(self, withdraw: Act, tell: Act) -> None:
        """Have its loss noticed, step by step; cancelled when it is back.

        Args:
            withdraw: takes its slices away.
            tell: writes statuses.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._withdraw(withdraw))
            group.create_task(self._doubt(tell))

    async def _withdraw(self, withdraw: Act) -> None:
        await asyncio.sleep(self._delays.slices.total_seconds())
        await withdraw()

    async def _doubt(self, tell: Act) -> None:
        await asyncio.sleep(self._delays.unknown.total_seconds())
        self._last = dict.fromkeys(self._devices, (Health.UNKNOWN, ""))
        await tell()
