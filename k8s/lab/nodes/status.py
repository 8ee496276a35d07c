"""A pod's status as kubelet 1.37 writes it: pure rendering.

The forms of ``allocatedResourcesStatus`` are those that the API server accepts, and the quirks are kubelet's, measured:
only regular containers have entries, only while the pod is not over, one per claim that the container names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from k8s.lab.nodes.fleet import Health
from k8s.lab.nodes.objects import timestamp
from k8s.lab.nodes.wire import Container, Pod

_IMAGE_DIGEST: Final = "sha256:" + hashlib.sha256(b"sickbay lab").hexdigest()
_MESSAGE_CUT: Final = 1024
"""kubelet cuts a device's message to this many bytes."""


@dataclass(frozen=True)
class Held:
    """A device that a pod holds, and what its status says of it.

    Attributes:
        claim: the name in the pod's own list of claims; ``""`` for one made for extended resources, which has no entry.
        request: as in the allocation's result; a sub-request has a slash in it.
        resource_id: as kubelet names the device.
        health: one of the three words.
        message: ``""`` for none.
    """

    claim: str
    request: str
    resource_id: str
    health: Health
    message: str = ""


@dataclass(frozen=True)
class Exit:
    """How the containers ended."""

    code: int
    started_at: str
    finished_at: str
    reason: str
    message: str = ""


@dataclass(frozen=True)
class Containers:
    """The one state that all containers of a stand-in pod share.

    Attributes:
        started_at: of the running containers; ``""`` if they do not run.
        ended: how they ended, if they did and will not run again, or have just ended.
        backing_off: they ended and wait to be started again.
        last: how they ended the time before.
        restarts: how often they were started again.
    """

    started_at: str = ""
    ended: Exit | None = None
    backing_off: bool = False
    last: Exit | None = None
    restarts: int = 0


@dataclass
class Conditions:
    """Pod conditions, each with the time of its last change of status."""

    _by_type: dict[str, dict[str, Any]] = field(default_factory=dict)

    def set(self, kind: str, *, true: bool, reason: str = "") -> None:
        """Set one condition."""
        status = "True" if true else "False"
        before = self._by_type.get(kind, {})
        since = before["lastTransitionTime"] if before.get("status") == status else timestamp()
        entry = {"type": kind, "status": status, "lastTransitionTime": since}
        self._by_type[kind] = {**entry, "reason": reason} if reason else entry

    def listed(self) -> list[dict[str, Any]]:
        """All of them."""
        return list(self._by_type.values())


def container_statuses(pod: Pod, now: Containers, held: Sequence[Held], *, ready: bool) -> list[dict[str, Any]]:
    """Statuses of the regular containers; ``held`` is empty once the pod is over."""
    return [
        {
            **_base(pod, container, now.restarts),
            "ready": ready,
            "started": bool(now.started_at),
            "state": _state(pod, container, now),
            "lastState": {"terminated": _terminated(pod, container, now.last)} if now.last else {},
            **_resources(container, held),
        }
        for container in pod.spec.containers
    ]


def init_container_statuses(pod: Pod, now: Containers, since: str) -> list[dict[str, Any]]:
    """Statuses of the init containers: done at once, or sidecars, which share the others' state. Never a device."""
    done = Exit(0, since, since, "Completed")
    statuses = []
    for container in pod.spec.init_containers:
        sidecar = container.restart_policy == "Always"
        state = _state(pod, container, now) if sidecar else {"terminated": _terminated(pod, container, done)}
        up = sidecar and bool(now.started_at)
        statuses.append(
            {**_base(pod, container, 0), "ready": up or not sidecar, "started": up, "state": state, "lastState": {}}
        )
    return statuses


def _base(pod: Pod, container: Container, restarts: int) -> dict[str, Any]:
    return {
        "name": container.name,
        "image": container.image,
        "imageID": f"sickbay.dev/lab@{_IMAGE_DIGEST}",
        "containerID": _container_id(pod, container),
        "restartCount": restarts,
    }


def _container_id(pod: Pod, container: Container) -> str:
    return "containerd://" + hashlib.sha256(f"{pod.metadata.uid}/{container.name}".encode()).hexdigest()


def _state(pod: Pod, container: Container, now: Containers) -> dict[str, Any]:
    if now.backing_off:
        return {"waiting": {"reason": "CrashLoopBackOff", "message": f"back-off restarting {container.name}"}}
    if now.ended is not None:
        return {"terminated": _terminated(pod, container, now.ended)}
    if now.started_at:
        return {"running": {"startedAt": now.started_at}}
    return {"waiting": {"reason": "ContainerCreating"}}


def _terminated(pod: Pod, container: Container, ended: Exit) -> dict[str, Any]:
    return {
        "exitCode": ended.code,
        "reason": ended.reason,
        "startedAt": ended.started_at,
        "finishedAt": ended.finished_at,
        "containerID": _container_id(pod, container),
        **({"message": ended.message} if ended.message else {}),
    }


def _resources(container: Container, held: Iterable[Held]) -> dict[str, Any]:
    entries: dict[str, dict[str, dict[str, Any]]] = {}
    for use in container.resources.claims:
        name = f"claim:{use.name}/{use.request}" if use.request else f"claim:{use.name}"
        for device in held:
            if device.claim != use.name or (use.request and device.request.partition("/")[0] != use.request):
                continue
            entry: dict[str, Any] = {"resourceID": device.resource_id, "health": str(device.health)}
            if device.message:
                entry["message"] = device.message.encode()[:_MESSAGE_CUT].decode(errors="ignore")
            entries.setdefault(name, {}).setdefault(device.resource_id, entry)  # of twins the first one wins
    if not entries:
        return {}
    return {
        "allocatedResourcesStatus": [
            {"name": name, "resources": list(resources.values())} for name, resources in entries.items()
        ]
    }
