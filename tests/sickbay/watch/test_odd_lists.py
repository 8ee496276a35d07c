"""One odd pod in a list of 500, as a newer or broken API server would send it: nothing else suffers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from k8s.election import boot_clock
from k8s.gateway import Gateway
from k8s.lab.lab import Lab
from k8s.lab.proxy import FaultProxy
from k8s.resources import PODS
from k8s.store import Count
from sickbay.model.device import DeviceKey
from sickbay.model.observation import Health, Reason
from sickbay.telemetry.metrics import Metrics
from sickbay.watch.alerts import Alerts
from sickbay.watch.copy import Copy
from tests.conftest import AddNodes
from tests.installation import CLUSTER
from tests.k8s import cluster
from tests.sickbay.watch.house import House, policy

pytestmark = pytest.mark.lab

PODS_IN_ALL = 500
ODD = "odd"


class Seen:
    """What a copy of the cluster made of the list."""

    def __init__(self, proxy: FaultProxy, copy: Copy, metrics: Metrics, device: DeviceKey, namespace: str) -> None:
        self.proxy = proxy
        self.copy = copy
        self.metrics = metrics
        self.device = device
        self.namespace = namespace
        self._changes = 0

    def told(self) -> tuple[Health, Reason] | None:
        """What the device's evidence says, and why; None without evidence."""
        found = self.copy.directory.track(self.device).evidence(policy(self.namespace))
        return None if found.health is None else (found.health, found.reason)

    def counted(self) -> float:
        """Everything that could not be read so far."""
        self.copy.check()
        samples = (s for family in self.metrics.registry.collect() for s in family.samples)
        return sum(s.value for s in samples if s.name == "sickbay_unparsed_total")

    def pods(self) -> dict[str, bool]:
        """Name of each pod that is known, and whether it could not be decoded."""
        items = self.copy._informers[PODS.plural].items
        return {name: item.undecodable for (space, name), item in items.items() if space == self.namespace}

    async def lists_again(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Have the pods listed again, with the odd one changed so on its way."""
        self._changes += 1

        def rewrite(body: dict[str, Any]) -> dict[str, Any]:
            for item in body["items"]:
                metadata = item["metadata"]
                if metadata["name"] == ODD and metadata["namespace"] == self.namespace:
                    metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + self._changes)
                    change(item)
            return body

        counts = self.copy._informers[PODS.plural].counts
        watches = counts[Count.WATCHES]
        fault = self.proxy.rewrite("GET", "/api/v1/pods$", rewrite)
        gone = {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410}
        async with asyncio.timeout(30):
            while counts[Count.WATCHES] == watches:
                await self.proxy.inject("/api/v1/pods$", {"type": "ERROR", "object": gone})
                await asyncio.sleep(0.1)
        fault.stop()


@asynccontextmanager
async def copying(lab: Lab, proxy: FaultProxy, namespace: str, device: DeviceKey) -> AsyncIterator[Seen]:
    """Keep a copy of the cluster, read through the proxy."""
    metrics = Metrics()
    kubeconfig = proxy.kubeconfig(lab.kubeconfig)
    async with await Gateway.connect(kubeconfig=str(kubeconfig)) as gateway:
        copy = Copy(gateway, CLUSTER, policy(namespace), metrics, Alerts(metrics), clock=boot_clock)
        running = asyncio.create_task(copy.run())
        await copy.synced()
        try:
            yield Seen(proxy, copy, metrics, device, namespace)
        finally:
            running.cancel()


@pytest.fixture
async def seen(lab: Lab, house: House, namespace: str, add_nodes: AddNodes) -> AsyncIterator[Seen]:
    """Give a namespace of 500 pods, of which one holds a Healthy device, and a copy of it."""
    await add_nodes(1, cluster.shape(namespace))
    await cluster.create_template(lab.gateway, namespace, "gpu", f"{namespace}.example")
    await cluster.create_pod(lab.gateway, namespace, ODD, template="gpu")
    device = await cluster.device_of(lab.gateway, await cluster.running(lab.gateway, namespace, ODD))
    waiting = cluster.pod_spec() | {"schedulingGates": [{"name": "example.com/never"}]}
    for n in range(1, PODS_IN_ALL):
        await cluster.create(lab.gateway, PODS, namespace, {"metadata": {"name": f"pod-{n}"}, "spec": waiting})
    async with FaultProxy.start(lab.control_plane) as proxy, copying(lab, proxy, namespace, device) as copied:
        assert copied.told() == (Health.HEALTHY, Reason.REPORTED)
        yield copied


def _entry(pod: dict[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = pod["status"]["containerStatuses"][0]["allocatedResourcesStatus"][0]["resources"][0]
    return entry


def _null(pod: dict[str, Any]) -> None:
    pod["status"]["containerStatuses"][0]["allocatedResourcesStatus"] = None


def _missing(pod: dict[str, Any]) -> None:
    del _entry(pod)["health"]


def _unlisted(pod: dict[str, Any]) -> None:
    _entry(pod)["health"] = "PermanentlyUnhealthy"


def _unheard_of(pod: dict[str, Any]) -> None:
    _entry(pod)["temperature"] = {"celsius": 90}
    pod["status"]["mood"] = "good"


def _undecodable(pod: dict[str, Any]) -> None:
    pod["status"] = 42


async def test_one_odd_pod_among_500(seen: Seen) -> None:
    """Each oddity costs its own entry at most: 500 pods are known, none is taken for deleted, the rest is as it was."""
    before = seen.counted()
    await seen.lists_again(_unheard_of)
    assert seen.told() == (Health.HEALTHY, Reason.REPORTED), "an unheard-of field changes nothing"
    assert seen.counted() == before
    await seen.lists_again(_null)
    assert seen.told() is None, "null is no evidence"
    await seen.lists_again(_missing)
    assert seen.told() is None, "an entry without a word is no evidence"
    before = seen.counted()
    await seen.lists_again(_unlisted)
    assert seen.told() == (Health.UNKNOWN, Reason.UNLISTED_HEALTH)
    assert seen.counted() > before
    before = seen.counted()
    await seen.lists_again(_undecodable)
    assert seen.told() == (Health.UNKNOWN, Reason.UNDECODABLE)
    assert seen.counted() > before
    pods = seen.pods()
    assert len(pods) == PODS_IN_ALL
    assert [name for name, undecodable in pods.items() if undecodable] == [ODD]
