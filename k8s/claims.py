"""Which devices a pod's health entries speak of, and who uses a device.

An entry names a device by kubelet's rules (KEP-4680, kubelet's ``dra/manager.go``): its ``name`` is an extended
resource, or ``claim:<podclaim>[/<request>]``, and its ``resourceID`` is the driver's first CDI id, which may be made up
per claim; only without CDI ids it is ``driver/pool/device``. So the claim's allocation tells which device it is.

Nothing is guessed. What cannot be resolved yet comes back with the reason, to be resolved again when the pod or the
claim changes; ids that cannot be told apart make every device of their request suspect. Shares (``shareID``) of a
device are one device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from k8s.store import Key
from k8s.wire import AllocationResult, ContainerStatus, Pod, ResourceClaim, ResourceHealth, ResourceStatus
from sickbay.model.device import DeviceKey

_CLAIM: Final = "claim:"


class Unresolved(StrEnum):
    """Why an entry names no device: a closed set, fit for a metric label."""

    MALFORMED = "Malformed"
    """No resourceID, or a name that is neither a claim's nor a resource's. Will not mend by waiting."""
    CLAIM_UNNAMED = "ClaimUnnamed"
    """The pod does not say yet which object its claim is."""
    CLAIM_UNSEEN = "ClaimUnseen"
    """The claim object is not in our copy."""
    NOT_RESERVED = "NotReserved"
    """The claim is not this pod's any more (a pod that ended), or not yet: its devices may be another's."""
    NOT_ALLOCATED = "NotAllocated"
    """The claim holds nothing under that request."""
    MISMATCH = "Mismatch"
    """The id is ``driver/pool/device`` of a device that the claim does not hold: pod and claim differ in age."""


@dataclass(frozen=True, slots=True)
class ClaimName:
    """A parsed ``claim:<podclaim>[/<request>]``; ``request`` is empty where the entry is for the whole claim."""

    pod_claim: str
    request: str = ""


@dataclass(frozen=True, slots=True)
class PluginDevice:
    """A device of a device plugin: its id is unique per node and resource only; replicas (``::N``) are one device."""

    node: str
    resource: str
    id: str


@dataclass(frozen=True, slots=True)
class Reading:
    """One health entry of a pod, and what it speaks of.

    Exactly one of ``devices``, ``plugin`` and ``unresolved`` is given.

    Attributes:
        container: name of the container or init container.
        name: of the entry, raw.
        resource_id: raw.
        health: raw word.
        message: raw text of the driver.
        devices: the one device meant, or all that may be meant.
        plugin: the device plugin's device.
        unresolved: why neither is known.
    """

    container: str
    name: str
    resource_id: str
    health: str
    message: str
    devices: tuple[DeviceKey, ...] = ()
    plugin: PluginDevice | None = None
    unresolved: Unresolved | None = None

    @property
    def exact(self) -> bool:
        """Whether one device is meant for certain."""
        return len(self.devices) == 1


@dataclass(frozen=True, slots=True)
class User:
    """A pod, or another consumer of a claim, that may use a device.

    Attributes:
        resource: ``pods`` but for workload-level claims.
        namespace: of claim and consumer.
        name: of the consumer.
        uid: of the consumer.
        claim: name of the claim.
        observer: it holds the device by admin access alone: it watches, is not moved, and does not hold the device.
    """

    resource: str
    namespace: str
    name: str
    uid: str
    claim: str
    observer: bool = False


def parse_claim_name(name: str) -> ClaimName | None:
    """Read the name of a health entry; None if it is not a well-formed claim name.

    Only the first ``/`` divides: a request may hold another one.
    """
    pod_claim, slash, request = name.removeprefix(_CLAIM).partition("/")
    if not name.startswith(_CLAIM) or not pod_claim or (slash and not request):
        return None
    return ClaimName(pod_claim, request)


def readings(pod: Pod, claims: Mapping[Key, ResourceClaim], *, cluster: str) -> tuple[Reading, ...]:
    """Resolve all health entries of a pod, those of init containers too (for the day that kubelet fills them).

    Args:
        pod: the pod.
        claims: claims by namespace and name.
        cluster: our name of the cluster.
    """
    return tuple(
        _reading(pod, status, entry, health, claims, cluster)
        for status in (*pod.status.container_statuses, *pod.status.init_container_statuses)
        for entry in status.allocated_resources_status
        for health in entry.resources
    )


def users_of(device: DeviceKey, claims: Iterable[ResourceClaim], pods: Iterable[Pod] = ()) -> tuple[User, ...]:
    """Name everyone who may use a device, over all namespaces and shares.

    Args:
        device: the device.
        claims: all claims.
        pods: pods whose status names a claim for their extended resources: users even before they are listed in it.

    Returns:
        Each consumer once, by namespace, name and uid; one that holds the device both ways is no observer.
    """
    extended: dict[Key, list[Pod]] = {}
    for pod in pods:
        status = pod.status.extended_resource_claim_status
        if status is not None and not pod.terminal:
            extended.setdefault((pod.metadata.namespace, status.resource_claim_name), []).append(pod)
    found: dict[tuple[str, str], User] = {}
    for claim in claims:
        held = [
            result
            for result in _results(claim)
            if (result.driver, result.pool, result.device) == (device.driver, device.pool, device.device)
        ]
        if not held:
            continue
        observer = all(result.admin_access for result in held)
        for user in _consumers(claim, extended, observer=observer):
            known = found.get((user.namespace, user.uid))
            if known is None or (known.observer and not observer):
                found[user.namespace, user.uid] = user
    return tuple(sorted(found.values(), key=lambda user: (user.namespace, user.name, user.uid)))


def held_by(claim: ResourceClaim, *, cluster: str) -> tuple[DeviceKey, ...]:
    """Name the devices that a claim holds, each once, in order of allocation."""
    return tuple(dict.fromkeys(_key(result, cluster) for result in _results(claim)))


def _consumers(claim: ResourceClaim, extended: Mapping[Key, list[Pod]], *, observer: bool) -> Iterator[User]:
    namespace, name = claim.metadata.namespace, claim.metadata.name
    for consumer in claim.status.reserved_for:
        yield User(consumer.resource, namespace, consumer.name, consumer.uid, name, observer)
    for pod in extended.get((namespace, name), ()):
        yield User("pods", namespace, pod.metadata.name, pod.metadata.uid, name, observer)


def _reading(
    pod: Pod,
    status: ContainerStatus,
    entry: ResourceStatus,
    health: ResourceHealth,
    claims: Mapping[Key, ResourceClaim],
    cluster: str,
) -> Reading:
    found: tuple[DeviceKey, ...] | PluginDevice | Unresolved
    where = _claim_of(pod, status.name, entry.name)
    if not health.resource_id or health.health is None:  # without a word it says nothing
        found = Unresolved.MALFORMED
    elif where is None:
        found = PluginDevice(pod.spec.node_name, entry.name, health.resource_id.partition("::")[0])
    elif isinstance(where, Unresolved):
        found = where
    else:
        found = _among(pod, *where, claims, entry, health, cluster)
    return Reading(
        container=status.name,
        name=entry.name,
        resource_id=health.resource_id,
        health=health.health or "",
        message=health.message,
        devices=found if isinstance(found, tuple) else (),
        plugin=found if isinstance(found, PluginDevice) else None,
        unresolved=found if isinstance(found, Unresolved) else None,
    )


def _claim_of(pod: Pod, container: str, entry: str) -> tuple[str, str] | Unresolved | None:
    """Name the claim object and request that an entry is about; None for a device plugin's resource."""
    if entry.startswith(_CLAIM):
        parsed = parse_claim_name(entry)
        if parsed is None:
            return Unresolved.MALFORMED
        name = _object_name(pod, parsed.pod_claim)
        return (name, parsed.request) if name else Unresolved.CLAIM_UNNAMED
    if not entry:
        return Unresolved.MALFORMED
    # An extended resource is a plugin's, unless the pod says that a claim serves it: kubelet may report those one day.
    extended = pod.status.extended_resource_claim_status
    for mapping in extended.request_mappings if extended is not None else ():
        if extended is not None and (mapping.container_name, mapping.resource_name) == (container, entry):
            return extended.resource_claim_name, mapping.request_name
    return None


def _object_name(pod: Pod, pod_claim: str) -> str:
    """Name the claim object behind a pod-local name, ``""`` if the pod does not say (yet)."""
    by_name = next((claim for claim in pod.spec.resource_claims if claim.name == pod_claim), None)
    if by_name is None:
        return ""
    if by_name.resource_claim_name:
        return by_name.resource_claim_name
    made = (status for status in pod.status.resource_claim_statuses if status.name == pod_claim)
    return next((status.resource_claim_name for status in made), "")


def _reserved(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether the pod may use the claim; a workload-level consumer may stand for it."""
    return any(
        consumer.uid == pod.metadata.uid or consumer.resource != "pods" for consumer in claim.status.reserved_for
    )


def _among(
    pod: Pod,
    name: str,
    request: str,
    claims: Mapping[Key, ResourceClaim],
    entry: ResourceStatus,
    health: ResourceHealth,
    cluster: str,
) -> tuple[DeviceKey, ...] | Unresolved:
    """Tell which devices of a claim's request an id may mean."""
    claim = claims.get((pod.metadata.namespace, name))
    if claim is None:
        return Unresolved.CLAIM_UNSEEN
    if not _reserved(claim, pod):
        return Unresolved.NOT_RESERVED
    by_id = {
        f"{result.driver}/{result.pool}/{result.device}": _key(result, cluster)
        for result in _results(claim)
        if not request or _base(result.request) == _base(request)
    }
    if not by_id:
        return Unresolved.NOT_ALLOCATED
    if health.resource_id in by_id:
        return (by_id[health.resource_id],)
    if _is_plain(health.resource_id):
        return Unresolved.MISMATCH
    # A CDI id: any device that does not stand in this entry by its own name.
    named = {other.resource_id for other in entry.resources}
    return tuple(key for own_id, key in by_id.items() if own_id not in named) or Unresolved.MISMATCH


def _is_plain(resource_id: str) -> bool:
    """Whether an id is ``driver/pool/device``: a qualified CDI name always has a ``=`` (CDI specification)."""
    return "=" not in resource_id and resource_id.count("/") >= 2  # noqa: PLR2004 - a pool's name may hold more


def _results(claim: ResourceClaim) -> tuple[AllocationResult, ...]:
    return claim.status.allocation.devices.results if claim.status.allocation is not None else ()


def _key(result: AllocationResult, cluster: str) -> DeviceKey:
    return DeviceKey(cluster=cluster, driver=result.driver, pool=result.pool, device=result.device)


def _base(request: str) -> str:
    """Name the request that a ``firstAvailable`` choice ``main/sub`` belongs to."""
    return request.partition("/")[0]
