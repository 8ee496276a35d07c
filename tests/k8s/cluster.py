"""What tests put into a real cluster, and how they wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from k8s import claims
from k8s.gateway import Gateway
from k8s.lab.nodes.fleet import NodeShape
from k8s.listings import ClaimLister, list_all
from k8s.probe_objects import PROBE_NAMESPACE
from k8s.reading import Reader
from k8s.resources import PODS, RESOURCECLAIMS, RESOURCECLAIMTEMPLATES, Resource
from k8s.wire import Pod
from sickbay import errors
from sickbay.model.device import DeviceKey
from tests.installation import CLUSTER

T = TypeVar("T")

_POD = Reader(Pod)

FIRST_PAUSE: Final = 0.02
LONGEST_PAUSE: Final = 0.3
"""Seconds between two looks: what is looked at shares two cores with who looks."""


def shape(namespace: str, devices: int = 1, **more: Any) -> NodeShape:
    """Shape nodes whose driver is the test's own, so that nobody else's pods take their devices."""
    return NodeShape(devices=devices, driver=f"{namespace}.example", **more)


def device(namespace: str, node: str, name: str = "gpu-0") -> DeviceKey:
    """Name a device of such a node."""
    return DeviceKey(cluster=CLUSTER, driver=f"{namespace}.example", pool=node, device=name)


async def until(look: Callable[[], Awaitable[T | None]], *, within: float = 30.0) -> T:
    """Look until there is something to see: often at first, and less often the longer it takes."""
    pause = FIRST_PAUSE
    async with asyncio.timeout(within):
        while not (seen := await look()):
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE, pause * 1.2)
    return seen


async def create(gateway: Gateway, resource: Resource, namespace: str, body: Mapping[str, Any]) -> None:
    """Create an object."""
    await gateway.request("POST", resource.path(namespace), body=body)


async def delete(gateway: Gateway, resource: Resource, namespace: str, name: str) -> None:
    """Ask for an object's deletion, as a person does."""
    await gateway.request("DELETE", resource.path(namespace, name))


async def trial_there(gateway: Gateway, name: str) -> tuple[bool, bool]:
    """Tell whether pod and claim of a probe or canary are there."""
    found = []
    for resource in (PODS, RESOURCECLAIMS):
        try:
            await gateway.request("GET", resource.path(PROBE_NAMESPACE, name))
        except errors.NotFound:
            found.append(False)
        else:
            found.append(True)
    return found[0], found[1]


def claim_spec(driver: str, **exactly: Any) -> dict[str, Any]:
    """Build a claim's spec: one device of this driver."""
    return {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": driver, **exactly}}]}}


async def create_claim(gateway: Gateway, namespace: str, name: str, driver: str, **exactly: Any) -> None:
    """Create a claim that pods share by its name."""
    body = {"metadata": {"name": name}, "spec": claim_spec(driver, **exactly)}
    await create(gateway, RESOURCECLAIMS, namespace, body)


async def create_template(gateway: Gateway, namespace: str, name: str, driver: str) -> None:
    """Create a template from which each pod gets a claim of its own."""
    body = {"metadata": {"name": name}, "spec": {"spec": claim_spec(driver)}}
    await create(gateway, RESOURCECLAIMTEMPLATES, namespace, body)


def pod_spec(*, claim: str = "", template: str = "", restart: str = "Always") -> dict[str, Any]:
    """Build a pod's spec: one container that uses a claim, a claim of its own, or none."""
    container: dict[str, Any] = {"name": "main", "image": "sickbay.dev/job:v1"}
    spec: dict[str, Any] = {
        "containers": [container],
        "restartPolicy": restart,
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
    }
    if claim or template:
        container["resources"] = {"claims": [{"name": "gpu"}]}
        source = {"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": template}
        spec["resourceClaims"] = [{"name": "gpu", **source}]
    return spec


async def create_pod(
    gateway: Gateway, namespace: str, name: str, *, behaviour: Mapping[str, str] | None = None, **spec: Any
) -> None:
    """Create a bare pod; ``behaviour`` are annotations of the lab without their prefix."""
    metadata = {"name": name, "labels": {"app": name}, "annotations": told(behaviour)}
    await create(gateway, PODS, namespace, {"metadata": metadata, "spec": pod_spec(**spec)})


def workload(
    kind: str, name: str, *, behaviour: Mapping[str, str] | None = None, replicas: int = 1, **spec: Any
) -> dict[str, Any]:
    """Build a Deployment, StatefulSet or Job of pods with label ``app``."""
    restart = "Never" if kind == "Job" else "Always"
    template = {
        "metadata": {"labels": {"app": name}, "annotations": told(behaviour)},
        "spec": pod_spec(restart=restart, **spec),
    }
    if kind == "Job":
        return {"metadata": {"name": name}, "spec": {"template": template}}
    selector = {"matchLabels": {"app": name}}
    more = {"serviceName": name} if kind == "StatefulSet" else {}
    body = {"replicas": replicas, "selector": selector, "template": template, **more}
    return {"metadata": {"name": name}, "spec": body}


def told(behaviour: Mapping[str, str] | None) -> dict[str, str]:
    """Spell what a pod does on a stand-in node."""
    return {f"lab.sickbay.dev/{key}": value for key, value in (behaviour or {}).items()}


async def pods(gateway: Gateway, namespace: str, app: str) -> list[Pod]:
    """List pods by label ``app``."""
    listed = await list_all(gateway, PODS, _POD, namespace=namespace, params={"labelSelector": f"app={app}"})
    return list(listed.items)


async def running(gateway: Gateway, namespace: str, app: str, *, but: str = "") -> Pod:
    """Wait for a running pod of this label, other than the one with uid ``but``."""

    async def look() -> Pod | None:
        found = await pods(gateway, namespace, app)
        return next(
            (
                p
                for p in found
                if p.status.phase == "Running" and p.metadata.uid != but and not p.metadata.deletion_timestamp
            ),
            None,
        )

    return await until(look)


async def device_of(gateway: Gateway, pod: Pod) -> DeviceKey:
    """Find the one device that a pod holds."""
    held = await ClaimLister(gateway).get()
    keys = [
        key
        for claim in held.by_name.values()
        if any(consumer.uid == pod.metadata.uid for consumer in claim.status.reserved_for)
        for key in claims.held_by(claim, cluster=CLUSTER)
    ]
    (key,) = keys
    return key
