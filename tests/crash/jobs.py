"""The jobs of the lab: Deployments whose pods hold one device each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from k8s.gateway import Gateway, decode
from sickbay.model.device import DeviceKey
from tests.crash.waiting import until

CLUSTER: Final = "crash"
NAMESPACE: Final = "jobs"


@dataclass(frozen=True)
class Seat:
    """A pod and the one device that it holds."""

    pod: str
    uid: str
    key: DeviceKey

    @property
    def device(self) -> str:
        """``driver/pool/device``, as the checker names it."""
        return f"{self.key.driver}/{self.key.pool}/{self.key.device}"


async def run_job(gateway: Gateway, name: str, count: int, driver: str) -> list[Seat]:
    """Start a Deployment of this many pods, wait until each runs on a device of its own, and tell on which."""
    claims = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaimtemplates"
    await gateway.request("POST", claims, body=_template(name, driver))
    await gateway.request("POST", f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments", body=_deployment(name, count))

    async def seated() -> list[Seat]:
        seats = await seats_of(gateway, name)
        return seats if len(seats) == count else []

    return await until(f"{count} pods of {name} run", seated, within=60)


async def seats_of(gateway: Gateway, job: str) -> list[Seat]:
    """Tell which of a job's running pods holds which device."""
    pods = decode(
        await gateway.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods", params={"labelSelector": f"app={job}"})
    )
    claims = decode(await gateway.request("GET", f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"))
    held = {
        consumer["uid"]: claim["status"]["allocation"]["devices"]["results"][0]
        for claim in claims["items"]
        for consumer in claim.get("status", {}).get("reservedFor", [])
    }
    return [
        Seat(pod["metadata"]["name"], pod["metadata"]["uid"], _key(held[pod["metadata"]["uid"]]))
        for pod in pods["items"]
        if pod["status"].get("phase") == "Running"
        and pod["metadata"]["uid"] in held
        and "deletionTimestamp" not in pod["metadata"]
    ]


def _key(result: Mapping[str, str]) -> DeviceKey:
    return DeviceKey(cluster=CLUSTER, driver=result["driver"], pool=result["pool"], device=result["device"])


def _template(name: str, driver: str) -> dict[str, Any]:
    request = {"name": "gpu", "exactly": {"deviceClassName": driver}}
    return {"metadata": {"name": name}, "spec": {"spec": {"devices": {"requests": [request]}}}}


def _deployment(name: str, replicas: int) -> dict[str, Any]:
    container = {"name": "main", "image": "example.com/train:1", "resources": {"claims": [{"name": "gpu"}]}}
    pod = {
        "containers": [container],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": name}],
        "terminationGracePeriodSeconds": 5,
    }
    labels = {"app": name}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
