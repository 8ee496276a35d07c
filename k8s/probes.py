"""Start, judge and stop probes of a fenced device.

A claim gives its device back as soon as its pod has ended (within 0.2 s on 1.37.2), which is just when the verdict can
be read. Which device it held is then read from its history: the pod's annotation names the claim's resourceVersion
before the allocation, and a watch from there tells what happened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
import structlog

from k8s.breaker import ProbeBreaker
from k8s.clock import utc_now
from k8s.evictions import read_pod
from k8s.gateway import Gateway
from k8s.hardware import Hardware
from k8s.listings import ClaimLister, Claims, SliceLister, list_all
from k8s.owners import condition
from k8s.probe_objects import (
    CLAIM_VERSION_ANNOTATION,
    PROBE_NAMESPACE,
    ProbeStep,
    claim_body,
    facts_of,
    pod_body,
    results_of,
)
from k8s.reading import Reader, Undecodable
from k8s.refusals import by_the_cluster
from k8s.resources import NODES, PODS, RESOURCECLAIMS, Resource
from k8s.wire import AllocationResult, Event, Node, Pod, ResourceClaim
from sickbay import errors
from sickbay.model.contracts import ProbeStarted, ProbeVerdict, StartProbe
from sickbay.model.incident import Target, Trial
from sickbay.model.policy import Probe
from sickbay.policy.verdict import ProbeFacts, judge, no_room, refused

log = structlog.get_logger(__name__)

HISTORY_IDLE: Final = 3.0
"""Seconds without a byte after which a look into a claim's history is given up; it is asked for one second."""

_CLAIM: Final = Reader(ResourceClaim)
_POD: Final = Reader(Pod)
_NODE: Final = Reader(Node)
_EVENT: Final = msgspec.json.Decoder(Event)


class Probes:
    """The probes of one cluster.

    Attributes:
        breaker: told how each of them ended.
    """

    def __init__(
        self,
        gateway: Gateway,
        claim_lister: ClaimLister,
        slice_lister: SliceLister,
        *,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._gateway = gateway
        self._claims = claim_lister
        self._slices = slice_lister
        self._now = now
        self.breaker = ProbeBreaker(gateway, now=now)

    async def start(self, order: StartProbe) -> ProbeStarted:
        """Create claim and pod of a trial, or find them.

        Safe to repeat: both are named by device and number, and what is there is not made again.

        Returns:
            Both are there; or why not yet; or, as verdict, that the cluster would not have one of them: a quota, Pod
            Security, missing rights, a webhook or policy. Then the claim may be there alone.

        Raises:
            NotFound: namespace ``sickbay-probe`` is missing: Sickbay is not installed.
            BadRequest, Invalid: the object is not one, as we or the policy's image wrote it.
        """
        step, device = ProbeStep(order.target, order.number, order.trial), order.target.device
        claim = await self._get(RESOURCECLAIMS, _CLAIM, step.name)
        if claim is None:
            attribute = order.settings.identity_attribute(device.driver)
            hardware = (await self._slices.identities(device.driver, attribute)).identify(device)
            waiting = (
                _unaddressable(hardware, order.hardware_id)
                or _held(await self._claims.get(), step)
                or await self._no_room(order.settings)
                or await self.breaker.admit(order)  # last: who is let through is sent
            )
            if waiting:
                return ProbeStarted(waiting=waiting)
            claim = await self._create(RESOURCECLAIMS, _CLAIM, claim_body(step, hardware))
            if isinstance(claim, ProbeVerdict):
                return ProbeStarted(verdict=claim)
        if not step.made("ResourceClaim", claim) or claim.metadata.deletion_timestamp:
            return ProbeStarted(waiting=f"claim {PROBE_NAMESPACE}/{step.name} is left from another probe")
        pod = await self._get(PODS, _POD, step.name)
        if pod is None:
            body = pod_body(step, order.image, order.lasts, claim.metadata.resource_version)
            pod = await self._create(PODS, _POD, body)
            if isinstance(pod, ProbeVerdict):
                return ProbeStarted(verdict=pod)
        if not step.made("Pod", pod) or pod.metadata.deletion_timestamp:
            return ProbeStarted(waiting=f"pod {PROBE_NAMESPACE}/{step.name} is left from another probe")
        return ProbeStarted()

    async def verdict(
        self, target: Target, number: int, hardware_id: str, trial: Trial = Trial.PROBE
    ) -> ProbeVerdict | None:
        """Look at a trial and judge it; None while it runs."""
        step, device = ProbeStep(target, number, trial), target.device
        pod = await read_pod(self._gateway, PROBE_NAMESPACE, step.name)
        if pod is None or not step.made("Pod", pod):
            return judge(ProbeFacts(there=False), device, hardware_id, trial)
        held = await self._claims.get()
        other = "" if held.flawed else _held(held, step)
        results = results_of(await self._get(RESOURCECLAIMS, _CLAIM, step.name))
        if pod.terminal and not results:
            results = await self._held_before(step, pod.metadata.annotations.get(CLAIM_VERSION_ANNOTATION, ""))
        node_ready = await self._node_ready(pod.spec.node_name)
        facts = facts_of(pod, results, now=self._now(), node_ready=node_ready, other=other)
        verdict = judge(facts, device, hardware_id, trial)
        return verdict and verdict.model_copy(update={"resource_version": pod.metadata.resource_version})

    async def stop(self, target: Target, number: int) -> str:
        """Delete the pod, and when it is gone the claim, each by uid.

        Safe to repeat: what is on its way out is not deleted again.

        Returns:
            What is still there, ``""`` when both are gone.
        """
        step = ProbeStep(target, number)
        for kind, resource, reader in (("Pod", PODS, _POD), ("ResourceClaim", RESOURCECLAIMS, _CLAIM)):
            if await self._remove(step, kind, resource, reader):
                return f"{kind} {PROBE_NAMESPACE}/{step.name} is being deleted"
        return ""

    async def _remove(self, step: ProbeStep, kind: str, resource: Resource, reader: Reader[Any]) -> bool:
        """Delete one object of the probe; say whether it is still there."""
        found = await self._get(resource, reader, step.name)
        if found is None or not any(replace(step, trial=trial).made(kind, found) for trial in Trial):
            return False
        if found.metadata.deletion_timestamp:
            return True
        uid = found.metadata.uid
        body = {"preconditions": {"uid": uid}}
        try:
            await self._gateway.request("DELETE", resource.path(PROBE_NAMESPACE, step.name), body=body)
        except (errors.NotFound, errors.Conflict):
            log.info("probe_object_already_gone", kind=kind, name=step.name)
        left = await self._get(resource, reader, step.name)
        return left is not None and left.metadata.uid == uid

    async def _no_room(self, settings: Probe) -> str:
        """Say why no further trial may be sent to any device now. Two that ask at once may both be let in."""
        listed = await list_all(self._gateway, PODS, _POD, namespace=PROBE_NAMESPACE)
        there = [pod for pod in listed.items if not pod.terminal]
        now = self._now()
        pending = [_age(pod, now) for pod in there if pod.status.phase in {"", "Pending"}]
        return no_room(pending, len(there), settings)

    async def _held_before(self, step: ProbeStep, since: str) -> tuple[AllocationResult, ...]:
        """Find in the claim's history what it held; nothing if that is no longer told."""
        if not since:
            return ()
        params = {
            "watch": "true",
            "resourceVersion": since,
            "fieldSelector": f"metadata.name={step.name}",
            "timeoutSeconds": "1",
        }
        path = RESOURCECLAIMS.path(PROBE_NAMESPACE)
        async with aclosing(self._gateway.stream(path, params, idle=HISTORY_IDLE)) as lines:
            try:
                async for line in lines:
                    event = _EVENT.decode(line)
                    if event.type not in {"ADDED", "MODIFIED", "DELETED"}:
                        return ()
                    claim = _CLAIM(event.object).value
                    if step.made("ResourceClaim", claim) and results_of(claim):
                        return results_of(claim)
            except (errors.Gone, Undecodable, msgspec.DecodeError) as error:
                log.warning("probe_history_lost", probe=step.name, error=str(error))
        return ()

    async def _node_ready(self, node: str) -> bool:
        if not node:
            return True
        try:
            data = await self._gateway.request("GET", NODES.path(name=node))
        except errors.NotFound:
            return False
        ready = condition(_NODE(data).value.status.conditions, "Ready")
        return ready is not None and ready.status == "True"

    async def _get(self, resource: Resource, reader: Reader[Any], name: str) -> Any:
        try:
            return reader(await self._gateway.request("GET", resource.path(PROBE_NAMESPACE, name))).value
        except errors.NotFound:
            return None

    async def _create(self, resource: Resource, reader: Reader[Any], body: Mapping[str, Any]) -> Any:
        """Create an object, or find it; a `ProbeVerdict` if the cluster would not have it."""
        try:
            return reader(await self._gateway.request("POST", resource.path(PROBE_NAMESPACE), body=body)).value
        except errors.AlreadyExists:
            found = await self._get(resource, reader, body["metadata"]["name"])
            if found is None:
                raise
            return found
        except errors.ClusterError as error:
            if not by_the_cluster(error):
                raise
            log.warning("trial_refused", kind=body["kind"], name=body["metadata"]["name"], why=error.message)
            return refused(body["kind"], error.message)


def _held(held: Claims, step: ProbeStep) -> str:
    """Name who holds the device, but for observers: a probe beside a user would disturb both.

    A start that was given out twice may find its own claim, made by the other.
    """
    device, own = step.target.device, (PROBE_NAMESPACE, step.name)
    if held.flawed:
        return "a claim cannot be read, so it is not known who holds the device"
    ours = (device.driver, device.pool, device.device)
    for claim in held.of(device):
        if (claim.metadata.namespace, claim.metadata.name) == own:
            continue
        if not all(r.admin_access for r in results_of(claim) if (r.driver, r.pool, r.device) == ours):
            return f"claim {claim.metadata.namespace}/{claim.metadata.name} holds the device"
    return ""


def _age(pod: Pod, now: datetime) -> timedelta:
    return now - datetime.fromisoformat(pod.metadata.creation_timestamp)


def _unaddressable(hardware: Hardware, hardware_id: str) -> str:
    """Say why no probe can be sent to exactly this hardware, ``""`` if one can."""
    if hardware.value is None:
        return f"the driver publishes no attribute {hardware.attribute!r} for the device now"
    if hardware.id != hardware_id:
        return f"the hardware is {hardware.id!r} now, not {hardware_id!r}"
    if not hardware.unique:
        return f"another device has the same {hardware.attribute!r}, {hardware.id!r}"
    return ""
