"""Ask for a pod's eviction, and say what the answer means.

| answer | meaning |
|---|---|
| 201 | accepted, which is not gone |
| 404; 409 and another uid is there now | gone |
| 403, cause ``NamespaceTerminating`` | goes with its namespace |
| 429, cause ``DisruptionBudget`` | a budget blocks it |
| 429 without that cause | our rate is limited: `TooManyRequests` passes up |
| 500 without a reason, about budgets | several budgets match the pod |
| 403, or any refusal of an admission webhook or policy | denied |
| 409 and the pod is still there, other 5xx, no answer | passes up: read again, then try again |
| 400, 422 | passes up: our own fault |
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from k8s.gateway import Gateway
from k8s.owners import is_ready
from k8s.reading import Reader
from k8s.refusals import by_the_cluster
from k8s.resources import PODS
from k8s.wire import Pod
from sickbay import errors
from sickbay.model.base import tamed
from sickbay.model.contracts import Evicted, EvictionOutcome

MEND: Final = timedelta(minutes=10)
"""Pause after a refusal that stands until a person mends something."""

_POD: Final = Reader(Pod)


async def read_pod(gateway: Gateway, namespace: str, name: str, uid: str = "") -> Pod | None:
    """Read a pod past every cache.

    Returns:
        None if it is gone, or (given a uid) if another pod has its name.
    """
    try:
        data = await gateway.request("GET", PODS.path(namespace, name))
    except errors.NotFound:
        return None
    pod = _POD(data).value
    return pod if uid in {"", pod.metadata.uid} else None


def leaving(pod: Pod | None) -> str:
    """Say why a pod, as just read by its uid, needs no eviction; ``""`` if it does."""
    if pod is None:
        return "is gone"
    if pod.metadata.deletion_timestamp:
        return "is being deleted already"
    return "has ended" if pod.terminal else ""


async def evict(gateway: Gateway, pod: Pod) -> Evicted:
    """Evict this pod, as it was just read (see `leaving`), by its name and uid.

    It must have been read: the API server accepts a second eviction of a terminating pod, and a budget's refusal wins
    over a wrong uid (both measured on 1.37.2).

    Raises:
        ClusterError, ClusterUnavailable: the answers of the table that pass up.
    """
    namespace, name, uid = pod.metadata.namespace, pod.metadata.name, pod.metadata.uid
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": namespace, "name": name},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }
    try:
        await gateway.request("POST", PODS.path(namespace, name, "eviction"), body=body)
    except errors.Conflict:
        # The precondition, or a race of the server's own: the uid tells.
        if await read_pod(gateway, namespace, name, uid) is not None:
            raise
        return Evicted(uid=uid, outcome=EvictionOutcome.GONE, message="is gone; another pod has its name")
    except errors.ClusterError as error:
        meaning = refused(error, uid, pod_ready=is_ready(pod))
        if meaning is None:
            raise
        return meaning
    return Evicted(uid=uid, outcome=EvictionOutcome.ACCEPTED)


def refused(error: errors.ClusterError, uid: str, *, pod_ready: bool) -> Evicted | None:
    """Say what a refusal means.

    Args:
        error: the API server's answer.
        uid: of the pod.
        pod_ready: a budget may count a pod that is not Ready against itself: then waiting cannot help.

    Returns:
        None for what says nothing about the pod: try again, or our own fault.
    """
    causes = {cause.reason: cause.message for cause in error.causes}
    if isinstance(error, errors.NotFound):
        return Evicted(uid=uid, outcome=EvictionOutcome.GONE, message="is gone")
    if isinstance(error, errors.TooManyRequests) and "DisruptionBudget" in causes:
        wait = None if not error.retry_after else timedelta(seconds=error.retry_after)
        message = _budget(causes["DisruptionBudget"] or error.message, pod_ready=pod_ready)
        return Evicted(uid=uid, outcome=EvictionOutcome.BUDGET, message=message, retry_after=wait)
    if _several_budgets(error):
        message = f"several disruption budgets match the pod; leave one: {tamed(error.message)}"
        return Evicted(uid=uid, outcome=EvictionOutcome.MANY_BUDGETS, message=message, retry_after=MEND)
    if "NamespaceTerminating" in causes:
        return Evicted(uid=uid, outcome=EvictionOutcome.ACCEPTED, message="its namespace is being deleted")
    if by_the_cluster(error):
        return Evicted(uid=uid, outcome=EvictionOutcome.DENIED, message=f"refused: {tamed(error.message)}")
    return None


def _budget(said: str, *, pod_ready: bool) -> str:
    if pod_ready:
        return tamed(said)
    return (
        f"{tamed(said)}; the pod itself is not Ready, so that waiting may never help: add healthy replicas, or set the "
        "budget's unhealthyPodEvictionPolicy to AlwaysAllow"
    )


def _several_budgets(error: errors.ClusterError) -> bool:
    """Several budgets: a 500 without a reason; the server has no other sign for it than its text."""
    return error.status == 500 and not error.reason and "poddisruptionbudget" in error.message.lower()  # noqa: PLR2004
