"""Who would start a pod again: its topmost controller, as far as Sickbay knows the kinds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from k8s.gateway import Gateway
from k8s.reading import Reader
from k8s.resources import DEPLOYMENTS, JOBS, REPLICASETS, STATEFULSETS, Resource
from k8s.wire import Condition, Object, OwnerReference, Pod
from k8s.workloads import Deployment, FailurePolicy, Job, ReplicaSet, StatefulSet
from sickbay import errors
from sickbay.model.base import format_duration
from sickbay.policy.evacuation import STALLED_AFTER, PodFacts

MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
"""On the API server's copy of a pod that kubelet runs from a file."""

MAX_DEPTH: Final = 4
"""Steps up from a pod; the longest known chain has two. A loop of owner references must end."""

EVICTED_EXITS: Final = frozenset({1, 137, 143})
"""Exit codes of a container that was asked to end: SIGKILL, SIGTERM, and what many programs make of SIGTERM."""

_KNOWN: Final[dict[str, tuple[Resource, Reader[Object]]]] = {
    "ReplicaSet": (REPLICASETS, Reader(ReplicaSet)),
    "Deployment": (DEPLOYMENTS, Reader(Deployment)),
    "StatefulSet": (STATEFULSETS, Reader(StatefulSet)),
    "Job": (JOBS, Reader(Job)),
}
"""Kinds that Sickbay reads; others are topmost, and known by name alone."""

_BUILT_IN: Final = frozenset({"", "apps", "batch"})


@dataclass(frozen=True, slots=True)
class Owner:
    """The topmost controller of a pod.

    Attributes:
        kind: ``Pod`` for a pod without controller, ``Node`` for a mirror pod; kinds outside Kubernetes' own groups are
            qualified (``Workload.kueue.x-k8s.io``), so that none passes for one of ours.
        object: as it was read; None if its kind is not one that we read, or it is gone.
        gone: no object of that name and uid.
    """

    kind: str
    name: str
    uid: str
    object: Object | None = None
    gone: bool = False


class Owners:
    """Reads owners, past every cache. Nothing is kept between calls."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def of(self, pod: Pod) -> Owner:
        """Climb from a pod to its topmost controller.

        A CronJob is not climbed to: it starts jobs, and does not rebuild their pods.

        Raises:
            ClusterError, ClusterUnavailable: an owner could not be read, so nothing is known.
        """
        meta = pod.metadata
        if MIRROR_ANNOTATION in meta.annotations:
            return Owner("Node", pod.spec.node_name, "")
        reference = controller(pod)
        owner = Owner("Pod", meta.name, meta.uid)
        for _ in range(MAX_DEPTH):
            if reference is None or (owner.kind == "Job" and reference.kind == "CronJob"):
                return owner
            owner = await self.read(meta.namespace, qualified(reference), reference.name, reference.uid)
            if owner.object is None:
                return owner
            reference = controller(owner.object)
        return owner

    async def read(self, namespace: str, kind: str, name: str, uid: str) -> Owner:
        """Read one owner of this qualified kind, if it is one that we read."""
        known = _KNOWN.get(kind)
        if known is None:
            return Owner(kind, name, uid)
        resource, decode = known
        try:
            found = decode(await self._gateway.request("GET", resource.path(namespace, name))).value
        except errors.NotFound:
            return Owner(kind, name, uid, gone=True)
        return Owner(kind, name, uid, found) if found.metadata.uid == uid else Owner(kind, name, uid, gone=True)


def qualified(reference: OwnerReference) -> str:
    """Name the kind that a reference points to, see `Owner.kind`."""
    group = reference.api_version.rpartition("/")[0]
    return reference.kind if group in _BUILT_IN else f"{reference.kind}.{group}"


def controller(child: Object) -> OwnerReference | None:
    """Find the reference to the object's controller."""
    return next((o for o in child.metadata.owner_references if o.controller), None)


def facts_of(pod: Pod, owner: Owner, *, now: datetime, node_ready: bool) -> PodFacts:
    """Gather what decides whether the pod may be moved.

    Args:
        pod: as read.
        owner: its topmost controller.
        now: timezone-aware; compared with times of the API server, in minutes.
        node_ready: false: the pod's own readiness says nothing, its node cannot be heard.
    """
    job = owner.object if isinstance(owner.object, Job) else None
    policy = job.spec.pod_failure_policy if job else None
    return PodFacts(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        owner_kind=owner.kind,
        owner_name=owner.name,
        owner_gone=owner.gone,
        stalled=stalled(pod, now) if node_ready else "",
        retries_left=job.spec.backoff_limit - job.status.failed if job else 0,
        ignores_disruption=policy is not None and ignores_disruption(policy),
    )


def stalled(pod: Pod, now: datetime) -> str:
    """Say in a few words why a pod makes no progress, ``""`` if it may be making some."""
    for status in pod.status.init_container_statuses + pod.status.container_statuses:
        if status.state.waiting is not None and status.state.waiting.reason == "CrashLoopBackOff":
            return f"container {status.name} is in CrashLoopBackOff"
    ready = condition(pod.status.conditions, "Ready")
    if ready is None or ready.status != "False" or not ready.last_transition_time:
        return ""
    since = now - datetime.fromisoformat(ready.last_transition_time)
    minutes = timedelta(minutes=since // timedelta(minutes=1))
    return f"not Ready for {format_duration(minutes)}" if since >= STALLED_AFTER else ""


def is_ready(pod: Pod) -> bool:
    """Whether a pod is Ready and not on its way out."""
    ready = condition(pod.status.conditions, "Ready")
    return ready is not None and ready.status == "True" and not pod.metadata.deletion_timestamp and not pod.terminal


def condition(conditions: tuple[Condition, ...], kind: str) -> Condition | None:
    """Find the condition of this type."""
    return next((c for c in conditions if c.type == kind), None)


def ignores_disruption(policy: FailurePolicy) -> bool:
    """Whether an evicted pod is no failure to its Job: the first rule that matches it decides.

    A rule on exit codes before it may match too, by how a container ends when it is asked to.
    """
    for rule in policy.rules:
        if any(p.type == "DisruptionTarget" and p.status == "True" for p in rule.on_pod_conditions):
            return rule.action == "Ignore"
        codes = rule.on_exit_codes
        if codes is not None and rule.action != "Ignore":
            listed = EVICTED_EXITS & set(codes.values)
            if listed if codes.operator == "In" else EVICTED_EXITS - listed:
                return False
    return False
