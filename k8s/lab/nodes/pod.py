"""One pod on a stand-in node, from its binding to its end."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import structlog

from k8s.lab.nodes import behaviour, status, trials
from k8s.lab.nodes.devices import Device
from k8s.lab.nodes.fleet import Health
from k8s.lab.nodes.node import StandInNode
from k8s.lab.nodes.objects import timestamp
from k8s.lab.nodes.trials import Trial
from k8s.lab.nodes.wire import Claim, Pod, Result
from sickbay import errors

log = structlog.get_logger(__name__)

_SIGKILL: Final = 137
_SIGTERM: Final = 143
_BACK_OFF: Final = (1.0, 30.0)
"""Seconds before the first restart, and at most; it doubles. kubelet's own are 10 s and 5 min."""

ClaimKey = tuple[str, str]
"""Namespace and name."""


@dataclasses.dataclass(frozen=True)
class Cluster:
    """What a pod's run needs from its fleet.

    Attributes:
        claims: all ResourceClaims, kept up to date.
        write_status: patch a pod's status; False if this pod is there no longer.
        delete: delete a pod for good, with grace period 0 and its uid as precondition.
    """

    claims: Mapping[ClaimKey, Claim]
    write_status: Callable[[Pod, dict[str, Any]], Awaitable[bool]]
    delete: Callable[[Pod], Awaitable[None]]


class PodRun:
    """Runs one pod as kubelet would: waits for its claims, starts, restarts and stops its containers, tells its status.

    Attributes:
        pod: as last seen.
        over: whether nothing of it runs or will run again.
    """

    def __init__(self, pod: Pod, node: StandInNode, cluster: Cluster) -> None:
        self.pod = pod
        self.over = False
        self._node = node
        self._cluster = cluster
        self._behaviour = behaviour.Behaviour()
        self._trial = trials.trial_of(pod)
        self._borne = False
        self._changed = asyncio.Event()
        self._writing = asyncio.Lock()
        self._containers: status.Containers | None = None
        self._conditions = status.Conditions()
        self._phase = "Pending"
        self._started_at = ""
        self._written: dict[str, Any] = {}
        self._results: tuple[tuple[str, Claim, Result], ...] = ()

    def update(self, pod: Pod) -> None:
        """Take note of a newer state of the pod."""
        self.pod = pod
        self.poke()

    def poke(self) -> None:
        """Look again: a claim or a device changed."""
        self._changed.set()

    def holds(self, device: Device) -> bool:
        """Whether the pod holds this device of its node now."""
        return not self.over and any(self._device(result) is device for _, _, result in self._results)

    async def run(self) -> None:
        """Run the pod until it is over and, if someone asked for that, deleted."""
        try:
            await self._live()
            self.over = self._ended_for_good()
            # That somebody deletes a pod that has just ended by itself may be known to the API server and not yet here.
            await self._wait(lambda: self.pod.deleted)
            await self._end()
        except errors.ClusterError as error:
            log.warning("pod.status_refused", pod=self.pod.metadata.name, error=str(error))
        finally:
            self.over = True

    async def sync(self, *, all_of_it: bool = False) -> None:
        """Write what changed since the last time, unless the node is cut off or the pod over.

        Args:
            all_of_it: also what we wrote before, since others may have changed it.
        """
        async with self._writing:
            if self._containers is None or self.over or not self._node.reachable.is_set():
                return
            await self._write(self._render(self._containers), {} if all_of_it else self._written)

    async def _live(self) -> None:
        """Wait for the claims, then run the containers until they are over or the pod is to be deleted."""
        try:
            self._behaviour = behaviour.parse(self.pod.metadata.annotations)
        except errors.UsageError as error:
            now = timestamp()
            await self._finish(status.Exit(1, now, now, "InvalidAnnotation", str(error)))
            return
        if not await self._wait(lambda: self.pod.deleted or self._claims_ready()) or self.pod.deleted:
            return
        self._started_at = timestamp()
        restarts, last, pause = 0, None, _BACK_OFF[0]
        while True:
            await self._show(status.Containers(timestamp(), last=last, restarts=restarts))
            ended = await self._until_end()
            if ended is None:
                return
            if not self._starts_again(ended):
                await self._finish(ended, restarts=restarts, last=last)
                return
            last, self._borne = ended, False
            await self._show(status.Containers(backing_off=True, last=last, restarts=restarts))
            if await self._wait(lambda: self.pod.deleted, seconds=pause):
                return
            restarts, pause = restarts + 1, min(pause * 2, _BACK_OFF[1])

    async def _end(self) -> None:
        """Stop the containers within the grace period, then delete the pod."""
        await self._node.reachable.wait()
        if self._containers is not None and not self._ended_for_good():
            grace = self.pod.metadata.deletion_grace_period_seconds or 0
            in_time = self._behaviour.stop_after <= grace
            await asyncio.sleep(min(self._behaviour.stop_after, grace))
            code = _SIGTERM if in_time else _SIGKILL
            started_at = self._containers.started_at or self._started_at
            told = trials.message(self._devices(), passed=True) if self._borne and in_time else ""
            await self._finish(
                status.Exit(code, started_at, timestamp(), "Error", told),
                restarts=self._containers.restarts,
                last=self._containers.last,
            )
        await self._node.reachable.wait()
        await self._cluster.delete(self.pod)

    async def _until_end(self) -> status.Exit | None:
        """Wait until the containers end by themselves; None if the pod is to be deleted before."""
        if self._trial is Trial.CANARY:
            return await self._load()
        told = self._behaviour
        probe = self._trial is Trial.PROBE
        run_for = trials.PROBE_RUNS_FOR if probe and told.run_for is None else told.run_for
        killed = await self._wait(lambda: self.pod.deleted or self._killed_by_device(), seconds=run_for)
        if self.pod.deleted:
            return None
        if killed or not probe:
            return self._exit(1 if killed else told.exit_code)
        return self._verdict(passed=trials.probe_passes(self._devices()))

    async def _load(self) -> status.Exit | None:
        """Load the devices until the pod is to be deleted, ready once they have borne it; or find one ill."""
        devices = self._devices()
        strain = [asyncio.create_task(self._strain(device)) for device in devices]
        try:
            load_time = self._node.shape.load_time.total_seconds()
            await self._wait(lambda: self.pod.deleted or self._ill(), seconds=load_time)
            if self.pod.deleted:
                return None
            if self._ill() or not trials.probe_passes(devices):
                return self._verdict(passed=False)
            self._borne = True
            await self.sync()
            await self._wait(lambda: self.pod.deleted or self._killed_by_device())
            return self._exit(1) if self._killed_by_device() else None
        finally:
            for task, device in zip(strain, devices, strict=True):
                task.cancel()
                device.failing = False  # it shows under load alone

    async def _strain(self, device: Device) -> None:
        """Have a fault that shows only under load show in time: first in the status, then to the pod itself."""
        if device.load_fault is None:
            return
        await asyncio.sleep(device.load_fault.after.total_seconds())
        device.failing = True
        await self.sync()
        self.poke()

    def _exit(self, code: int, message: str = "") -> status.Exit:
        assert self._containers is not None
        reason = "Completed" if code == 0 else "Error"
        return status.Exit(code, self._containers.started_at, timestamp(), reason, message)

    def _verdict(self, *, passed: bool) -> status.Exit:
        return self._exit(0 if passed else 1, trials.message(self._devices(), passed=passed))

    async def _show(self, containers: status.Containers) -> None:
        await self._node.reachable.wait()
        self._containers, self._phase = containers, "Running"
        await self.sync()

    async def _finish(self, ended: status.Exit, *, restarts: int = 0, last: status.Exit | None = None) -> None:
        """Write the last status: kubelet tells nothing of a device after that."""
        if self._devices():
            await self._node.driver.there.wait()  # kubelet ends no pod whose devices it cannot give back
        await self._node.reachable.wait()
        self._phase = "Succeeded" if ended.code == 0 else "Failed"
        self._results = ()
        self._containers = status.Containers(ended=ended, restarts=restarts, last=last)
        await self.sync()

    def _render(self, now: status.Containers) -> dict[str, Any]:
        ready = bool(now.started_at) and self._behaviour.ready and (self._borne or self._trial is not Trial.CANARY)
        reason = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(self._phase, "ContainersNotReady")
        self._conditions.set("PodReadyToStartContainers", true=not self._ended_for_good())
        self._conditions.set("Initialized", true=True)
        self._conditions.set("ContainersReady", true=ready, reason="" if ready else reason)
        self._conditions.set("Ready", true=ready, reason="" if ready else reason)
        address = self._behaviour.pod_ip or _address(self.pod.metadata.uid)
        rendered: dict[str, Any] = {
            "phase": self._phase,
            "observedGeneration": self.pod.metadata.generation,
            "startTime": self._started_at or timestamp(),
            "hostIP": "127.0.0.1",
            "hostIPs": [{"ip": "127.0.0.1"}],
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": self._conditions.listed(),
            "containerStatuses": status.container_statuses(self.pod, now, self._held(), ready=ready),
        }
        if self.pod.spec.init_containers:
            rendered["initContainerStatuses"] = status.init_container_statuses(self.pod, now, self._started_at)
        return rendered

    async def _write(self, rendered: dict[str, Any], before: dict[str, Any]) -> None:
        patch = {key: value for key, value in rendered.items() if value != before.get(key)}
        if "conditions" in patch:
            known = before.get("conditions", [])
            patch["conditions"] = [condition for condition in rendered["conditions"] if condition not in known]
        if patch and await self._cluster.write_status(self.pod, patch):
            self._written = rendered

    def _claims_ready(self) -> bool:
        """Tell whether all claims are allocated and reserved for this pod and can be prepared; note what they hold."""
        results: list[tuple[str, Claim, Result]] = []
        for claim_name, object_name in self._claim_names():
            claim = self._cluster.claims.get((self.pod.metadata.namespace, object_name or ""))
            if claim is None or claim.status.allocation is None:
                return False
            if self.pod.metadata.uid not in {consumer.uid for consumer in claim.status.reserved_for}:
                return False
            results += [(claim_name, claim, result) for result in claim.status.allocation.devices.results]
        if not self._node.driver.there.is_set() and any(self._device(result) for _, _, result in results):
            return False
        self._results = tuple(results)
        return True

    def _claim_names(self) -> list[tuple[str, str | None]]:
        """Name in the pod → name of the claim object, None if it is not made yet; optional ones are left out."""
        generated = {entry.name: entry.resource_claim_name for entry in self.pod.status.resource_claim_statuses}
        names: list[tuple[str, str | None]] = []
        for claim in self.pod.spec.resource_claims:
            if claim.resource_claim_name is not None:
                names.append((claim.name, claim.resource_claim_name))
            elif claim.name not in generated:
                names.append((claim.name, None))
            elif generated[claim.name] is not None:  # without a name: the pod needs none
                names.append((claim.name, generated[claim.name]))
        extended = self.pod.status.extended_resource_claim_status
        return [*names, ("", extended.resource_claim_name)] if extended else names

    def _held(self) -> list[status.Held]:
        held = []
        for claim_name, claim, result in self._results:
            device = self._device(result)
            health, message = self._node.driver.heard_of(device) if device else (Health.UNKNOWN, "")
            plain = f"{result.driver}/{result.pool}/{result.device}"
            cdi = f"{result.driver}/claim={claim.metadata.uid}-{result.device}"
            resource_id = cdi if self._node.shape.cdi_ids else plain
            held.append(status.Held(claim_name, result.request, resource_id, health, message))
        return held

    def _device(self, result: Result) -> Device | None:
        if (result.driver, result.pool) != (self._node.shape.driver, self._node.name):
            return None
        return self._node.devices.get(result.device)

    def _devices(self) -> list[Device]:
        return [device for _, _, result in self._results if (device := self._device(result)) is not None]

    def _killed_by_device(self) -> bool:
        return self._behaviour.dies_with_device and self._ill()

    def _ill(self) -> bool:
        return any(device.told[0] is Health.UNHEALTHY for device in self._devices())

    def _starts_again(self, ended: status.Exit) -> bool:
        policy = self.pod.spec.restart_policy
        return policy == "Always" or (policy == "OnFailure" and ended.code != 0)

    def _ended_for_good(self) -> bool:
        return self._phase in {"Succeeded", "Failed"}

    async def _wait(self, until: Callable[[], bool], *, seconds: float | None = None) -> bool:
        """Wait until it holds, and tell whether it did in time."""
        try:
            async with asyncio.timeout(seconds):
                while not until():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True


def _address(uid: str) -> str:
    """An address that no other pod of the lab is likely to have."""
    number = int(uid.replace("-", "")[:6] or "0", 16) | 1
    return f"10.{128 + (number >> 16) % 64}.{number >> 8 & 0xFF}.{number & 0xFF}"
