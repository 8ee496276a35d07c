"""One live reading of a device, past every cache."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

import structlog

from k8s import claims
from k8s.gateway import Gateway
from k8s.listings import ClaimLister, Claims, SliceLister
from k8s.observations import report, source_of
from k8s.probe_objects import PROBE_NAMESPACE
from k8s.reading import Reader, Undecodable
from k8s.resources import LEASES, NODES, PODS
from k8s.wire import Lease, Object, Pod
from sickbay import errors
from sickbay.model.contracts import Reading
from sickbay.model.device import DeviceKey
from sickbay.model.observation import Health, Observation, Reason, SourceRef

log = structlog.get_logger(__name__)

LEASE_NAMESPACE: Final = "kube-node-lease"
"""Where kubelets renew their Leases."""

_POD: Final = Reader(Pod)
_LEASE: Final = Reader(Lease)
_META: Final = Reader(Object)


class Readings:
    """Reads devices live.

    What it finds is not judged: a Healthy of a node whose Lease stands still is Healthy here, with the Lease's version.
    """

    def __init__(self, gateway: Gateway, claim_lister: ClaimLister, slice_lister: SliceLister) -> None:
        self._gateway = gateway
        self._claims = claim_lister
        self._slices = slice_lister

    async def read(
        self,
        device: DeviceKey,
        *,
        node: str = "",
        sources: Iterable[SourceRef] = (),
        attribute: str = "uuid",
        canary: str = "",
    ) -> Reading:
        """Read what is said of a device now; who reads the record adds its admission.

        Pods of the sources and pods that hold the device are asked, observers and probes too. One that is gone, has
        another uid, has ended or has no entry for the device says nothing.

        Args:
            device: the device.
            node: where it is, as far as is known; else the node of the first pod that reports.
            sources: objects that spoke of it before.
            attribute: that names the hardware.
            canary: name of the pod that soaks: the one trial that is a witness, for as long as it keeps the device.

        Raises:
            ClusterError, ClusterUnavailable: something could not be read, so the reading is none.
        """
        held, identities = await asyncio.gather(self._claims.get(), self._slices.identities(device.driver, attribute))
        users = claims.users_of(device, held.of(device))
        # What a probe found is told by its verdict alone: its pod is no witness for or against the device.
        pods = {
            (u.namespace, u.name, u.uid)
            for u in users
            if u.resource == "pods" and (u.namespace != PROBE_NAMESPACE or u.name == canary)
        }
        pods |= {(s.namespace, s.name, s.uid) for s in sources if s.kind == "Pod" and s.namespace != PROBE_NAMESPACE}
        told = await asyncio.gather(*(self._said(*pod, device, held) for pod in pods))
        observations = sorted((o for o in told if o is not None), key=_worst_first)
        node = node or next((o.node for o in observations if o.node), "")
        lease = await self._lease(node)
        # A Lease goes with its Node, so one that is there answers for both.
        node_gone = lease is None and await self._node_gone(node)
        hardware = identities.identify(device)
        worst = observations[0] if observations else None
        return Reading(
            health=worst.health if worst else None,
            reason=worst.reason if worst else Reason.REPORTED,
            message=worst.message if worst else "",
            observations=tuple(observations),
            lease_version="" if lease is None else lease.metadata.resource_version,
            node_gone=node_gone,
            node_uid="" if lease is None else _owner(lease, node),
            hardware_id=hardware.id,
            hardware_unique=hardware.unique,
        )

    async def _said(self, namespace: str, name: str, uid: str, device: DeviceKey, held: Claims) -> Observation | None:
        try:
            data = await self._gateway.request("GET", PODS.path(namespace, name))
        except errors.NotFound:
            return None
        try:
            pod = _POD(data).value
        except Undecodable as error:
            log.warning("pod_undecodable", namespace=namespace, name=name, error=str(error))
            return _undecodable(_META(data).value, uid, device)
        return observation(pod, device, held) if pod.metadata.uid == uid else None

    async def _lease(self, node: str) -> Lease | None:
        if not node:
            return None
        try:
            data = await self._gateway.request("GET", LEASES.path(LEASE_NAMESPACE, node))
        except errors.NotFound:
            return None
        return _LEASE(data).value

    async def _node_gone(self, node: str) -> bool:
        """Whether the node no longer exists; of a node that is not named nothing is known."""
        if not node:
            return False
        try:
            await self._gateway.request("GET", NODES.path(name=node))
        except errors.NotFound:
            return True
        return False


def observation(pod: Pod, device: DeviceKey, held: Claims) -> Observation | None:
    """Tell what a pod says of a device, in the words of the watcher's copy; None if it says nothing or has ended."""
    if pod.terminal:
        return None
    told = report(pod, held.by_name, cluster=device.cluster).observations
    return next((o for o in told if o.device == device), None)


def _owner(lease: Lease, node: str) -> str:
    """Name the node whose Lease it is by its uid: kubelet has the Lease owned by the Node that it renews it for."""
    owners = lease.metadata.owner_references
    return next((o.uid for o in owners if (o.kind, o.name) == ("Node", node)), "")


def _undecodable(item: Object, uid: str, device: DeviceKey) -> Observation | None:
    if item.metadata.uid != uid:
        return None
    return Observation(
        device=device,
        source=source_of(item),
        resource_version=item.metadata.resource_version,
        health=Health.UNKNOWN,
        reason=Reason.UNDECODABLE,
    )


def _worst_first(said: Observation) -> tuple[int, str, str]:
    return (-said.health.severity, said.source.namespace, said.source.name)
