"""Where tests of stand-in nodes play: one node with devices of its own, and the pods on it."""

from __future__ import annotations

from typing import Any

from k8s.gateway import decode
from k8s.lab.lab import Lab
from sickbay import errors
from tests.k8s.cluster import create_pod, pod_spec, until


class Ward:
    """One node with devices of a driver of its own, and a namespace whose pods use them."""

    def __init__(self, lab: Lab, namespace: str, node: str, driver: str) -> None:
        self.gateway = lab.gateway
        self.fleet = lab.fleet
        self.namespace = namespace
        self.node = node
        self.driver = driver

    async def run(self, name: str, *, phase: str = "Running", **pod: Any) -> dict[str, Any]:
        """Create a pod with a claim of its own, and wait for a phase."""
        await create_pod(self.gateway, self.namespace, name, template="one", **pod)
        return await self.until(name, lambda status: status["phase"] == phase)

    async def start_trial(self, name: str, image: str) -> None:
        """Create a pod of one of Sickbay's own images, with a claim of its own."""
        body = {"metadata": {"name": name}, "spec": pod_spec(template="one", restart="Never")}
        body["spec"]["containers"][0]["image"] = image
        await self.gateway.request("POST", f"/api/v1/namespaces/{self.namespace}/pods", body=body)

    async def until(self, name: str, seen: Any) -> dict[str, Any]:
        """Wait for a pod's status."""

        async def look() -> dict[str, Any] | None:
            pod = await self.pod(name)
            return pod if seen(pod["status"]) else None

        return await until(look)

    async def pod(self, name: str) -> dict[str, Any]:
        """Read a pod."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}"
        pod: dict[str, Any] = decode(await self.gateway.request("GET", path))
        return pod

    async def gone(self, name: str) -> None:
        """Wait until a pod is gone."""

        async def look() -> bool:
            try:
                await self.pod(name)
            except errors.NotFound:
                return True
            return False

        await until(look)


def container(pod: dict[str, Any]) -> dict[str, Any]:
    """The status of a pod's one container."""
    status: dict[str, Any] = pod["status"]["containerStatuses"][0]
    return status


def told_of(pod: dict[str, Any]) -> dict[str, str]:
    """Resource id → health, in a pod's status."""
    entries = container(pod).get("allocatedResourcesStatus", [])
    return {resource["resourceID"]: resource["health"] for entry in entries for resource in entry["resources"]}
