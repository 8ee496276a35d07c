"""The demo's job on the cluster: start it, and find the device that it was given."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from k8s.gateway import Gateway, decode
from k8s.lab.lab import Lab, default_account
from k8s.lab.nodes.fleet import DRIVER
from sickbay.cli.demo import scene
from sickbay.model.device import DeviceKey

CLUSTER: Final = "demo"

LOOK: Final = 0.15
"""Seconds between two looks of the spectator."""

SCHEDULED_WITHIN: Final = 60.0
"""Seconds for the first pod; some two are normal."""

LATE_WITHIN: Final = 10.0
"""Seconds for the pod that waits, once its device is released."""


@dataclass(frozen=True)
class Seat:
    """The device that the job sits on."""

    pod: str
    key: DeviceKey
    uuid: str


async def start(lab: Lab) -> Seat:
    """Start the job and wait until it has a device."""
    namespace, *rest = scene.objects()
    await create(lab.gateway, [namespace])
    await default_account(lab.gateway, scene.NAMESPACE)
    await create(lab.gateway, rest)
    async with asyncio.timeout(SCHEDULED_WITHIN):
        while (found := await seat(lab)) is None:  # noqa: ASYNC110 - the scheduler is another process
            await asyncio.sleep(LOOK)
    return found


async def create(gateway: Gateway, objects: list[tuple[str, dict[str, Any]]]) -> None:
    """Create objects in this order."""
    for path, body in objects:
        await gateway.request("POST", path, body=body)


async def seat(lab: Lab) -> Seat | None:
    """Find the device of the job's running pod, None while there is none."""
    for pod in (await _get(lab.gateway, f"/api/v1/namespaces/{scene.NAMESPACE}/pods"))["items"]:
        if not pod["metadata"]["name"].startswith(scene.JOB) or pod["status"].get("phase") != "Running":
            continue
        if "deletionTimestamp" in pod["metadata"]:
            continue
        claim = pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
        path = f"/apis/resource.k8s.io/v1/namespaces/{scene.NAMESPACE}/resourceclaims/{claim}"
        result = (await _get(lab.gateway, path))["status"]["allocation"]["devices"]["results"][0]
        key = DeviceKey(cluster=CLUSTER, driver=DRIVER, pool=result["pool"], device=result["device"])
        node = next(n for n in lab.fleet.describe() if n.name == key.pool)
        uuid = next(d.uuid for d in node.devices if d.name == key.device)
        return Seat(pod=pod["metadata"]["name"], key=key, uuid=uuid)
    return None


async def runs(lab: Lab, pod: str) -> bool:
    """Wait until a pod runs, and say whether it came to that."""
    path = f"/api/v1/namespaces/{scene.NAMESPACE}/pods/{pod}"
    try:
        async with asyncio.timeout(LATE_WITHIN):
            while (await _get(lab.gateway, path))["status"].get("phase") != "Running":  # noqa: ASYNC110
                await asyncio.sleep(LOOK)
    except TimeoutError:
        return False
    return True


async def _get(gateway: Gateway, path: str) -> Any:
    return decode(await gateway.request("GET", path))
