"""Listing and awaiting the users of a device."""

from __future__ import annotations

import pytest
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.testing import ActivityEnvironment

from k8s.lab.lab import Lab
from k8s.resources import PODS
from sickbay.model.contracts import SUPERSEDED, WAITING, ListUsers, Users
from sickbay.model.incident import User, UserState
from tests.activities.incidents import Incident, open_incident
from tests.conftest import AddNodes
from tests.installation import Installation
from tests.k8s import cluster

pytestmark = pytest.mark.lab


@pytest.fixture
async def incident(lab: Lab, sickbay: Installation, namespace: str, add_nodes: AddNodes) -> Incident:
    """Open an incident of a device that bare pod ``work`` holds."""
    (node,) = await add_nodes(1, cluster.shape(namespace))
    await cluster.create_claim(lab.gateway, namespace, "one", f"{namespace}.example")
    await cluster.create_pod(lab.gateway, namespace, "work", claim="one", behaviour={"stop-after": "300ms"})
    pod = await cluster.running(lab.gateway, namespace, "work")
    return await open_incident(sickbay, await cluster.device_of(lab.gateway, pod), node, pod)


async def awaited(incident: Incident, users: tuple[User, ...]) -> tuple[User, ...] | None:
    """Poll once; None while nothing has changed."""
    step = ListUsers(target=incident.target, users=users)
    try:
        found: Users = await ActivityEnvironment().run(incident.users.await_users, step)
    except ApplicationError as error:
        if error.type != WAITING:
            raise
        return None
    return found.users


async def test_a_wait_that_sees_no_change_holds_no_slot(incident: Incident) -> None:
    """It ends at once, benign, with the time of the next look."""
    listed = await ActivityEnvironment().run(incident.users.list_users, ListUsers(target=incident.target))
    assert [u.name for u in listed.users] == ["work"]
    step = ListUsers(target=incident.target, users=listed.users)
    with pytest.raises(ApplicationError) as raised:
        await ActivityEnvironment().run(incident.users.await_users, step)
    assert (raised.value.type, raised.value.category) == (WAITING, ApplicationErrorCategory.BENIGN)
    assert raised.value.next_retry_delay is not None


async def test_a_wait_ends_with_each_change(lab: Lab, namespace: str, incident: Incident) -> None:
    """First the pod is terminating, then it is gone, and its eviction slot is free."""
    (user,) = (await ActivityEnvironment().run(incident.users.list_users, ListUsers(target=incident.target))).users
    await incident.slots.take(user, incident.target, effect_key="k", limit=1000)
    await cluster.delete(lab.gateway, PODS, namespace, "work")
    leaving = await cluster.until(lambda: awaited(incident, (user,)))
    assert [(u.terminating, u.state) for u in leaving] == [(True, UserState.FOUND)]
    assert user.uid in await incident.slots.holders()
    gone = await cluster.until(lambda: awaited(incident, leaving))
    assert [u.state for u in gone] == [UserState.GONE]
    assert user.uid not in await incident.slots.holders()
    assert await awaited(incident, gone) is None


async def test_a_user_that_comes_ends_the_wait(lab: Lab, namespace: str, incident: Incident) -> None:
    """A pod that shares the claim starts on the fenced device all the same, and is found."""
    before = (await ActivityEnvironment().run(incident.users.list_users, ListUsers(target=incident.target))).users
    await cluster.create_pod(lab.gateway, namespace, "late", claim="one")
    after = await cluster.until(lambda: awaited(incident, before))
    assert [u.name for u in after] == ["work", "late"]


async def test_an_incident_that_lost_its_record_waits_for_nobody(incident: Incident) -> None:
    """Its wait ends for good."""
    await incident.end()
    with pytest.raises(ApplicationError) as raised:
        await ActivityEnvironment().run(incident.users.await_users, ListUsers(target=incident.target))
    assert (raised.value.type, raised.value.non_retryable) == (SUPERSEDED, True)
