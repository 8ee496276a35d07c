"""A device that is given up, from the command line to the pool, on a real cluster with a real Temporal."""

from __future__ import annotations

import pytest

from k8s.gateway import decode
from k8s.impersonation import impersonating
from k8s.probe_objects import PROBE_NAMESPACE
from k8s.resources import PODS
from sickbay import errors
from sickbay.cli.disown import give_up
from sickbay.model.command import CommandVerb
from sickbay.model.record import Phase, Record
from tests.installation import BREAK_GLASS, OPERATORS
from tests.k8s import cluster
from tests.stories.scene import Scene
from tests.stories.test_commands import ann, handle_of, paused_by

pytestmark = pytest.mark.lab


@pytest.mark.soak
async def test_a_bad_device_is_given_up(scene: Scene) -> None:
    """In use, paused and still bad: it goes back by the ordinary order, and stays there until something new is said."""
    seat = await scene.lone_pod("urgent")
    await scene.breaks(seat, for_good=True)
    record = await scene.reaches(seat, Phase.NEEDS_OPERATOR)
    async with ann(scene) as who:
        await who.says(CommandVerb.PAUSE, record.name)
        await paused_by(scene, seat)
        with pytest.raises(errors.Forbidden):
            await give_up(who.gateway, record.name, None, "the release depends on it")
    async with impersonating(scene.ward.lab.gateway, "eve", BREAK_GLASS) as eve:
        assert "given up by eve" in await give_up(eve, record.name, None, "the release depends on it")
        after = await scene.reaches(seat, Phase.DISOWNED)
        with pytest.raises(errors.UsageError, match="already closed"):
            await give_up(eve, record.name, None, "once more")
    past = after.status.history[-1]
    assert (past.outcome, past.by, past.why) == (Phase.DISOWNED, "eve", "the release depends on it")
    assert after.status.counters.probe == 0
    assert seat.key.numbered(1) not in await scene.ward.fences()
    report = await (await handle_of(scene, record)).result()
    assert report["outcome"] == "Disowned"
    assert any("given up by eve" in line["text"] for line in report["timeline"])
    # Another incident's whole life: time in which the leader would have opened one for what is still said.
    other = await scene.lone_pod("calm")
    await scene.breaks(other)
    await scene.delete("calm")
    await scene.released(other)
    assert (await scene.seat("urgent")).uid == seat.uid
    same = await scene.record(seat)
    assert same is not None
    assert (same.spec.incident, same.status.phase) == (record.spec.incident, Phase.DISOWNED)
    # Something new: the next incident, which nobody has given up.
    fleet = scene.ward.lab.fleet
    await fleet.heal(seat.key.pool, seat.key.device)
    await scene.breaks(seat)

    async def another() -> Record | None:
        now = await scene.record(seat)
        return now if now is not None and now.spec.incident != record.spec.incident else None

    await cluster.until(another, within=60)
    again = await scene.reaches(seat, Phase.NEEDS_OPERATOR)
    assert again.disowned is None
    async with impersonating(scene.ward.lab.gateway, "ann", OPERATORS) as operator:
        with pytest.raises(errors.Forbidden):
            await give_up(operator, again.name, None, "as last time")
    await scene.delete("urgent")
    await scene.released(seat)


async def test_a_device_that_is_being_tried_is_given_up(scene: Scene) -> None:
    """The probe is removed before the fence, and nothing of ours is left."""
    seat = await scene.lone_pod("impatient")
    await scene.breaks(seat, for_good=True)
    await scene.delete("impatient")
    record = await scene.reaches(seat, Phase.PROBING)
    async with impersonating(scene.ward.lab.gateway, "eve", BREAK_GLASS) as eve:
        await give_up(eve, record.name, None, "reseated by hand")

    async def over() -> Record | None:
        now = await scene.record(seat)
        return now if now is not None and now.closed and not now.finalizers else None

    after = await cluster.until(over, within=60)
    assert after.status.phase is Phase.DISOWNED
    assert not [name for name in await scene.ward.fences() if name.startswith(after.name)]
    pods = decode(await scene.ward.lab.gateway.request("GET", PODS.path(PROBE_NAMESPACE)))["items"]
    assert not [pod for pod in pods if pod["metadata"]["name"].startswith(after.name)]
