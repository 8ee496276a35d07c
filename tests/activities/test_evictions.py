"""Evicting a user, within the cluster's cap."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from k8s.evictions import read_pod
from k8s.gateway import MERGE_PATCH
from k8s.lab.lab import Lab
from k8s.resources import DEPLOYMENTS, NAMESPACES, PODDISRUPTIONBUDGETS, PODS, REPLICASETS
from sickbay import errors
from sickbay.model.contracts import SUPERSEDED, Evicted, EvictionOutcome, EvictUser, ListUsers
from sickbay.model.incident import User
from sickbay.model.policy import Migration
from tests.activities.incidents import Incident, open_incident
from tests.conftest import AddNodes
from tests.installation import Installation
from tests.k8s import cluster

pytestmark = pytest.mark.lab


@pytest.fixture
async def incident(lab: Lab, sickbay: Installation, namespace: str, add_nodes: AddNodes) -> AsyncIterator[Incident]:
    """Open an incident of a device that Deployments ``one`` and ``two`` share; a slot that is left is given back."""
    (node,) = await add_nodes(1, cluster.shape(namespace))
    await cluster.create_claim(lab.gateway, namespace, "shared", f"{namespace}.example")
    for name in ("one", "two"):
        body = cluster.workload("Deployment", name, claim="shared", behaviour={"stop-after": "500ms"})
        await cluster.create(lab.gateway, DEPLOYMENTS, namespace, body)
        pod = await cluster.running(lab.gateway, namespace, name)
    opened = await open_incident(sickbay, await cluster.device_of(lab.gateway, pod), node, pod)
    yield opened
    await opened.slots.give_back(*(await opened.slots.holders()))


async def users(incident: Incident) -> tuple[User, ...]:
    """List the users."""
    return (await ActivityEnvironment().run(incident.users.list_users, ListUsers(target=incident.target))).users


async def evicted(incident: Incident, user: User, at_once: int = 1000) -> Evicted:
    """Evict one."""
    step = EvictUser(target=incident.target, user=user, limits=Migration(at_once=at_once))
    return await ActivityEnvironment().run(incident.eviction.evict_user, step)


async def terminating(incident: Incident, user: User) -> bool:
    """Whether the pod is on its way out."""
    pod = await read_pod(incident.gateway, user.namespace, user.name, user.uid)
    return pod is None or bool(pod.metadata.deletion_timestamp)


async def orphan(lab: Lab, user: User) -> None:
    """Delete Deployment and ReplicaSet of a pod and leave the pod alone, as a person does who wants to save it."""
    pod = await read_pod(lab.gateway, user.namespace, user.name, user.uid)
    assert pod is not None
    replica_set = pod.metadata.owner_references[0].name
    for resource, name in ((DEPLOYMENTS, user.owner_name), (REPLICASETS, replica_set)):
        path = resource.path(user.namespace, name)
        await lab.gateway.request("DELETE", path, body={"propagationPolicy": "Orphan"})

        async def gone(path: str = path) -> bool:
            try:
                await lab.gateway.request("GET", path)
            except errors.NotFound:
                return True
            return False

        await cluster.until(gone)

    async def bare() -> bool:
        found = await read_pod(lab.gateway, user.namespace, user.name, user.uid)
        return found is not None and not found.metadata.owner_references

    await cluster.until(bare)


async def test_an_eviction_takes_a_slot_once(incident: Incident) -> None:
    """It is accepted; who repeats it, having lost the answer, learns so, and the slot stays taken until it is gone."""
    one, two = await users(incident)
    assert (await evicted(incident, one)).outcome is EvictionOutcome.ACCEPTED
    again = await evicted(incident, one)
    assert (again.outcome, again.uid) == (EvictionOutcome.ACCEPTED, one.uid)
    assert one.uid in await incident.slots.holders()
    assert not await terminating(incident, two)


async def test_the_cap_of_the_cluster_holds(incident: Incident) -> None:
    """With the one slot taken the next pod is left alone, and people are told why."""
    one, two = await users(incident)
    limit = len(await incident.slots.holders()) + 1
    assert (await evicted(incident, one, limit)).outcome is EvictionOutcome.ACCEPTED
    busy = await evicted(incident, two, limit)
    assert busy.outcome is EvictionOutcome.BUSY
    assert "at most" in busy.message
    assert not await terminating(incident, two)


async def test_a_refusal_gives_the_slot_back(lab: Lab, namespace: str, incident: Incident) -> None:
    """A pod that its budget keeps must not keep others waiting."""
    one, _ = await users(incident)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "one"}}}
    body = {"metadata": {"name": "quorum"}, "spec": spec}
    await cluster.create(lab.gateway, PODDISRUPTIONBUDGETS, namespace, body)

    async def blocked() -> Evicted | None:
        answer = await evicted(incident, one)
        return answer if answer.outcome is EvictionOutcome.BUDGET else None

    assert "quorum" in (await cluster.until(blocked)).message
    assert one.uid not in await incident.slots.holders()
    assert not await terminating(incident, one)


async def test_a_pod_that_nobody_rebuilds_any_more_is_not_evicted(lab: Lab, incident: Incident) -> None:
    """It could be moved when it was listed; its slot, taken by a try that died before it evicted, is given back."""
    one, _ = await users(incident)
    assert one.may_move
    key = incident.target.effect_key(f"evict/{one.uid}", 1)
    await incident.slots.take(one, incident.target, effect_key=key, limit=1000)
    await orphan(lab, one)
    answer = await evicted(incident, one)
    assert answer.outcome is EvictionOutcome.UNMOVABLE
    assert f"delete pod {one.namespace}/{one.name}" in answer.message
    assert one.uid not in await incident.slots.holders()
    assert not await terminating(incident, one)


async def test_a_pod_that_may_not_move_takes_no_slot(lab: Lab, incident: Incident) -> None:
    """And leaves alone the one that another incident has for the same pod."""
    one, two = await users(incident)
    await orphan(lab, one)
    await orphan(lab, two)
    await incident.slots.take(two, incident.target, effect_key="another", limit=1000)
    assert {(await evicted(incident, user)).outcome for user in (one, two)} == {EvictionOutcome.UNMOVABLE}
    holders = await incident.slots.holders()
    assert (one.uid in holders, holders[two.uid]) == (False, "another")


async def test_a_pod_that_does_not_hold_the_device_is_never_evicted(
    lab: Lab, namespace: str, incident: Incident
) -> None:
    """Whatever the incident believes of it."""
    await cluster.create_pod(lab.gateway, namespace, "bystander")
    pod = await cluster.running(lab.gateway, namespace, "bystander")
    bystander = User(namespace=namespace, name="bystander", uid=pod.metadata.uid)
    assert (await evicted(incident, bystander)).outcome is EvictionOutcome.GONE
    assert not await terminating(incident, bystander)


async def test_another_uid_is_another_pod(incident: Incident) -> None:
    """A pod that only has the name of a former user is left alone."""
    one, _ = await users(incident)
    former = one.model_copy(update={"uid": "former"})
    assert (await evicted(incident, former)).outcome is EvictionOutcome.GONE
    assert not await terminating(incident, one)


@pytest.mark.parametrize("where", ["pod", "namespace"])
async def test_a_pod_that_is_marked_is_not_evicted(lab: Lab, namespace: str, incident: Incident, where: str) -> None:
    """A mark on it or on its namespace says hands off; whoever listed it before learns so right before the eviction."""
    one, _ = await users(incident)
    assert one.may_move
    path = PODS.path(namespace, one.name) if where == "pod" else NAMESPACES.path(name=namespace)
    body = {"metadata": {"labels": {"sickbay.dev/managed": "false"}}}
    await lab.gateway.request("PATCH", path, body=body, content_type=MERGE_PATCH)
    answer = await evicted(incident, one)
    assert (answer.outcome, "sickbay.dev/managed=false" in answer.message) == (EvictionOutcome.UNMOVABLE, True)
    assert not await terminating(incident, one)
    assert [u.may_move for u in await users(incident) if u.uid == one.uid] == [False]


async def test_an_incident_that_lost_its_record_evicts_nobody(incident: Incident) -> None:
    """Another run decides now."""
    one, _ = await users(incident)
    await incident.end()
    with pytest.raises(ApplicationError) as raised:
        await evicted(incident, one)
    assert (raised.value.type, raised.value.non_retryable) == (SUPERSEDED, True)
    assert not await terminating(incident, one)
