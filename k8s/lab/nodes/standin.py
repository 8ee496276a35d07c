"""Stand-in nodes: the cluster cannot tell them from real ones, and hundreds fit into one process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

from k8s.gateway import Gateway
from k8s.lab.nodes import objects
from k8s.lab.nodes.devices import Device, LoadFault
from k8s.lab.nodes.fleet import FAILS_AFTER, DeviceState, Health, NodeShape, NodeState
from k8s.lab.nodes.node import STRATEGIC_PATCH, StandInNode
from k8s.lab.nodes.pod import ClaimKey, Cluster, PodRun
from k8s.lab.nodes.watching import Follower
from k8s.lab.nodes.wire import Claim, Node, Page, Pod
from sickbay import errors

log = structlog.get_logger(__name__)

_WRITES_AT_ONCE: Final = 48
"""Of the gateway's connections; the watches and the Leases need some too."""

_AGAIN: Final = 0.2
_MOST_DEVICES: Final = 128
_SCHEDULABLE_WITHIN: Final = 60.0
_NOT_READY: Final = "node.kubernetes.io/not-ready"


class StandInFleet:
    """All stand-in nodes of one lab, in one process, on one watch of pods and one of claims.

    Attributes:
        nodes: by name.
    """

    def __init__(self, gateway: Gateway) -> None:
        self.nodes: dict[str, StandInNode] = {}
        self._gateway = gateway
        self._tasks: set[asyncio.Task[None]] = set()
        self._writes = asyncio.Semaphore(_WRITES_AT_ONCE)
        self._claims: dict[ClaimKey, Claim] = {}
        self._runs: dict[str, PodRun] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._missed: dict[str, asyncio.Task[None]] = {}
        self._cluster = Cluster(self._claims, self._write_status, self._delete)
        self._classes: set[str] = set()
        self._numbers = 0

    @classmethod
    @asynccontextmanager
    async def start(cls, kubeconfig: Path) -> AsyncIterator[StandInFleet]:
        """Run a fleet, still without nodes, until the block ends; nothing is taken out of the cluster then."""
        async with await Gateway.connect(kubeconfig=str(kubeconfig)) as gateway:
            fleet = cls(gateway)
            claims = Follower(
                gateway, "/apis/resource.k8s.io/v1/resourceclaims", Claim, fleet._claim_changed, fleet._claim_gone
            )
            pods = Follower(
                gateway, "/api/v1/pods", Pod, fleet._pod_changed, fleet._pod_gone, selector="spec.nodeName!="
            )
            try:
                for follower in (claims, pods):
                    await fleet._follow(follower)
                yield fleet
            finally:
                await fleet._stop()

    async def add(self, count: int = 1, shape: NodeShape | None = None) -> list[str]:
        """Add nodes, wait until pods can be scheduled to them, and return their names."""
        shape = shape or NodeShape()
        if not 0 <= shape.devices <= _MOST_DEVICES:
            raise errors.UsageError(f"devices: {shape.devices} do not fit into one slice; use 0 to {_MOST_DEVICES}")
        await self._ensure_class(shape.driver)
        fresh = [
            StandInNode(f"{shape.prefix}-{number}", number, shape, self._gateway)
            for number in range(self._numbers, self._numbers + count)
        ]
        self._numbers += count
        self.nodes.update({node.name: node for node in fresh})  # before a pod can be bound
        await _all(self._bounded(node.register()) for node in fresh)
        names = [node.name for node in fresh]
        await self._until_schedulable(set(names))
        return names

    async def remove(self, node: str) -> None:
        """Take a node out of the cluster for good; its pods end as those of a node that is gone do."""
        found = self._node(node)
        del self.nodes[node]
        if (missed := self._missed.pop(node, None)) is not None:
            missed.cancel()
        for uid in [uid for uid, run in self._runs.items() if run.pod.spec.node_name == node]:
            self._forget(uid)
        await found.unregister()

    async def break_device(
        self,
        node: str,
        device: str,
        *,
        health: Health = Health.UNHEALTHY,
        message: str = "",
        probe_fails: bool = True,
    ) -> None:
        """Make a device ill; returns when the pods that hold it say so in their status."""
        found = self._device(node, device)
        found.be(health, message, probe_fails=probe_fails)
        await self._tell(node, found)

    async def break_under_load(
        self, node: str, device: str, *, after: timedelta = FAILS_AFTER, message: str = ""
    ) -> None:
        """Give a device a fault that shows only under the load of a canary that starts after this."""
        found = self._device(node, device)
        found.be(Health.HEALTHY, "", probe_fails=False)
        found.load_fault = LoadFault(after, message)
        await self._tell(node, found)

    async def heal(self, node: str, device: str) -> None:
        """Make a device well again."""
        await self.break_device(node, device, health=Health.HEALTHY, probe_fails=False)

    async def swap(self, node: str, device: str) -> str:
        """Put another, healthy card into the slot: same name, new uuid, which is returned."""
        found = self._device(node, device)
        await self._node(node).swap(found)
        await self._tell(node, found)
        return found.uuid

    async def lose_driver(self, node: str) -> None:
        """End the node's DRA driver; what kubelet makes of that shows after the node's delays."""
        found = self._node(node)
        if not found.driver.there.is_set():
            raise errors.UsageError(f"node {node!r}: its driver is gone already; regain it first")
        found.driver.go()
        missed = found.driver.be_missed(found.withdraw, lambda: self._sync_all(node))
        self._missed[node] = self._spawn(missed, f"driver of {node}")

    async def regain_driver(self, node: str) -> None:
        """Start the driver again; returns when slices are published and statuses say how the devices are now."""
        found = self._node(node)
        if node not in self._missed:
            raise errors.UsageError(f"node {node!r}: its driver is there; only one that was lost can be regained")
        self._missed.pop(node).cancel()
        await asyncio.sleep(found.shape.driver_delays.back.total_seconds())
        await found.publish()
        found.driver.there.set()
        await self._sync_all(node)
        for run in self._runs_on(node):
            run.poke()  # those that could not start or end without it

    async def stop_lease(self, node: str) -> None:
        """Cut the node off: no renewal, no status, no pod started or ended, as if its kubelet hung."""
        self._node(node).cut_off()

    async def resume_lease(self, node: str) -> None:
        """Let the node go on: it renews at once and writes what changed meanwhile."""
        await self._node(node).come_back()
        await _all(run.sync(all_of_it=True) for run in self._runs_on(node))

    def describe(self) -> list[NodeState]:
        """Tell how all nodes are, in the order in which they were added."""
        return [
            NodeState(
                node.name,
                node.reachable.is_set(),
                tuple(
                    DeviceState(d.name, d.uuid, *d.told, fails_under_load=d.load_fault is not None)
                    for d in node.devices.values()
                ),
                driver=node.driver.there.is_set(),
            )
            for node in self.nodes.values()
        ]

    def _node(self, name: str) -> StandInNode:
        if name not in self.nodes:
            raise errors.UsageError(f"node {name!r}: not in this lab; it has {_some(self.nodes)}")
        return self.nodes[name]

    def _device(self, node: str, device: str) -> Device:
        devices = self._node(node).devices
        if device not in devices:
            raise errors.UsageError(f"device {device!r}: not on node {node}; it has {_some(devices)}")
        return devices[device]

    def _runs_on(self, node: str) -> list[PodRun]:
        return [run for run in self._runs.values() if run.pod.spec.node_name == node]

    async def _sync_all(self, node: str) -> None:
        await _all(run.sync() for run in self._runs_on(node))

    async def _tell(self, node: str, device: Device) -> None:
        holders = [run for run in self._runs_on(node) if run.holds(device)]
        await _all(run.sync() for run in holders)
        for run in holders:
            run.poke()

    async def _ensure_class(self, driver: str) -> None:
        if driver in self._classes:
            return
        try:
            body = objects.device_class(driver)
            await self._gateway.request("POST", "/apis/resource.k8s.io/v1/deviceclasses", body=body)
        except errors.AlreadyExists:
            log.debug("device_class.found", driver=driver)
        self._classes.add(driver)

    async def _until_schedulable(self, names: set[str]) -> None:
        """Wait until the node life cycle controller has taken the taint off that every new node gets."""
        try:
            async with asyncio.timeout(_SCHEDULABLE_WITHIN):
                while names:
                    answer = await self._gateway.request(
                        "GET", "/api/v1/nodes", params={"labelSelector": objects.KIND_LABEL}
                    )
                    for node in msgspec.json.decode(answer, type=Page[Node]).items:
                        if not any(taint.key == _NOT_READY for taint in node.spec.taints):
                            names.discard(node.metadata.name)
                    await asyncio.sleep(0.05 if names else 0)
        except TimeoutError as error:
            raise errors.UnavailableError(f"nodes stayed tainted: {_some(sorted(names))}") from error

    async def _follow(self, follower: Follower[Any]) -> None:
        """Start a watch, and wait for its first list or its failure."""
        watch = self._spawn(follower.run(), follower.path)
        synced = asyncio.create_task(follower.synced.wait())
        await asyncio.wait({watch, synced}, return_when=asyncio.FIRST_COMPLETED)
        if watch.done():
            synced.cancel()
            await watch

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Tell of a failure at once: whoever waits for what this task did would wait in vain."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("lab_task.failed", task=task.get_name(), exc_info=error)

    async def _stop(self) -> None:
        for node in self.nodes.values():
            node.stop_renewing()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _pod_changed(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        if run := self._runs.get(uid):
            run.update(pod)
        elif pod.spec.node_name in self.nodes and (pod.deleted or not pod.terminal):
            run = self._runs[uid] = PodRun(pod, self.nodes[pod.spec.node_name], self._cluster)
            self._running[uid] = self._spawn(run.run(), f"pod {pod.metadata.name}")

    def _pod_gone(self, pod: Pod) -> None:
        self._forget(pod.metadata.uid)

    def _forget(self, uid: str) -> None:
        if self._runs.pop(uid, None) is not None:
            self._running.pop(uid).cancel()

    def _claim_changed(self, claim: Claim) -> None:
        self._claims[claim.metadata.namespace, claim.metadata.name] = claim
        for consumer in claim.status.reserved_for:
            if run := self._runs.get(consumer.uid):
                run.poke()

    def _claim_gone(self, claim: Claim) -> None:
        self._claims.pop((claim.metadata.namespace, claim.metadata.name), None)

    async def _write_status(self, pod: Pod, status: dict[str, Any]) -> bool:
        body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        return await self._insist("PATCH", f"{_path(pod)}/status", body, STRATEGIC_PATCH)

    async def _delete(self, pod: Pod) -> None:
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.metadata.uid}}
        await self._insist("DELETE", _path(pod), body, "application/json")

    async def _insist(self, method: str, path: str, body: dict[str, Any], content_type: str) -> bool:
        """Make a request until the API server answers it; False if the object is gone, or another of its name."""
        while True:
            try:
                await self._bounded(self._gateway.request(method, path, body=body, content_type=content_type))
            except (errors.NotFound, errors.Conflict):
                return False
            except (errors.UnavailableError, errors.ServerFault, errors.TooManyRequests):
                await asyncio.sleep(_AGAIN)
            else:
                return True

    async def _bounded(self, work: Coroutine[Any, Any, Any]) -> None:
        async with self._writes:
            await work


async def _all(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    await asyncio.gather(*work)


def _path(pod: Pod) -> str:
    return f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}"


def _some(names: Iterable[str]) -> str:
    """Name a few of many."""
    listed = list(names)
    few = ", ".join(listed[:8])
    return f"{few} and {len(listed) - 8} more" if len(listed) > 8 else few or "none"  # noqa: PLR2004
