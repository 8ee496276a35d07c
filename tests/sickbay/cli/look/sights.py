"""A small cluster as people look at it: three devices, three records, rules of ours and of others."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from k8s.fences import DEVICE_LABEL, MANAGED_BY
from k8s.records import DeviceQuarantine
from k8s.sights import Sight
from k8s.wire import DeviceTaintRule, ResourceSlice
from sickbay.model.device import DeviceKey
from tests.builders import NOW

DRIVER: Final = "gpu.sickbay.dev"
LATER: Final = NOW + timedelta(minutes=12)
"""When somebody looks."""


def key(device: str, pool: str = "node-0") -> DeviceKey:
    """Name a device."""
    return DeviceKey(cluster="lab", driver=DRIVER, pool=pool, device=device)


def iso(at: datetime) -> str:
    """Write a time as the API server does."""
    return at.isoformat().replace("+00:00", "Z")


def record(device: str, *, spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None) -> dict[str, Any]:
    """Build a record on the wire, its incident quarantined for 12 minutes."""
    of = key(device)
    incident = of.incident_id("100")
    return {
        "metadata": {
            "name": of.record_name,
            "uid": f"uid-{device}",
            "resourceVersion": "7",
            "creationTimestamp": iso(NOW),
            "finalizers": ["sickbay.dev/incident"],
        },
        "spec": {
            "cluster": "lab",
            "device": {"driver": DRIVER, "pool": of.pool, "device": device},
            "hardwareID": f"GPU-{device}",
            "node": "node-0",
            "message": "Xid 79",
            "firstBadAt": iso(NOW),
            "incident": incident,
            "statusVersion": "100",
            "admission": {
                "state": "Admitted",
                "by": "guard",
                "at": iso(NOW),
                "numbers": "0 of 12 devices fenced, 6 allowed",
            },
            "policyHash": "70c0bb3b1275",
            **(spec or {}),
        },
        "status": {"incident": incident, "run": 1, "phase": "Quarantined", **(status or {})},
    }


def rule(device: str, *, ours: bool = True, name: str = "", **spec: Any) -> dict[str, Any]:
    """Build a fence of ours, or a rule of somebody else."""
    of = key(device)
    labels = {MANAGED_BY[0]: MANAGED_BY[1], DEVICE_LABEL: of.digest} if ours else {}
    taint = {"key": "sickbay.dev/quarantine" if ours else "vendor.example/broken", "effect": "NoSchedule"}
    selector = {"driver": DRIVER, "pool": of.pool, "device": device}
    return {
        "metadata": {"name": name or of.numbered(1), "uid": f"rule-{device}", "resourceVersion": "9", "labels": labels},
        "spec": {"deviceSelector": selector, "taint": taint, **spec},
    }


def sight(records: list[dict[str, Any]], rules: list[dict[str, Any]] | None = None, *devices: str) -> Sight:
    """Put what there is together; ``devices`` are published on node-0."""
    published = {
        "metadata": {"name": "node-0-gpu", "uid": "slice", "resourceVersion": "3"},
        "spec": {
            "driver": DRIVER,
            "nodeName": "node-0",
            "pool": {"name": "node-0", "generation": 2, "resourceSliceCount": 1},
            "devices": [{"name": device} for device in devices],
        },
    }
    return Sight(
        tuple(msgspec.convert(item, DeviceQuarantine) for item in records),
        tuple(msgspec.convert(item, DeviceTaintRule) for item in rules or []),
        (msgspec.convert(published, ResourceSlice),),
    )


ASKING: Final = record(
    "gpu-1",
    status={
        "phase": "NeedsOperator",
        "expiresAt": iso(NOW + timedelta(days=7)),
        "conditions": [
            {
                "type": "NeedsOperator",
                "status": "True",
                "reason": "ProbeCannotRun",
                "message": "name an image in probe.image",
                "lastTransitionTime": iso(NOW + timedelta(minutes=2)),
            }
        ],
    },
)
ENDED: Final = record(
    "gpu-2",
    status={
        "phase": "Released",
        "closed": {"at": iso(NOW + timedelta(minutes=5)), "outcome": "Released"},
        "history": [
            {
                "incident": key("gpu-2").incident_id("40"),
                "outcome": "Cleared",
                "openedAt": iso(NOW - timedelta(days=3)),
                "closedAt": iso(NOW - timedelta(days=3) + timedelta(minutes=1)),
            },
            {
                "incident": key("gpu-2").incident_id("100"),
                "outcome": "Released",
                "openedAt": iso(NOW),
                "closedAt": iso(NOW + timedelta(minutes=5)),
            },
        ],
    },
)
ODD: Final = {
    "metadata": {
        "name": "odd",
        "uid": "odd",
        "resourceVersion": "1",
        "creationTimestamp": iso(NOW),
        "annotations": {"sickbay.dev/device": str(key("gpu-4"))},
    },
    "spec": {"cluster": "lab"},
}
WARD: Final = sight(
    [record("gpu-0"), ASKING, ENDED, ODD],
    [rule("gpu-0"), rule("gpu-1"), rule("gpu-3", ours=False, name="vendor")],
    "gpu-0",
    "gpu-2",
    "gpu-3",
    "gpu-4",
)
"""gpu-0 is quarantined, gpu-1 asks a person and is no longer published, gpu-2 was released, gpu-3 is tainted by others,
the record of gpu-4 cannot be read."""
