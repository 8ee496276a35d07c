"""Builders of models: each gives a valid whole, of which a test names only what it is about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sickbay.model.contracts import Reading
from sickbay.model.device import DeviceKey
from sickbay.model.incident import IncidentState, Target, User
from sickbay.model.observation import Health, Observation, SourceRef
from sickbay.model.policy import Policy

NOW = datetime(2026, 1, 10, 10, 0, tzinfo=UTC)
"""When these stories begin."""

DEVICE = DeviceKey(cluster="lab", driver="gpu.sickbay.dev", pool="node-1", device="gpu-3")
UUID = "GPU-3"


def seconds(value: float) -> timedelta:
    """Shorten ``timedelta(seconds=…)``."""
    return timedelta(seconds=value)


def target(device: DeviceKey = DEVICE, status_version: str = "100", run: int = 1) -> Target:
    """Build the target of an incident's effects."""
    return Target(
        device=device,
        incident=device.incident_id(status_version),
        run=run,
        record_uid="record-1",
        status_version=status_version,
    )


def policy(**changes: Any) -> Policy:
    """Build an enforcing policy with round times: confirm 30 s, stable 30 s, settle 15 s, first probe after 60 s."""
    return Policy.model_validate({"mode": "enforce", "settle": "15s", "confirm": "30s", "stable": "30s"} | changes)


def incident(**changes: Any) -> IncidentState:
    """Build the state of a new, admitted incident of an Unhealthy device."""
    base: dict[str, Any] = {
        "target": target(),
        "policy": policy(),
        "hardware_id": UUID,
        "addressable": True,
        "node": "node-1",
        "severity": Health.UNHEALTHY,
        "first_bad_at": NOW,
        "admitted": True,
        "lease_version": "1",
    }
    return IncidentState(**base | changes)


def observation(health: Health = Health.UNHEALTHY, **changes: Any) -> Observation:
    """Build what pod ``team/train-0`` says of the device."""
    base: dict[str, Any] = {
        "device": DEVICE,
        "source": SourceRef(kind="Pod", namespace="team", name="train-0", uid="pod-1"),
        "resource_version": "100",
        "health": health,
        "node": "node-1",
    }
    return Observation(**base | changes)


def reading(health: Health | None = Health.UNHEALTHY, **changes: Any) -> Reading:
    """Build a live reading; its Lease has moved since the incident began."""
    base: dict[str, Any] = {
        "health": health,
        "observations": () if health is None else (observation(health),),
        "lease_version": "2",
        "admitted": True,
        "hardware_id": UUID,
        "hardware_unique": True,
    }
    return Reading(**base | changes)


def user(**changes: Any) -> User:
    """Build a user of the device: a pod of a Deployment that may move."""
    base: dict[str, Any] = {
        "namespace": "team",
        "name": "train-0",
        "uid": "pod-1",
        "owner_kind": "Deployment",
        "owner_name": "train",
        "owner_uid": "deployment-1",
        "may_move": True,
    }
    return User(**base | changes)
