"""A device of a stand-in node, as its driver sees it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import timedelta

from k8s.lab.nodes.fleet import Health


def new_uuid() -> str:
    """The hardware identity of a card that nobody has seen before."""
    return f"GPU-{uuid.uuid4()}"


@dataclass(frozen=True)
class LoadFault:
    """A fault that shows only under load.

    Attributes:
        after: so much of it.
        message: what the driver says of it then.
    """

    after: timedelta
    message: str = ""


@dataclass
class Device:
    """One device.

    Attributes:
        name: in its pool.
        uuid: of the card in the slot.
        health: what its driver reports.
        message: what its driver says of it.
        probe_fails: whether a probe on it ends with 1.
        load_fault: None for a device that bears any load.
        failing: whether that fault shows now.
    """

    name: str
    uuid: str = field(default_factory=new_uuid)
    health: Health = Health.HEALTHY
    message: str = ""
    probe_fails: bool = False
    load_fault: LoadFault | None = None
    failing: bool = False

    @property
    def told(self) -> tuple[Health, str]:
        """Health and message, as the driver reports them now."""
        if self.failing and self.load_fault is not None:
            return Health.UNHEALTHY, self.load_fault.message
        return self.health, self.message

    def be(self, health: Health, message: str, *, probe_fails: bool) -> None:
        """Become ill or well, whatever the device was before."""
        self.health, self.message, self.probe_fails = health, message, probe_fails
        self.load_fault, self.failing = None, False

    def replace(self) -> None:
        """Put another card into the slot, which is well."""
        self.uuid = new_uuid()
        self.be(Health.HEALTHY, "", probe_fails=False)
