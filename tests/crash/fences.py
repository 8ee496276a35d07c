"""The life of each fence, as the audit log tells it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tests.crash.effects import device_of, incident_of
from tests.crash.testimony import Request, metadata, notes

INCIDENT: Final = "sickbay.dev/incident"
"""Annotation that names the incident of a fence."""


@dataclass
class Fence:
    """One rule of Sickbay's.

    Attributes:
        unlatched: how often its finalizers were taken off.
        deleted: how often a DELETE met it.
        gone: it holds no longer.
    """

    name: str
    incident: str
    device: str
    unlatched: int = 0
    deleted: int = 0
    gone: bool = False

    @property
    def lifted(self) -> bool:
        """Whether it went as it should: its finalizer off, then deleted, each by one request."""
        return self.gone and self.unlatched == 1 and self.deleted == 1

    @property
    def state(self) -> str:
        """Say for people how far it is."""
        return f"unlatched {self.unlatched} times, deleted {self.deleted} times, {'gone' if self.gone else 'standing'}"


class Fences:
    """All fences of a log.

    Attributes:
        all: in the order of their creation.
        standing: after each request that touched one, how many devices were fenced.
        violations: fences before their record, or of no single device, or not Sickbay's.
    """

    def __init__(self, requests: Iterable[Request]) -> None:
        """Follow them through the log."""
        self._fences: dict[str, Fence] = {}
        self._recorded: set[str] = set()
        self.standing: list[tuple[Request, int]] = []
        self.violations: list[str] = []
        for request in requests:
            if request.changed and request.resource.startswith("devicequarantines"):
                self._recorded.add(incident_of(request))
            elif request.changed and request.resource == "devicetaintrules":
                self._follow(request)
                self.standing.append((request, len({f.device for f in self._fences.values() if not f.gone})))

    @property
    def all(self) -> list[Fence]:
        """Every fence that ever stood."""
        return list(self._fences.values())

    def _follow(self, request: Request) -> None:
        if request.verb == "create":
            self._put(request)
        elif (fence := self._fences.get(request.name)) is None:
            self.violations.append(f"touched a fence that Sickbay never put: {request.what}")
        else:
            held = bool(metadata(request.answer).get("finalizers"))
            if request.verb == "delete":
                fence.deleted += 1
                fence.gone = fence.gone or not held
            elif not held:
                fence.unlatched += 1
                fence.gone = fence.gone or "deletionTimestamp" in metadata(request.answer)

    def _put(self, request: Request) -> None:
        incident = notes(request.sent).get(INCIDENT, "")
        selector = (request.answer.get("spec") or {}).get("deviceSelector") or {}
        if not all(device_of(selector).split("/")):
            self.violations.append(f"fence of no single device: {request.what}")
        if incident not in self._recorded:
            self.violations.append(f"fenced before the record of {incident}: {request.what}")
        self._fences[request.name] = Fence(request.name, incident, device_of(selector))
