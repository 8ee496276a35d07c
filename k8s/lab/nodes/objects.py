"""The objects that a stand-in node puts into the cluster, as plain JSON values."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from k8s.lab.build import KUBERNETES
from k8s.lab.nodes.devices import Device
from k8s.lab.nodes.fleet import NodeShape

KIND_LABEL: Final = "lab.sickbay.dev/node"
_ZONES: Final = 3
_CAPACITY: Final = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "110"}
_LEASE_SECONDS: Final = 40
"""kubelet's nodeLeaseDurationSeconds."""


def timestamp(*, micro: bool = False) -> str:
    """Now, as Kubernetes writes it; Leases have microseconds."""
    now = datetime.now(UTC)
    return now.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


def node(name: str, number: int, shape: NodeShape) -> dict[str, Any]:
    """A Node that says it is ready."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "topology.kubernetes.io/zone": f"zone-{number % _ZONES}",
                KIND_LABEL: "stand-in",
                **shape.labels,
            },
        },
        "status": {
            "capacity": _CAPACITY,
            "allocatable": _CAPACITY,
            "conditions": [
                _condition("Ready", "True", "KubeletReady"),
                _condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
                _condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
                _condition("PIDPressure", "False", "KubeletHasSufficientPID"),
            ],
            "addresses": [
                {"type": "InternalIP", "address": "127.0.0.1"},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": {
                "machineID": name,
                "systemUUID": name,
                "bootID": name,
                "kernelVersion": "stand-in",
                "osImage": "Sickbay lab",
                "containerRuntimeVersion": "stand-in://1",
                "kubeletVersion": f"v{KUBERNETES}",
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
        },
    }


def ready_again() -> dict[str, Any]:
    """Patch of a Node's status when its kubelet is back."""
    return {"status": {"conditions": [_condition("Ready", "True", "KubeletReady")]}}


def lease(name: str, node_uid: str) -> dict[str, Any]:
    """A node's first Lease, owned by the Node as a kubelet's is."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": name,
            "namespace": "kube-node-lease",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": node_uid}],
        },
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": _LEASE_SECONDS,
            "renewTime": timestamp(micro=True),
        },
    }


def device_class(driver: str) -> dict[str, Any]:
    """A DeviceClass of all devices of a driver, with the driver's name."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": driver},
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]},
    }


def slice_name(node_name: str, driver: str) -> str:
    """The name of a node's one ResourceSlice."""
    return f"{node_name}-{driver}"


def resource_slice(
    node_name: str, node_uid: str, shape: NodeShape, devices: list[Device], generation: int
) -> dict[str, Any]:
    """The whole pool of a node in one slice, owned by the Node as a real driver's is."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {
            "name": slice_name(node_name, shape.driver),
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": node_name, "uid": node_uid, "controller": True}
            ],
        },
        "spec": {
            "driver": shape.driver,
            "nodeName": node_name,
            "pool": {"name": node_name, "generation": generation, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": device.name,
                    "attributes": {
                        "uuid": {"string": device.uuid},
                        "model": {"string": shape.model},
                        "driverVersion": {"version": shape.driver_version},
                    },
                }
                for device in devices
            ],
        },
    }


def _condition(kind: str, status: str, reason: str) -> dict[str, Any]:
    now = timestamp()
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": reason,
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
