"""Who would start a pod again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from k8s.lab.lab import Lab
from k8s.owners import Owners, facts_of, ignores_disruption, stalled
from k8s.resources import DEPLOYMENTS, JOBS, STATEFULSETS, Resource
from k8s.wire import Pod
from k8s.workloads import FailurePolicy
from sickbay.policy.evacuation import may_move
from tests.conftest import AddNodes
from tests.k8s import cluster

NOW = datetime(2026, 1, 10, 10, 0, tzinfo=UTC)
CRONJOBS = Resource("batch", "v1", "cronjobs", namespaced=True)


def pod(*, owner: dict[str, Any] | None = None, namespace: str = "a", **parts: Any) -> Pod:
    """Build a pod ``a/b`` as it would be read."""
    owners = [{"controller": True, **owner}] if owner else []
    metadata = {"name": "b", "namespace": namespace, "uid": "u", "ownerReferences": owners, **parts.pop("metadata", {})}
    return msgspec.convert({"metadata": metadata, **parts}, Pod)


@pytest.mark.lab
@pytest.mark.parametrize(
    ("kind", "resource"), [("Deployment", DEPLOYMENTS), ("StatefulSet", STATEFULSETS), ("Job", JOBS)]
)
async def test_the_topmost_controller_is_found(
    lab: Lab, namespace: str, add_nodes: AddNodes, kind: str, resource: Resource
) -> None:
    """A pod's owner is climbed to by name and uid, a ReplicaSet is not the end."""
    await cluster.create(lab.gateway, resource, namespace, cluster.workload(kind, "train"))

    async def look() -> list[Pod]:
        return await cluster.pods(lab.gateway, namespace, "train")

    (found,) = await cluster.until(look)
    owner = await Owners(lab.gateway).of(found)
    assert (owner.kind, owner.name, owner.gone) == (kind, "train", False)
    assert owner.object is not None
    assert owner.object.metadata.uid == owner.uid


@pytest.mark.lab
async def test_a_cron_job_is_not_the_job(lab: Lab, namespace: str) -> None:
    """A CronJob starts jobs; the pod belongs to the one Job."""
    template = {"spec": cluster.workload("Job", "train")["spec"]}
    await cluster.create(
        lab.gateway,
        CRONJOBS,
        namespace,
        {"metadata": {"name": "nightly"}, "spec": {"schedule": "0 0 1 1 *", "jobTemplate": template}},
    )
    data = await lab.gateway.request("GET", CRONJOBS.path(namespace, "nightly"))
    uid = msgspec.json.decode(data)["metadata"]["uid"]
    reference = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": uid, "controller": True}
    job = cluster.workload("Job", "train")
    job["metadata"]["ownerReferences"] = [reference]
    await cluster.create(lab.gateway, JOBS, namespace, job)

    async def look() -> list[Pod]:
        return await cluster.pods(lab.gateway, namespace, "train")

    (found,) = await cluster.until(look)
    owner = await Owners(lab.gateway).of(found)
    assert (owner.kind, owner.name) == ("Job", "train")


@pytest.mark.lab
async def test_an_owner_of_that_name_with_another_uid_is_gone(lab: Lab, namespace: str) -> None:
    """Identity is name and uid: a Deployment that was made anew does not own the old pods."""
    await cluster.create(lab.gateway, JOBS, namespace, cluster.workload("Job", "train"))
    for name in ("train", "missing"):
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": "another"}
        owner = await Owners(lab.gateway).of(pod(owner=reference, namespace=namespace))
        assert (owner.kind, owner.gone) == ("Job", True)


@pytest.mark.lab
@pytest.mark.parametrize(
    ("api_version", "kind", "found"),
    [
        ("kubeflow.org/v2beta1", "MPIJob", "MPIJob.kubeflow.org"),
        ("apps.example.com/v1", "StatefulSet", "StatefulSet.apps.example.com"),
        ("apps/v1", "DaemonSet", "DaemonSet"),
        ("v1", "ReplicationController", "ReplicationController"),
    ],
)
async def test_other_kinds_are_topmost(lab: Lab, api_version: str, kind: str, found: str) -> None:
    """A kind that is not read is known by its name; one outside Kubernetes never passes for one of ours."""
    owner = await Owners(lab.gateway).of(
        pod(owner={"apiVersion": api_version, "kind": kind, "name": "o", "uid": "1"}, namespace="default")
    )
    assert (owner.kind, owner.gone) == (found, False)


@pytest.mark.lab
async def test_mirrors_and_bare_pods_have_no_controller(lab: Lab) -> None:
    """A mirror pod is its node's, a bare pod its own."""
    owners = Owners(lab.gateway)
    mirror = pod(metadata={"annotations": {"kubernetes.io/config.mirror": "x"}}, spec={"nodeName": "n"})
    assert (await owners.of(mirror)).kind == "Node"
    assert (await owners.of(pod())).kind == "Pod"


IGNORE = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


@pytest.mark.parametrize(
    ("rules", "ignores"),
    [
        ([], False),
        ([IGNORE], True),
        ([{**IGNORE, "action": "Count"}], False),
        ([{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}, IGNORE], True),
        ([{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [143]}}, IGNORE], False),
        ([{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [143]}}, IGNORE], True),
        ([{"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [1, 137, 143]}}, IGNORE], True),
        ([{"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [3]}}, IGNORE], False),
        ([{"action": "Ignore", "onPodConditions": [{"type": "Other", "status": "True"}]}], False),
    ],
)
def test_the_first_rule_that_matches_an_evicted_pod_decides(rules: list[dict[str, Any]], *, ignores: bool) -> None:
    """An exit code rule that would catch a container that was asked to end comes before the promise to ignore it."""
    assert ignores_disruption(msgspec.convert({"rules": rules}, FailurePolicy)) is ignores


def waiting(reason: str) -> dict[str, Any]:
    """Build a container that waits."""
    return {"name": "main", "state": {"waiting": {"reason": reason}}}


def not_ready(since: timedelta, status: str = "False") -> dict[str, Any]:
    """Build a Ready condition of this age."""
    return {"type": "Ready", "status": status, "lastTransitionTime": (NOW - since).isoformat()}


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({"containerStatuses": [waiting("CrashLoopBackOff")]}, "container main is in CrashLoopBackOff"),
        ({"initContainerStatuses": [waiting("CrashLoopBackOff")]}, "container main is in CrashLoopBackOff"),
        ({"containerStatuses": [waiting("ContainerCreating")]}, ""),
        ({"conditions": [not_ready(timedelta(minutes=4, seconds=59))]}, ""),
        ({"conditions": [not_ready(timedelta(minutes=5))]}, "not Ready for 5m"),
        ({"conditions": [not_ready(timedelta(hours=3, seconds=9))]}, "not Ready for 3h"),
        ({"conditions": [not_ready(timedelta(hours=1), "True")]}, ""),
        ({"conditions": [not_ready(timedelta(hours=1), "Unknown")]}, ""),
        ({"conditions": [{"type": "Ready", "status": "False"}]}, ""),
        ({}, ""),
    ],
)
def test_a_pod_that_makes_no_progress_is_told_apart(status: dict[str, Any], why: str) -> None:
    """A crash loop, or five minutes without being Ready; nothing else."""
    assert stalled(pod(status=status), NOW) == why


@pytest.mark.lab
@pytest.mark.parametrize(("node_ready", "moves"), [(True, True), (False, False)])
async def test_a_silent_node_makes_no_pod_stalled(lab: Lab, namespace: str, *, node_ready: bool, moves: bool) -> None:
    """The pods of a node that cannot be heard are all not Ready, which says nothing of them."""
    await cluster.create(lab.gateway, STATEFULSETS, namespace, cluster.workload("StatefulSet", "db", replicas=0))
    data = await lab.gateway.request("GET", STATEFULSETS.path(namespace, "db"))
    uid = msgspec.json.decode(data)["metadata"]["uid"]
    found = pod(
        owner={"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": uid},
        namespace=namespace,
        status={"conditions": [not_ready(timedelta(minutes=9))]},
    )
    owner = await Owners(lab.gateway).of(found)
    assert may_move(facts_of(found, owner, now=NOW, node_ready=node_ready)).may is moves


@pytest.mark.lab
async def test_a_jobs_facts_are_read_off_the_job(lab: Lab, namespace: str) -> None:
    """Retries left and the failure policy come from the Job as it is now."""
    job = cluster.workload("Job", "train")
    job["spec"] |= {"backoffLimit": 2, "podFailurePolicy": {"rules": [IGNORE]}, "suspend": True}
    await cluster.create(lab.gateway, JOBS, namespace, job)
    data = await lab.gateway.request("GET", JOBS.path(namespace, "train"))
    uid = msgspec.json.decode(data)["metadata"]["uid"]
    found = pod(owner={"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid}, namespace=namespace)
    facts = facts_of(found, await Owners(lab.gateway).of(found), now=NOW, node_ready=True)
    assert (facts.retries_left, facts.ignores_disruption) == (2, True)
