"""The cap on evictions, held by compare-and-swap on a real API server."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest

from k8s import slots as module
from k8s.gateway import MERGE_PATCH, decode
from k8s.records import Records
from k8s.resources import CONFIGMAPS, PODS
from k8s.slots import EVICTIONS, EvictionSlots
from sickbay.model.device import DeviceKey
from sickbay.model.incident import Target, User
from sickbay.model.record import Phase, RecordStatus
from sickbay.policy.evictions import Granted, Refused
from tests import builders
from tests.installation import Installation, a_device, record_spec


@pytest.fixture(autouse=True)
async def slots(sickbay: Installation) -> AsyncIterator[EvictionSlots]:
    """Give slots, all free before and after."""
    slots = EvictionSlots(sickbay.gateway)
    await slots.give_back(*await slots.holders())
    yield slots
    await slots.give_back(*await slots.holders())


@pytest.fixture
async def target(sickbay: Installation) -> Target:
    """Open an incident."""
    return await opened(sickbay, a_device())


async def opened(sickbay: Installation, key: DeviceKey) -> Target:
    """Write the record of an incident."""
    record = await Records(sickbay.gateway).create(key, record_spec(key, term=await sickbay.term()))
    return builders.target(key).model_copy(update={"record_uid": record.uid})


async def a_user(sickbay: Installation) -> User:
    """Create a pod that stays Pending."""
    name = f"user-{uuid.uuid4().hex[:8]}"
    body = {
        "metadata": {"name": name},
        "spec": {
            "containers": [{"name": "main", "image": "example.com/none"}],
            "nodeSelector": {"sickbay.dev/none": "none"},
        },
    }
    pod = decode(await sickbay.admin.request("POST", PODS.path("default"), body=body))
    return builders.user(namespace="default", name=name, uid=pod["metadata"]["uid"])


async def gone(sickbay: Installation, user: User) -> None:
    """Delete the pod."""
    body = {"gracePeriodSeconds": 0}
    await sickbay.admin.request("DELETE", PODS.path(user.namespace, user.name), body=body)


async def take(slots: EvictionSlots, user: User, target: Target, limit: int = 2) -> Granted | Refused:
    """Ask for a slot."""
    return await slots.take(user, target, effect_key=f"evict/{user.uid}", limit=limit)


async def test_never_more_than_the_limit(sickbay: Installation, target: Target) -> None:
    """Twelve workers that ask at once get the two slots there are; the others are told the numbers."""
    users = [await a_user(sickbay) for _ in range(12)]
    rulings = await asyncio.gather(*(take(EvictionSlots(sickbay.gateway), user, target) for user in users))
    granted = [user for user, ruling in zip(users, rulings, strict=True) if isinstance(ruling, Granted)]
    assert len(granted) == 2
    holders = await EvictionSlots(sickbay.gateway).holders()
    assert holders == {user.uid: f"evict/{user.uid}" for user in granted}
    refused = next(ruling for ruling in rulings if isinstance(ruling, Refused))
    assert "2 evictions are under way" in refused.message


async def test_a_slot_is_taken_once(sickbay: Installation, slots: EvictionSlots, target: Target) -> None:
    """Asking again is granted and writes nothing, giving back twice is fine."""
    user = await a_user(sickbay)
    await take(slots, user, target)
    before = await sickbay.admin.request("GET", CONFIGMAPS.path("sickbay", EVICTIONS))
    assert isinstance(await take(slots, user, target, limit=1), Granted)
    assert await sickbay.admin.request("GET", CONFIGMAPS.path("sickbay", EVICTIONS)) == before
    await slots.give_back(user.uid)
    await slots.give_back(user.uid)
    assert await slots.holders() == {}


async def test_a_slot_of_a_pod_that_is_gone_is_free(
    sickbay: Installation, slots: EvictionSlots, target: Target
) -> None:
    """Whoever finds the cap reached frees what a dead worker left behind."""
    first, second = await a_user(sickbay), await a_user(sickbay)
    await take(slots, first, target, limit=1)
    await gone(sickbay, first)
    assert isinstance(await take(slots, second, target, limit=1), Granted)
    assert set(await slots.holders()) == {second.uid}


async def test_a_slot_of_an_incident_that_ended_is_free(sickbay: Installation, slots: EvictionSlots) -> None:
    """A pod that was never evicted gives up its slot with its incident."""
    key = a_device()
    ended, second = await opened(sickbay, key), await a_user(sickbay)
    first = await a_user(sickbay)
    await take(slots, first, ended, limit=1)
    records = Records(sickbay.gateway)
    closed = RecordStatus(incident=ended.incident, run=1, phase=Phase.CLEARED)
    await records.write_status(await records.get(key.record_name), closed)
    assert isinstance(await take(slots, second, await opened(sickbay, a_device()), limit=1), Granted)


async def test_an_eviction_under_way_keeps_its_slot(
    sickbay: Installation, slots: EvictionSlots, target: Target
) -> None:
    """A pod that is there and whose incident is open is not taken for gone; looks are spaced."""
    first, second = await a_user(sickbay), await a_user(sickbay)
    await take(slots, first, target, limit=1)
    assert isinstance(await take(slots, second, target, limit=1), Refused)
    await gone(sickbay, first)
    assert isinstance(await take(slots, second, target, limit=1), Refused)
    assert isinstance(await take(EvictionSlots(sickbay.gateway), second, target, limit=1), Granted)


async def test_an_odd_entry_holds_nothing(
    sickbay: Installation, slots: EvictionSlots, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry that cannot be read counts until somebody needs its place."""
    monkeypatch.setattr(module, "RECLAIM", 0.0)
    path = CONFIGMAPS.path("sickbay", EVICTIONS)
    await sickbay.admin.request("PATCH", path, body={"data": {"odd": "{"}}, content_type=MERGE_PATCH)
    user = await a_user(sickbay)
    assert isinstance(await take(slots, user, target, limit=1), Granted)
    assert set(await slots.holders()) == {user.uid}
