"""Where every measurement happens: a lab of its own, and pods that hold its devices."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from k8s.gateway import Gateway
from k8s.install import install
from k8s.lab.controlplane import ControlPlaneOptions
from k8s.lab.lab import Lab, default_account
from k8s.lab.temporal import TemporalOptions
from k8s.listings import list_all
from k8s.reading import Reader
from k8s.resources import NAMESPACES, PODS, RESOURCECLAIMS, RESOURCECLAIMTEMPLATES
from k8s.wire import Pod, ResourceClaim
from sickbay import errors
from sickbay.model.device import DeviceKey
from sickbay.temporal import Temporal

CLUSTER: Final = "bench"
NAMESPACE: Final = "bench"
AUDIT_POLICY: Final = Path(__file__).with_name("audit-policy.yaml")

CREATES: Final = 32
"""Objects created at once: below the gateway's connections."""

WITHIN: Final = 300.0
"""Seconds for all pods to run."""


@dataclass(frozen=True)
class Seat:
    """A pod, and the one device that it holds."""

    namespace: str
    pod: str
    device: DeviceKey


@asynccontextmanager
async def stage(logs: Path | None = None) -> AsyncIterator[Lab]:
    """Start a fresh lab with Sickbay installed, its namespace ready for pods, still without nodes.

    Args:
        logs: a directory that the logs of all processes and the audit log are copied to at the end.
    """
    quiet = ControlPlaneOptions(flags={"apiserver": (f"--audit-policy-file={AUDIT_POLICY}",)})
    async with Lab.start(control_plane=quiet, temporal=TemporalOptions()) as lab, _logs_kept(lab.directory, logs):
        temporal = Temporal(lab.temporal.address)
        await install(lab.gateway, cluster=CLUSTER, namespace_id=await temporal.namespace_id())
        await lab.gateway.request("POST", NAMESPACES.path(), body={"metadata": {"name": NAMESPACE}})
        await default_account(lab.gateway, NAMESPACE)
        yield lab


@asynccontextmanager
async def _logs_kept(directory: Path, logs: Path | None) -> AsyncIterator[None]:
    try:
        yield
    finally:
        if logs is not None:
            await asyncio.to_thread(_copy, directory, logs)


def _copy(directory: Path, logs: Path) -> None:
    logs.mkdir(parents=True, exist_ok=True)
    for log in (*directory.glob("*.log"), *directory.glob("audit*.jsonl")):
        shutil.copy2(log, logs)


async def seated(gateway: Gateway, driver: str, prefix: str, count: int, *, namespace: str = NAMESPACE) -> list[Seat]:
    """Start pods with one device each, wait until all run, and tell who holds what, in the order of their names.

    Args:
        gateway: as administrator.
        driver: of the devices, and name of their class.
        prefix: of the pods' names.
        count: of pods.
        namespace: of the pods, which admits them already.
    """
    await gateway.request("POST", RESOURCECLAIMTEMPLATES.path(namespace), body=_template(prefix, driver))
    room = asyncio.Semaphore(CREATES)

    async def create(number: int) -> None:
        async with room:
            body = _pod(f"{prefix}-{number:04}", template=prefix)
            await gateway.request("POST", PODS.path(namespace), body=body, wait=30)

    await asyncio.gather(*(create(number) for number in range(count)))
    seats: list[Seat] = []
    async with asyncio.timeout(WITHIN):
        while len(seats) < count:
            await asyncio.sleep(1)
            with suppress(errors.ClusterUnavailable):  # the API server is busy with them
                seats = await _seats(gateway, driver, prefix, namespace)
    return seats


async def _seats(gateway: Gateway, driver: str, prefix: str, namespace: str) -> list[Seat]:
    pods = (await list_all(gateway, PODS, Reader(Pod), namespace=namespace)).items
    running = [p for p in pods if p.status.phase == "Running" and p.metadata.name.startswith(f"{prefix}-")]
    claims = (await list_all(gateway, RESOURCECLAIMS, Reader(ResourceClaim), namespace=namespace)).items
    held = {
        claim.metadata.name: DeviceKey(cluster=CLUSTER, driver=driver, pool=result.pool, device=result.device)
        for claim in claims
        for result in (claim.status.allocation.devices.results if claim.status.allocation else ())
    }
    return sorted(
        (
            Seat(namespace, pod.metadata.name, held[pod.status.resource_claim_statuses[0].resource_claim_name])
            for pod in running
        ),
        key=lambda seat: seat.pod,
    )


def _template(name: str, driver: str) -> dict[str, Any]:
    request = {"name": "gpu", "exactly": {"deviceClassName": driver}}
    return {"metadata": {"name": name}, "spec": {"spec": {"devices": {"requests": [request]}}}}


def _pod(name: str, *, template: str) -> dict[str, Any]:
    container = {"name": "main", "image": "example.com/train:1", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template}]}
    return {"metadata": {"name": name}, "spec": spec}
