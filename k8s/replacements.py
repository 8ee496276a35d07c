"""Whether a job that lost its pod runs again, on another device."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from k8s import claims
from k8s.gateway import Gateway
from k8s.listings import Claims, list_all
from k8s.owners import Owner, Owners, condition, controller, is_ready
from k8s.reading import Reader
from k8s.resources import PODS
from k8s.wire import Object, Pod
from k8s.workloads import Deployment, Job, ReplicaSet, StatefulSet
from sickbay.model.device import DeviceKey
from sickbay.model.incident import User

JOB_LABEL: Final = "batch.kubernetes.io/controller-uid"
"""On every pod of a Job."""

_POD: Final = Reader(Pod)


class Replacements:
    """Looks for the pods that took over."""

    def __init__(self, gateway: Gateway, owners: Owners) -> None:
        self._gateway = gateway
        self._owners = owners

    async def note(self, user: User, device: DeviceKey, held: Claims, lost: Collection[str]) -> str:
        """Say how a lost pod was replaced, ``""`` if it is not (yet).

        Replaced means that the owner has as many Ready pods as it wants, with a new one among them, or that it wants
        none any more. Siblings that were there before say nothing: one of them alone does not count.

        Args:
            user: the pod that is gone.
            device: the device it lost: a pod that holds it replaces nothing.
            held: all claims.
            lost: uids of all users so far.
        """
        owner = await self._owners.read(user.namespace, user.owner_kind, user.owner_name, user.owner_uid)
        if owner.object is None:
            return ""
        if isinstance(owner.object, Job) and _has(owner.object, "Complete", "SuccessCriteriaMet"):
            return f"Job {owner.name} has completed"
        wanted = wanted_pods(owner.object)
        if wanted == 0:
            return f"{owner.kind} {owner.name} wants no pods any more"
        ready = [pod for pod in await self._pods(user.namespace, owner) if is_ready(pod)]
        holders = {u.uid for u in claims.users_of(device, held.of(device))}
        new = [pod for pod in ready if pod.metadata.uid not in holders | set(lost)]
        if len(ready) < wanted or not new:
            return ""
        newest = max(new, key=lambda pod: pod.metadata.creation_timestamp)
        places = ", ".join(_devices(newest, held, device.cluster)) or "no claimed device"
        return f"pod {newest.metadata.namespace}/{newest.metadata.name} is Ready on {places}"

    async def _pods(self, namespace: str, owner: Owner) -> list[Pod]:
        """List the owner's pods; each controller between is read once."""
        selector = _selector(owner)
        listed = await list_all(self._gateway, PODS, _POD, namespace=namespace, params=selector)
        topmost: dict[str, str] = {}
        found = []
        for pod in listed.items:
            reference = controller(pod)
            if reference is None:
                continue
            if reference.uid not in topmost:
                topmost[reference.uid] = (await self._owners.of(pod)).uid
            if topmost[reference.uid] == owner.uid:
                found.append(pod)
        return found


def wanted_pods(owner: Object) -> int:
    """Tell how many pods an owner wants to run now."""
    if isinstance(owner, Job):
        # Without completions it is a work queue, which starts no pod again once one has succeeded.
        total = owner.spec.parallelism if owner.spec.completions is None else owner.spec.completions
        left = max(0, total - owner.status.succeeded)
        return 0 if owner.spec.suspend else min(owner.spec.parallelism, left)
    return owner.spec.replicas if isinstance(owner, Deployment | ReplicaSet | StatefulSet) else 1


def _selector(owner: Owner) -> dict[str, str]:
    """Narrow a list to what may be the owner's pods; expressions are left to the check of the owner."""
    if isinstance(owner.object, Job):
        return {"labelSelector": f"{JOB_LABEL}={owner.uid}"}
    if isinstance(owner.object, Deployment | ReplicaSet | StatefulSet):
        labels = owner.object.spec.selector.match_labels
        return {"labelSelector": ",".join(f"{key}={value}" for key, value in labels.items())} if labels else {}
    return {}


def _devices(pod: Pod, held: Claims, cluster: str) -> list[str]:
    uid = pod.metadata.uid
    return sorted(
        str(key).partition("/")[2]  # without the cluster
        for claim in held.by_name.values()
        if any(consumer.uid == uid for consumer in claim.status.reserved_for)
        for key in claims.held_by(claim, cluster=cluster)
    )


def _has(job: Job, *kinds: str) -> bool:
    found = (condition(job.status.conditions, kind) for kind in kinds)
    return any(one is not None and one.status == "True" for one in found)
