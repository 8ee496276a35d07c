"""The fence as an incident keeps and lifts it, on a real API server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.testing import ActivityEnvironment

from activities.fences import FenceActivities
from activities.records import RecordActivities
from k8s.fences import Fence, Fences
from k8s.gateway import MERGE_PATCH, decode
from k8s.records import Records
from sickbay import errors
from sickbay.model.contracts import SUPERSEDED, WAITING, Done, Fenced, FenceDevice, FenceStep, RampFence, WriteStatus
from sickbay.model.incident import Target
from sickbay.model.record import Phase
from sickbay.policy.opening import target_of
from tests.installation import BREAK_GLASS, Installation, a_device, record_spec


class Incident:
    """An open incident, its fences, and its activities."""

    def __init__(self, sickbay: Installation, target: Target) -> None:
        self.target = target
        self._sickbay = sickbay
        self.fences = Fences(sickbay.gateway)
        self._records = RecordActivities(Records(sickbay.gateway))
        self._activities = FenceActivities(Records(sickbay.gateway), self.fences)

    def name(self, number: int = 1) -> str:
        """Name a fence."""
        return self.target.device.numbered(number)

    async def say(self, number: int, uid: str = "", release: int = 0) -> None:
        """Write the numbers into the record, as it comes before each effect."""
        step = WriteStatus(
            target=self.target, phase=Phase.QUARANTINED, fence_number=number, fence_uid=uid, release_number=release
        )
        await ActivityEnvironment().run(self._records.write_status, step)

    async def fence(self, number: int = 1, **changes: Any) -> Fenced:
        """Make sure of a fence."""
        step = FenceDevice(target=self.target, number=number, **changes)
        fenced = await ActivityEnvironment().run(self._activities.fence_device, step)
        if not fenced.lost:
            await self._sickbay.settled(self.name(number))
        return fenced

    async def ramp(self, uid: str) -> Fenced:
        """Let in who opted in."""
        step = RampFence(target=self.target, number=1, uid=uid, canary=2)
        return await ActivityEnvironment().run(self._activities.ramp_fence, step)

    async def unlatch(self, uid: str, number: int = 1, release: int = 1) -> Done:
        """Take the first step of a release."""
        return await ActivityEnvironment().run(self._activities.unlatch_fence, self._step(uid, number, release))

    async def delete(self, uid: str, number: int = 1, release: int = 1) -> Done:
        """Take the second step."""
        return await ActivityEnvironment().run(self._activities.delete_fence, self._step(uid, number, release))

    async def wait(self, uid: str, number: int = 1, release: int = 1) -> Done:
        """Take the third step."""
        return await ActivityEnvironment().run(self._activities.await_fence_gone, self._step(uid, number, release))

    async def get(self, number: int = 1) -> Fence:
        """Read a fence."""
        return await self.fences.get(self.name(number))

    async def is_gone(self, number: int = 1) -> bool:
        """Whether there is no such fence."""
        return self.name(number) not in {fence.name for fence in await self.fences.list(self.target.device)}

    def _step(self, uid: str, number: int, release: int) -> FenceStep:
        return FenceStep(target=self.target, number=number, uid=uid, release=release)


@pytest.fixture
async def incident(sickbay: Installation) -> Incident:
    """Open an incident."""
    key = a_device()
    record = await Records(sickbay.gateway).create(key, record_spec(key, term=await sickbay.term()))
    return Incident(sickbay, target_of(record))


async def by_hand(sickbay: Installation, name: str, *, unlatch: bool = False) -> None:
    """Delete a fence as a member of the emergency group."""
    async with sickbay.as_user("ada", BREAK_GLASS) as person:
        await person.request("DELETE", sickbay.rules.path(name=name))
        if unlatch:
            patch: dict[str, Any] = {"metadata": {"finalizers": []}}
            await person.request("PATCH", sickbay.rules.path(name=name), body=patch, content_type=MERGE_PATCH)


async def test_a_device_is_fenced_once(incident: Incident) -> None:
    """The first call creates the fence, every repeat finds it; its annotation is the effect key."""
    first = await incident.fence()
    assert first.uid
    assert await incident.fence() == first
    assert await incident.fence(last_uid=first.uid) == first
    fence = await incident.get()
    assert fence.effect_key == incident.target.effect_key("fence", 1)
    assert fence.matches(incident.target.device, incident.target.incident, shadow=False)
    assert len(await incident.fences.list(incident.target.device)) == 1


async def test_what_the_watcher_put_is_kept(sickbay: Installation, incident: Incident) -> None:
    """A fence put on sight, with the leader's term, is this incident's fence."""
    target = incident.target
    placed = await incident.fences.put(
        target.device,
        1,
        incident=target.incident,
        effect_key=target.effect_key("fence", 1),
        term=await sickbay.term(),
    )
    assert await incident.fence() == Fenced(uid=placed.uid)


async def test_a_ramp_changes_whom_the_fence_lets_in_and_back(incident: Incident) -> None:
    """The fence stays the same object and its key changes, once; made sure of, it is a quarantine again."""
    uid = (await incident.fence()).uid
    assert await incident.ramp(uid) == Fenced(uid=uid)
    ramped = await incident.get()
    assert (ramped.taint_key, ramped.uid, ramped.latched) == ("sickbay.dev/ramp", uid, True)
    assert ramped.effect_key == f"{incident.target.effect_key('ramp', 2)}/1"
    assert await incident.ramp(uid) == Fenced(uid=uid)
    # Kubernetes writes the rule's status when it pleases, so its version may have moved.
    assert replace(await incident.get(), resource_version=ramped.resource_version) == ramped
    assert await incident.fence(last_uid=uid) == Fenced(uid=uid)
    assert (await incident.get()).taint_key == "sickbay.dev/quarantine"


async def test_a_fence_that_is_gone_lets_nobody_in_by_a_ramp(sickbay: Installation, incident: Incident) -> None:
    """Deleted by hand, or another object: it is put back before anything else."""
    uid = (await incident.fence()).uid
    assert await incident.ramp("another") == Fenced(lost=True)
    await by_hand(sickbay, incident.name())
    assert await incident.ramp(uid) == Fenced(lost=True)
    assert (await incident.get()).taint_key == "sickbay.dev/quarantine"


async def test_a_shadow_keeps_nothing_away(incident: Incident) -> None:
    """In shadow the fence has effect None."""
    await incident.fence(shadow=True)
    assert (await incident.get()).effect == "None"


@pytest.mark.parametrize("known", [False, True])
async def test_a_deleted_fence_is_followed_by_the_next(
    sickbay: Installation, incident: Incident, *, known: bool
) -> None:
    """One that somebody deletes holds until the next stands, and is let go only then."""
    first = await incident.fence()
    await by_hand(sickbay, incident.name(1))
    assert await incident.fence(last_uid=first.uid if known else "") == Fenced(lost=True)
    assert (await incident.get(1)).terminating
    await incident.say(2)
    second = await incident.fence(2)
    assert (second.lost, second.uid != first.uid) == (False, True)
    assert await incident.is_gone(1)
    assert await incident.fence(2, last_uid=second.uid) == second


async def test_a_number_is_never_used_twice(sickbay: Installation, incident: Incident) -> None:
    """A fence that vanished altogether is lost, whether the workflow or only the record knows of it."""
    first = await incident.fence()
    await incident.say(1, first.uid)
    await by_hand(sickbay, incident.name(1), unlatch=True)
    assert await incident.fence(last_uid=first.uid) == Fenced(lost=True)
    assert await incident.fence() == Fenced(lost=True)
    await incident.say(2, first.uid)
    assert (await incident.fence(2, last_uid=first.uid)).uid


async def test_another_incidents_fence_is_replaced_without_a_gap(incident: Incident) -> None:
    """A number that a stranger holds is lost; with the next one standing, the stranger's goes."""
    device = incident.target.device
    await incident.fences.put(device, 1, incident="incident/other", effect_key="other")
    assert await incident.fence() == Fenced(lost=True)
    assert not await incident.is_gone(1)
    assert (await incident.fence(2)).uid
    assert await incident.is_gone(1)


async def test_a_shadow_does_not_replace_a_fence(incident: Incident) -> None:
    """What holds the device is not let go for a rule that holds nothing."""
    await incident.fence(1)
    await incident.fence(2, shadow=True)
    assert not await incident.is_gone(1)


async def test_a_release_is_one_request_a_step(incident: Incident) -> None:
    """Finalizer off, deleted, read back gone; each step repeated is no second effect."""
    fenced = await incident.fence()
    await incident.say(1, fenced.uid, release=1)
    await incident.unlatch(fenced.uid)
    await incident.unlatch(fenced.uid)
    fence = await incident.get()
    assert not fence.latched
    assert fence.effect_key == f"{incident.target.effect_key('release', 1)}/unlatch"
    with pytest.raises(ApplicationError, match="still there, held by nothing") as caught:
        await incident.wait(fenced.uid)
    assert (caught.value.type, caught.value.category) == (WAITING, ApplicationErrorCategory.BENIGN)
    assert caught.value.next_retry_delay is not None
    await incident.delete(fenced.uid)
    assert await incident.is_gone()
    assert (await incident.delete(fenced.uid)).note == "already gone"
    assert (await incident.unlatch(fenced.uid)).note == "already gone"
    await incident.wait(fenced.uid)


async def test_a_release_that_is_called_off_holds_again(incident: Incident) -> None:
    """Fencing again under the same number puts the finalizer back, under the release's key."""
    fenced = await incident.fence()
    await incident.say(1, fenced.uid, release=1)
    await incident.unlatch(fenced.uid)
    assert await incident.fence(last_uid=fenced.uid) == fenced
    fence = await incident.get()
    assert fence.latched
    assert fence.effect_key == f"{incident.target.effect_key('release', 1)}/latch"


async def test_bad_news_after_the_delete_fences_anew(incident: Incident) -> None:
    """With the old uid still known, the next number is a new fence."""
    fenced = await incident.fence()
    await incident.say(1, fenced.uid, release=1)
    await incident.unlatch(fenced.uid)
    await incident.delete(fenced.uid)
    await incident.say(2, fenced.uid, release=1)
    again = await incident.fence(2, last_uid=fenced.uid)
    assert again.uid not in {"", fenced.uid}


async def test_a_release_that_was_cut_off_leaves_nothing(incident: Incident) -> None:
    """A new run takes the next number; the unlatched fence of the last one goes when the new one stands."""
    fenced = await incident.fence()
    await incident.say(1, fenced.uid, release=1)
    await incident.unlatch(fenced.uid)
    second = await incident.fence(2)
    assert [fence.uid for fence in await incident.fences.list(incident.target.device)] == [second.uid]


async def test_a_rule_of_others_in_the_clothes_of_an_older_fence_stays(
    sickbay: Installation, incident: Incident
) -> None:
    """Labels, name and finalizer may be copied from ours: what others keep the device for is theirs to end."""
    await incident.fence()
    path, name = sickbay.rules.path(), incident.name(2)
    copied = decode(await sickbay.admin.request("GET", sickbay.rules.path(name=incident.name())))
    metadata = {key: copied["metadata"][key] for key in ("labels", "annotations", "finalizers")}
    spec = copied["spec"] | {"taint": {"key": "maintenance.example.org/disk", "effect": "NoSchedule"}}
    body = copied | {"metadata": metadata | {"name": name}, "spec": spec}
    theirs = decode(await sickbay.admin.request("POST", path, body=body))
    await incident.fence(3)
    after = decode(await sickbay.admin.request("GET", sickbay.rules.path(name=name)))
    assert (after["metadata"]["uid"], after["spec"]) == (theirs["metadata"]["uid"], theirs["spec"])
    assert after["metadata"]["finalizers"] == metadata["finalizers"]
    assert "deletionTimestamp" not in after["metadata"]
    assert [fence.number for fence in await incident.fences.list(incident.target.device)] == [3]


async def test_a_fence_of_another_uid_is_not_lifted(incident: Incident) -> None:
    """No step touches a fence that is not the one meant, and a step without uid is refused for good."""
    await incident.fence()
    before = await incident.get()
    assert (await incident.unlatch("another")).note == "already gone"
    assert (await incident.delete("another")).note == "already gone"
    assert (await incident.wait("another")).note == "gone, another stands"
    assert (await incident.get()).uid == before.uid
    assert (await incident.get()).latched
    with pytest.raises(ApplicationError, match="lifted by uid") as caught:
        await incident.delete("")
    assert caught.value.non_retryable


async def test_who_is_superseded_touches_no_fence(sickbay: Installation, incident: Incident) -> None:
    """Every verb reads the record first."""
    fenced = await incident.fence()
    stranger = Incident(sickbay, incident.target.model_copy(update={"run": 2}))
    for attempt in (
        stranger.fence(2),
        stranger.unlatch(fenced.uid),
        stranger.delete(fenced.uid),
        stranger.wait(fenced.uid),
    ):
        with pytest.raises(ApplicationError) as caught:
            await attempt
        assert caught.value.type == SUPERSEDED
    assert await incident.is_gone(2)
    assert (await incident.get()).latched


async def test_a_held_fence_is_waited_for(sickbay: Installation, incident: Incident) -> None:
    """A finalizer of somebody else is named while it holds the fence."""
    fenced = await incident.fence()
    patch = {"metadata": {"finalizers": ["example.com/hold", "sickbay.dev/incident"]}}
    path = sickbay.rules.path(name=incident.name())
    await sickbay.gateway.request("PATCH", path, body=patch, content_type=MERGE_PATCH)
    await incident.unlatch(fenced.uid)
    await incident.delete(fenced.uid)
    await incident.delete(fenced.uid)
    with pytest.raises(ApplicationError, match=r"held by example\.com/hold"):
        await incident.wait(fenced.uid)
    await sickbay.gateway.request("PATCH", path, body={"metadata": {"finalizers": []}}, content_type=MERGE_PATCH)
    await incident.wait(fenced.uid)
    with pytest.raises(errors.NotFound):
        await incident.get()
