"""The witness: the API server's audit log, one clock for everything that was asked of it.

``received`` is when the API server has read a request's head, ``answered`` when it has written the whole answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from k8s.impersonation import SERVICE_ACCOUNT
from k8s.lab.audit import AuditLog, Entry
from k8s.lab.controlplane import NODES
from sickbay.model.device import DeviceKey

Place = tuple[str, str, str]
"""Driver, slice pool and device."""

LOOK: Final = 0.02
"""Seconds between two looks into the log."""


@dataclass(frozen=True)
class Request:
    """One request that was accepted, in seconds since the epoch by the API server's clock."""

    received: float
    answered: float

    @classmethod
    def of(cls, entry: Entry) -> Request:
        """Take the times of a line of the log."""
        return cls(_seconds(entry.request_received_timestamp), _seconds(entry.stage_timestamp))


def place(device: DeviceKey) -> Place:
    """Give what the API server knows of a device's identity: not our name of the cluster."""
    return device.driver, device.pool, device.device


class Witness:
    """Reads the log from now on, and keeps of everything the first request that was accepted.

    Attributes:
        statuses: of pods, written by nodes, by namespace and name.
        fences: rules that were created, whoever did it, by the device that their selector names.
        records: that Sickbay created, by device.
        words: status writes of records by the record's name: by each of them its phase, ``""`` if it did not change.
    """

    def __init__(self, log: Path) -> None:
        self.statuses: dict[tuple[str, str], Request] = {}
        self.fences: dict[Place, Request] = {}
        self.records: dict[Place, Request] = {}
        self.words: dict[str, list[tuple[str, Request]]] = {}
        self._log = AuditLog(log, from_end=True)

    def look(self) -> None:
        """Read on."""
        for entry in self._log.read():
            if 200 <= entry.code < 300:
                self._take(entry)

    async def until(self, seen: Callable[[], bool], *, within: float, pause: float = LOOK) -> bool:
        """Read on until something was seen, and say whether it was in time.

        Args:
            seen: asked after each look.
            within: seconds.
            pause: seconds between two looks.
        """
        try:
            async with asyncio.timeout(within):
                while True:
                    self.look()
                    if seen():
                        return True
                    await asyncio.sleep(pause)
        except TimeoutError:
            return False

    def said(self, record: str, phase: str) -> bool:
        """Say whether a record's status was written with this phase."""
        return any(word == phase for word, _ in self.words.get(record, ()))

    def _take(self, entry: Entry) -> None:
        ours = entry.user.username == SERVICE_ACCOUNT
        match entry.verb, entry.resource:
            case "patch", "pods/status" if entry.user.username == NODES:
                self.statuses.setdefault((entry.namespace, entry.name), Request.of(entry))
            case "create", "devicetaintrules":
                self.fences.setdefault(_place(_spec(entry).get("deviceSelector")), Request.of(entry))
            case "create", "devicequarantines" if ours:
                self.records.setdefault(_place(_spec(entry).get("device")), Request.of(entry))
            case "patch", "devicequarantines/status" if ours:
                phase = str(((entry.request_object or {}).get("status") or {}).get("phase", ""))
                self.words.setdefault(entry.name, []).append((phase, Request.of(entry)))
            case _:
                return


def _spec(entry: Entry) -> dict[str, Any]:
    return dict((entry.request_object or {}).get("spec") or {})


def _place(named: dict[str, str] | None) -> Place:
    """Read a device from the body of a request; a part that it does not name is empty."""
    named = named or {}
    return named.get("driver", ""), named.get("pool", ""), named.get("device", "")


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()
