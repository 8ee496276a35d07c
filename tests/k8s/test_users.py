"""Who holds a device, and what became of those who did."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from k8s.evictions import evict
from k8s.fences import Fences
from k8s.gateway import MERGE_PATCH, Gateway
from k8s.lab.lab import Lab
from k8s.listings import ClaimLister
from k8s.resources import DEPLOYMENTS, DEVICECLASSES, JOBS, NAMESPACES, PODS, STATEFULSETS
from k8s.users import KEPT, UserLists, changed
from sickbay.model.device import DeviceKey
from sickbay.model.incident import User, UserState
from tests.builders import NOW, user
from tests.conftest import AddNodes
from tests.installation import CLUSTER, Installation
from tests.k8s import cluster
from tests.k8s.scripted import listing, says, scripted, status

AT_ONCE = timedelta(0)


def lists(gateway: Gateway) -> UserLists:
    """Build what lists users, at a time that stands still."""
    return UserLists(gateway, ClaimLister(gateway, spacing=AT_ONCE), now=lambda: NOW)


async def until_state(
    listing: UserLists, device: DeviceKey, users: tuple[User, ...], state: UserState
) -> tuple[User, ...]:
    """List users, each time joined with the last list, until the first known one is in this state."""
    uid = users[0].uid

    async def look() -> tuple[User, ...] | None:
        nonlocal users
        users = await listing.users(device, users)
        return users if next(u for u in users if u.uid == uid).state is state else None

    return await cluster.until(look)


@pytest.mark.lab
async def test_users_of_all_shares_are_found_and_observers_are_not(
    lab: Lab, sickbay: Installation, namespace: str, add_nodes: AddNodes
) -> None:
    """Pods that share a claim are all users; a pod with admin access to the device watches and is none."""
    (node,) = await add_nodes(1, cluster.shape(namespace))
    driver = f"{namespace}.example"
    label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    await lab.gateway.request("PATCH", NAMESPACES.path(name=namespace), body=label, content_type=MERGE_PATCH)
    await cluster.create_claim(lab.gateway, namespace, "shared", driver)
    await cluster.create_claim(lab.gateway, namespace, "watch", driver, adminAccess=True)
    for name, claim in (("one", "shared"), ("two", "shared"), ("monitor", "watch")):
        await cluster.create_pod(lab.gateway, namespace, name, claim=claim)
        await cluster.running(lab.gateway, namespace, name)
    device = DeviceKey(cluster=CLUSTER, driver=driver, pool=node, device="gpu-0")
    listing = lists(sickbay.gateway)
    users = await listing.users(device)
    assert [u.name for u in users] == ["one", "two"]
    assert {(u.owner_kind, u.may_move, u.state) for u in users} == {("Pod", False, UserState.FOUND)}
    assert f"delete pod {namespace}/one" in users[0].note
    (monitor,) = await cluster.pods(lab.gateway, namespace, "monitor")
    assert not await listing.holds(device, monitor.metadata.uid)
    assert await listing.holds(device, users[0].uid)


@pytest.mark.lab
async def test_a_pod_that_asks_for_an_extended_resource_is_a_user(
    lab: Lab, sickbay: Installation, namespace: str, add_nodes: AddNodes
) -> None:
    """The scheduler serves it by a claim that the pod does not name; kubelet tells no health of it."""
    (node,) = await add_nodes(1, cluster.shape(namespace))
    driver, resource = f"{namespace}.example", f"{namespace}.example/gpu"
    selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
    body = {"metadata": {"name": f"x-{namespace}"}, "spec": {"extendedResourceName": resource, "selectors": [selector]}}
    await lab.gateway.request("POST", DEVICECLASSES.path(), body=body)
    spec = cluster.pod_spec()
    spec["containers"][0]["resources"] = {"limits": {resource: "1"}}
    await cluster.create(
        lab.gateway, PODS, namespace, {"metadata": {"name": "ext", "labels": {"app": "ext"}}, "spec": spec}
    )
    pod = await cluster.running(lab.gateway, namespace, "ext")
    users = await lists(sickbay.gateway).users(cluster.device(namespace, node))
    assert [(u.name, u.uid) for u in users] == [("ext", pod.metadata.uid)]
    await lab.gateway.request("DELETE", DEVICECLASSES.path(name=f"x-{namespace}"))


@pytest.mark.lab
async def test_an_evicted_deployment_is_followed_to_its_new_device(
    lab: Lab, sickbay: Installation, namespace: str, add_nodes: AddNodes
) -> None:
    """Found, terminating, gone by uid, replaced: the new pod and its device are named."""
    (node,) = await add_nodes(1, cluster.shape(namespace, devices=2))
    await cluster.create_template(lab.gateway, namespace, "gpu", f"{namespace}.example")
    body = cluster.workload("Deployment", "train", template="gpu", behaviour={"stop-after": "500ms"})
    await cluster.create(lab.gateway, DEPLOYMENTS, namespace, body)
    pod = await cluster.running(lab.gateway, namespace, "train")
    device = await cluster.device_of(lab.gateway, pod)
    listing = lists(sickbay.gateway)
    users = await listing.users(device)
    assert [(u.owner_kind, u.owner_name, u.may_move, u.terminating) for u in users] == [
        ("Deployment", "train", True, False)
    ]
    await evict(sickbay.gateway, pod)
    leaving = await listing.users(device, users)
    assert [(u.state, u.terminating, u.may_move) for u in leaving] == [(UserState.FOUND, True, True)]
    assert changed(users, leaving)
    gone = await until_state(listing, device, leaving, UserState.REPLACED)
    assert [(u.uid, u.gone_at, u.terminating) for u in gone] == [(pod.metadata.uid, NOW, False)]
    new = await cluster.running(lab.gateway, namespace, "train", but=pod.metadata.uid)
    other = await cluster.device_of(lab.gateway, new)
    assert other != device
    assert gone[0].note == f"pod {namespace}/{new.metadata.name} is Ready on {device.driver}/{node}/{other.device}"


@pytest.mark.lab
async def test_siblings_do_not_stand_for_the_pod_that_was_lost(
    lab: Lab, sickbay: Installation, namespace: str, add_nodes: AddNodes
) -> None:
    """With no device left the new pod stays pending, and its Ready siblings replace nothing."""
    await add_nodes(1, cluster.shape(namespace, devices=2))
    await cluster.create_template(lab.gateway, namespace, "gpu", f"{namespace}.example")
    body = cluster.workload("Deployment", "train", template="gpu", replicas=2)
    await cluster.create(lab.gateway, DEPLOYMENTS, namespace, body)

    async def both() -> bool:
        found = await cluster.pods(lab.gateway, namespace, "train")
        return [p.status.phase for p in found] == ["Running", "Running"]

    await cluster.until(both)
    pod, _ = await cluster.pods(lab.gateway, namespace, "train")
    device = await cluster.device_of(lab.gateway, pod)
    await Fences(sickbay.gateway).put(device, 1, incident="i", effect_key="k")
    listing = lists(sickbay.gateway)
    users = await listing.users(device)
    await evict(sickbay.gateway, pod)
    gone = await until_state(listing, device, users, UserState.GONE)

    async def pending() -> bool:
        conditions = [c for p in await cluster.pods(lab.gateway, namespace, "train") for c in p.status.conditions]
        return any(c.reason == "Unschedulable" for c in conditions)

    await cluster.until(pending)
    assert await listing.users(device, gone) == gone


@pytest.mark.lab
async def test_a_job_that_has_completed_needs_no_replacement(
    lab: Lab, sickbay: Installation, namespace: str, add_nodes: AddNodes
) -> None:
    """Its pod is gone from the device when it has ended, and the Job wants no other."""
    await add_nodes(1, cluster.shape(namespace))
    await cluster.create_template(lab.gateway, namespace, "gpu", f"{namespace}.example")
    body = cluster.workload("Job", "train", template="gpu", behaviour={"run-for": "1s"})
    await cluster.create(lab.gateway, JOBS, namespace, body)
    pod = await cluster.running(lab.gateway, namespace, "train")
    device = await cluster.device_of(lab.gateway, pod)
    listing = lists(sickbay.gateway)
    users = await listing.users(device)
    assert [(u.owner_kind, u.may_move) for u in users] == [("Job", False)]
    done = await until_state(listing, device, users, UserState.REPLACED)
    assert done[0].note == "Job train has completed"


@pytest.mark.lab
async def test_a_stateful_pod_in_a_crash_loop_may_move(
    lab: Lab, sickbay: Installation, namespace: str, add_nodes: AddNodes
) -> None:
    """What makes no progress loses nothing, and the rise is a change that an incident wakes up for."""
    await add_nodes(1, cluster.shape(namespace))
    await cluster.create_template(lab.gateway, namespace, "gpu", f"{namespace}.example")
    body = cluster.workload("StatefulSet", "db", template="gpu", behaviour={"run-for": "300ms", "exit-code": "1"})
    await cluster.create(lab.gateway, STATEFULSETS, namespace, body)
    pod = await cluster.running(lab.gateway, namespace, "db")
    device = await cluster.device_of(lab.gateway, pod)
    listing = lists(sickbay.gateway)
    before = (user(uid=pod.metadata.uid, namespace=namespace, name="db-0", owner_kind="StatefulSet", may_move=False),)

    async def movable() -> tuple[User, ...] | None:
        users = await listing.users(device, before)
        return users if users and users[0].may_move else None

    after = await cluster.until(movable)
    assert "CrashLoopBackOff" in after[0].note
    assert changed(before, after)


@pytest.mark.lab
async def test_what_the_incident_noted_is_kept(
    lab: Lab, sickbay: Installation, namespace: str, add_nodes: AddNodes
) -> None:
    """State, retry, and the refusal of an eviction pass through; a pod that is gone keeps the time it went."""
    await add_nodes(1, cluster.shape(namespace))
    await cluster.create_template(lab.gateway, namespace, "gpu", f"{namespace}.example")
    body = cluster.workload("Deployment", "work", template="gpu")
    await cluster.create(lab.gateway, DEPLOYMENTS, namespace, body)
    pod = await cluster.running(lab.gateway, namespace, "work")
    device = await cluster.device_of(lab.gateway, pod)
    blocked = user(
        namespace=namespace,
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        state=UserState.BLOCKED,
        note="budget quorum",
        blocked_since=NOW,
        retry_at=NOW,
    )
    former = user(namespace=namespace, uid="former", state=UserState.GONE, gone_at=NOW - timedelta(minutes=1))
    (still, gone) = await lists(sickbay.gateway).users(device, (former, blocked))
    kept = ("state", "note", "blocked_since", "retry_at")
    assert [getattr(still, name) for name in kept] == [getattr(blocked, name) for name in kept]
    assert gone == former


@pytest.mark.lab
async def test_a_blocked_pod_that_may_not_move_any_more_is_blocked_no_more(
    lab: Lab, sickbay: Installation, namespace: str, add_nodes: AddNodes
) -> None:
    """Nobody tries its eviction again: it is told why it stays, and not of the budget that blocked it."""
    (node,) = await add_nodes(1, cluster.shape(namespace))
    await cluster.create_claim(lab.gateway, namespace, "one", f"{namespace}.example")
    await cluster.create_pod(lab.gateway, namespace, "job", claim="one")
    pod = await cluster.running(lab.gateway, namespace, "job")
    blocked = user(namespace=namespace, name="job", uid=pod.metadata.uid, state=UserState.BLOCKED, note="budget quorum")
    (now,) = await lists(sickbay.gateway).users(cluster.device(namespace, node), (blocked,))
    assert (now.state, now.may_move) == (UserState.FOUND, False)
    assert f"delete pod {namespace}/job" in now.note
    assert changed((blocked,), (now,))


@pytest.mark.lab
async def test_the_list_of_those_gone_is_bounded(lab: Lab, sickbay: Installation, namespace: str) -> None:
    """A job that comes back again and again does not fill the incident's state."""
    device = DeviceKey(cluster=CLUSTER, driver=f"{namespace}.example", pool="nowhere", device="gpu-0")
    many = tuple(user(namespace=namespace, uid=f"u{n}") for n in range(KEPT + 5))
    gone = await lists(sickbay.gateway).users(device, many)
    assert len(gone) == KEPT
    assert gone[-1].uid == many[-1].uid


async def test_while_a_claim_cannot_be_read_nobody_counts_as_gone(tmp_path: Path) -> None:
    """The unreadable claim may be theirs: a known user that still runs still holds the device."""
    work = {"metadata": {"namespace": "a", "name": "b", "uid": "u"}, "status": {"phase": "Running"}}
    known = user(namespace="a", name="b", uid="u")
    device = DeviceKey(cluster=CLUSTER, driver="d", pool="p", device="gpu-0")
    odd = {"metadata": {"namespace": "a", "name": "one"}, "status": {"allocation": "odd"}}
    async with scripted(tmp_path) as (server, gateway):
        server.script += [listing("5", odd), says(200, work)]
        (still,) = await lists(gateway).users(device, [known])
        assert (still.uid, still.state) == ("u", UserState.FOUND)
        server.script += [listing("6", odd), says(404, status(404, "NotFound")), says(404, status(404, "NotFound"))]
        (gone,) = await lists(gateway).users(device, [known])
        assert gone.state is UserState.GONE


@pytest.mark.parametrize(
    ("before", "after", "differs"),
    [
        ([], [], False),
        ([user()], [user(note="else", retry_at=NOW)], False),
        ([], [user()], True),
        ([user()], [user(state=UserState.GONE)], True),
        ([user(state=UserState.GONE)], [user(state=UserState.REPLACED)], True),
        ([user()], [user(terminating=True)], True),
        ([user()], [user(state=UserState.EVICTED)], False),
        ([user(may_move=False)], [user(may_move=True)], True),
        ([user(may_move=True)], [user(may_move=False)], True),
        ([user(state=UserState.BLOCKED)], [user(may_move=False)], True),
        ([user(terminating=True)], [user(terminating=True, may_move=False)], False),
        ([user(state=UserState.GONE)], [user(state=UserState.GONE, may_move=False)], False),
    ],
)
def test_only_what_an_incident_would_act_on_is_a_change(
    before: list[User], after: list[User], *, differs: bool
) -> None:
    """Coming, going, terminating, replaced, and becoming movable or not; notes and times are not."""
    assert changed(before, after) is differs
