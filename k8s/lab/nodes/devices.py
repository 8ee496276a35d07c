"""A device of a stand-in node, as its driver sees it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from k8s.lab.nodes.fleet import Health


def new_uuid() -> str:
    """The hardware identity of a card that nobody has seen before."""
    return f"GPU-{uuid.uuid4()}"


@dataclass
class Device:
    """One device.

    Attributes:
        name: in its pool.
        uuid: of the card in the slot.
        health: what its driver reports.
        message: what its driver says of it.
        probe_fails: whether a probe on it ends with 1.
    """

    name: str
    uuid: str = field(default_factory=new_uuid)
    health: Health = Health.HEALTHY
    message: str = ""
    probe_fails: bool = False

    def replace(self) -> None:
        """Put another card into the slot, which is well."""
        self.uuid, self.health, self.message, self.probe_fails = new_uuid(), Health.HEALTHY, "", False
