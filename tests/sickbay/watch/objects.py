"""Builders of wire objects, as informers give them, without a cluster."""

from __future__ import annotations

import json
from typing import Any

from k8s.fences import MANAGED_BY
from k8s.reading import Reader
from k8s.store import Change, Item
from k8s.wire import DeviceTaintRule, Lease, Object, Pod, ResourceClaim, ResourceSlice
from sickbay.model.device import DeviceKey
from sickbay.watch.directory import Directory

CLUSTER = "lab"
DRIVER = "gpu.example.com"

_KINDS: dict[str, Reader[Any]] = {
    "Pod": Reader(Pod),
    "ResourceClaim": Reader(ResourceClaim),
    "ResourceSlice": Reader(ResourceSlice),
    "Lease": Reader(Lease),
    "DeviceTaintRule": Reader(DeviceTaintRule),
}


def device(name: str = "gpu-0", node: str = "node-1") -> DeviceKey:
    """Name a device of a node."""
    return DeviceKey(cluster=CLUSTER, driver=DRIVER, pool=node, device=name)


def item(kind: str, body: dict[str, Any]) -> Item[Any]:
    """Decode an object as an informer does."""
    decoded = _KINDS[kind](json.dumps(body).encode())
    return Item(decoded.value, decoded.value.metadata.resource_version, flaws=decoded.flaws)


def change(old: Item[Any] | None, new: Item[Any] | None) -> Change[Any]:
    """Build the change from one state to another."""
    either = new or old
    assert either is not None
    meta = _meta(either.object)
    return Change((meta.namespace, meta.name), old, new)


def _meta(found: Object) -> Any:
    return found.metadata


def pod(
    *entries: dict[str, Any],
    name: str = "train-0",
    version: str = "10",
    node: str = "node-1",
    phase: str = "Running",
    claim: str = "train-0-gpu",
) -> Item[Any]:
    """Build a pod that uses one claim and reports these entries of ``allocatedResourcesStatus``."""
    return item(
        "Pod",
        {
            "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}", "resourceVersion": version},
            "spec": {"nodeName": node, "resourceClaims": [{"name": "gpu", "resourceClaimName": claim}]},
            "status": {
                "phase": phase,
                "containerStatuses": [{"name": "main", "allocatedResourcesStatus": list(entries)}],
            },
        },
    )


def entry(health: str | None, *, device_name: str = "gpu-0", node: str = "node-1", **more: Any) -> dict[str, Any]:
    """Build the entry of a claim with one device."""
    return {
        "name": "claim:gpu",
        "resources": [{"resourceID": f"{DRIVER}/{node}/{device_name}", "health": health, **more}],
    }


def claim(
    *devices: str, name: str = "train-0-gpu", pods: tuple[str, ...] = ("train-0",), node: str = "node-1"
) -> Item[Any]:
    """Build a claim that holds these devices of a node, reserved for these pods."""
    results = [{"request": "gpu", "driver": DRIVER, "pool": node, "device": d} for d in devices or ("gpu-0",)]
    return item(
        "ResourceClaim",
        {
            "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}", "resourceVersion": "5"},
            "status": {
                "allocation": {"devices": {"results": results}},
                "reservedFor": [{"resource": "pods", "name": p, "uid": f"uid-{p}"} for p in pods],
            },
        },
    )


def published(
    *devices: str, node: str = "node-1", generation: int = 1, count: int = 1, number: int = 0, driver: str = DRIVER
) -> Item[Any]:
    """Build one slice of a pool of ``count`` slices."""
    return item(
        "ResourceSlice",
        {
            "metadata": {"name": f"{node}-{driver}-{generation}-{number}", "uid": f"uid-{generation}-{number}"},
            "spec": {
                "driver": driver,
                "nodeName": node,
                "pool": {"name": node, "generation": generation, "resourceSliceCount": count},
                "devices": [{"name": d, "attributes": {"uuid": {"string": f"uuid-{d}"}}} for d in devices],
            },
        },
    )


def lease(node: str = "node-1", version: str = "100") -> Item[Any]:
    """Build a node's Lease. Its own times lie: they are never looked at."""
    spec = {"holderIdentity": node, "renewTime": "1999-01-01T00:00:00.000000Z"}
    meta = {"name": node, "namespace": "kube-node-lease", "uid": f"uid-{node}", "resourceVersion": version}
    return item("Lease", {"metadata": meta, "spec": spec})


def fence(key: DeviceKey, version: str = "100") -> Item[Any]:
    """Build a fence of a device."""
    meta = {"name": key.numbered(1), "uid": f"uid-{key.numbered(1)}", "resourceVersion": version}
    selector = {"driver": key.driver, "pool": key.pool, "device": key.device}
    spec = {"deviceSelector": selector, "taint": {"key": "sickbay.dev/quarantine", "effect": "NoSchedule"}}
    return item("DeviceTaintRule", {"metadata": {**meta, "labels": dict([MANAGED_BY])}, "spec": spec})


def say(directory: Directory, old: Item[Any] | None, new: Item[Any] | None) -> Item[Any] | None:
    """Let a directory hear of a pod."""
    directory.translator.on_pod(change(old, new))
    return new
