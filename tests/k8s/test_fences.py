"""Fences on a real API server: one device each, found again, held by their finalizer, lifted by uid."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8s.fences import DEVICE_LABEL, MANAGED_BY, MODE_ANNOTATION, Fences, Placed, exact, ours, read
from k8s.fences import READER as RULE
from k8s.gateway import MERGE_PATCH, decode
from k8s.resources import DEVICETAINTRULES, DEVICETAINTRULES_V1BETA2
from sickbay import errors
from sickbay.model.device import DeviceKey
from sickbay.model.record import (
    DEVICE_ANNOTATION,
    EFFECT_ANNOTATION,
    FINALIZER,
    INCIDENT_ANNOTATION,
    QUARANTINE_KEY,
    TERM_ANNOTATION,
)
from tests.installation import Installation, a_device
from tests.k8s.scripted import says, scripted

INCIDENT = "incident/lab/gpu.sickbay.dev/node-1/gpu-0/100"


async def put(sickbay: Installation, key: DeviceKey, number: int = 1, **changes: Any) -> Placed:
    """Put a fence as an incident does, and wait for the one status that Kubernetes writes on it."""
    base: dict[str, Any] = {"incident": INCIDENT, "effect_key": f"{key}/100/fence/{number}"}
    fences = Fences(sickbay.gateway)
    placed = await fences.put(key, number, **base | changes)
    await sickbay.settled(key.numbered(number))
    return replace(placed, fence=await fences.get(key.numbered(number)))


async def rule_of(sickbay: Installation, name: str) -> dict[str, Any]:
    """Read a rule as it is stored."""
    found: dict[str, Any] = decode(await sickbay.gateway.request("GET", sickbay.rules.path(name=name)))
    return found


async def test_a_fence_names_one_device_and_says_why(sickbay: Installation) -> None:
    """The stored rule has the whole selector, effect NoSchedule, our labels, annotations and finalizer."""
    key = a_device()
    placed = await put(sickbay, key, term=await sickbay.term())
    assert (placed.created, placed.matches, placed.terminating) == (True, True, False)
    rule = await rule_of(sickbay, key.numbered(1))
    assert rule["spec"]["deviceSelector"] == {"driver": key.driver, "pool": key.pool, "device": key.device}
    assert (rule["spec"]["taint"]["key"], rule["spec"]["taint"]["effect"]) == (QUARANTINE_KEY, "NoSchedule")
    assert rule["metadata"]["finalizers"] == [FINALIZER]
    assert rule["metadata"]["labels"] == {MANAGED_BY[0]: MANAGED_BY[1], DEVICE_LABEL: key.digest}
    assert rule["metadata"]["annotations"] == {
        DEVICE_ANNOTATION: str(key),
        INCIDENT_ANNOTATION: INCIDENT,
        EFFECT_ANNOTATION: f"{key}/100/fence/1",
        TERM_ANNOTATION: str(await sickbay.term()),
    }


async def test_a_second_put_finds_the_first(sickbay: Installation) -> None:
    """The same fence again is no write, whoever put it first."""
    key = a_device()
    first = await put(sickbay, key, term=await sickbay.term())
    again = await put(sickbay, key)
    assert (again.created, again.matches, again.fence) == (False, True, first.fence)


async def test_of_many_who_fence_one_does(sickbay: Installation) -> None:
    """A hundred puts at once, by the watcher and by activities, make one fence that all of them find."""
    key, fences, term = a_device(), Fences(sickbay.gateway), await sickbay.term()
    terms = [term, None] * 50
    placed = await asyncio.gather(*(fences.put(key, 1, incident="i", effect_key="e", term=t) for t in terms))
    assert sum(found.created for found in placed) == 1
    assert len({found.uid for found in placed}) == 1
    assert all(found.matches for found in placed)


async def test_a_number_that_is_taken_does_not_match(sickbay: Installation) -> None:
    """Another incident's fence under the name, or one of another effect, is told and left alone."""
    key = a_device()
    first = await put(sickbay, key)
    for other in ({"incident": "incident/other"}, {"shadow": True}):
        found = await put(sickbay, key, **other)
        assert (found.created, found.matches, found.fence) == (False, False, first.fence)


async def test_a_shadow_has_no_effect(sickbay: Installation) -> None:
    """A shadow is a rule of effect None that says so."""
    key = a_device()
    assert (await put(sickbay, key, shadow=True)).matches
    rule = await rule_of(sickbay, key.numbered(1))
    assert rule["spec"]["taint"]["effect"] == "None"
    assert rule["metadata"]["annotations"][MODE_ANNOTATION] == "shadow"


async def test_fences_are_listed_by_device(sickbay: Installation) -> None:
    """All numbers of one device, and all of ours; never a rule of others."""
    key, other = a_device(), a_device()
    await put(sickbay, key)
    await put(sickbay, key, 12)
    await put(sickbay, other)
    foreign = {
        "apiVersion": sickbay.rules.api_version,
        "kind": "DeviceTaintRule",
        "metadata": {"name": f"human-{key.device}"},
        "spec": {"deviceSelector": {"device": key.device}, "taint": {"key": "example.com/x", "effect": "NoSchedule"}},
    }
    answer = await sickbay.admin.request("POST", sickbay.rules.path(), body=foreign)
    assert not ours(RULE(answer).value)
    fences = Fences(sickbay.gateway)
    assert sorted(fence.number for fence in await fences.list(key)) == [1, 12]
    names = {fence.name for fence in await fences.list()}
    assert names >= {key.numbered(1), key.numbered(12), other.numbered(1)}
    assert f"human-{key.device}" not in names


async def test_a_fence_is_lifted_in_two_requests(sickbay: Installation) -> None:
    """The finalizer goes off under its effect key, then exactly that state of that uid is deleted; repeats are none."""
    key = a_device()
    placed = await put(sickbay, key)
    fences, name = Fences(sickbay.gateway), key.numbered(1)
    free = await fences.unlatch(name, placed.uid, f"{key}/100/release/1/unlatch")
    assert free is not None
    assert not free.latched
    assert (await rule_of(sickbay, name))["metadata"]["annotations"][EFFECT_ANNOTATION] == free.effect_key
    assert await fences.unlatch(name, placed.uid, "again") == free
    with pytest.raises(errors.Conflict):
        await fences.delete(name, placed.uid, placed.fence.resource_version)
    with pytest.raises(errors.Conflict):
        await fences.delete(name, "another uid", free.resource_version)
    await fences.delete(name, placed.uid, free.resource_version)
    await fences.delete(name, placed.uid, free.resource_version)
    assert await fences.unlatch(name, placed.uid, "again") is None


async def test_a_deleted_fence_holds_until_it_is_let_go(sickbay: Installation) -> None:
    """Deleted, it terminates with its finalizer on; taking that off is the end of it."""
    key = a_device()
    placed = await put(sickbay, key)
    fences, name = Fences(sickbay.gateway), key.numbered(1)
    await fences.delete(name, placed.uid, placed.fence.resource_version)
    again = await put(sickbay, key)
    assert (again.created, again.terminating, again.matches) == (False, True, True)
    await fences.unlatch(name, placed.uid, "key")
    with pytest.raises(errors.NotFound):
        await fences.get(name)


async def test_a_release_that_is_called_off_latches_again(sickbay: Installation) -> None:
    """The finalizer is put back on a standing fence, and on a terminating one nothing can be."""
    key = a_device()
    placed = await put(sickbay, key)
    fences, name = Fences(sickbay.gateway), key.numbered(1)
    assert await fences.latch(name, placed.uid, "key") == placed.fence
    await fences.unlatch(name, placed.uid, "key")
    latched = await fences.latch(name, placed.uid, "key")
    assert latched is not None
    assert latched.latched
    hold = {"metadata": {"finalizers": ["example.com/hold"]}}
    await sickbay.gateway.request("PATCH", sickbay.rules.path(name=name), body=hold, content_type=MERGE_PATCH)
    await fences.delete(name, placed.uid, (await fences.get(name)).resource_version)
    stuck = await fences.latch(name, placed.uid, "key")
    assert stuck is not None
    assert (stuck.latched, stuck.terminating) == (False, True)


async def test_another_uid_is_not_touched(sickbay: Installation) -> None:
    """A fence of the same name with another uid counts as gone; no uid at all is refused."""
    key = a_device()
    placed = await put(sickbay, key)
    fences, name = Fences(sickbay.gateway), key.numbered(1)
    assert await fences.unlatch(name, "another uid", "key") is None
    assert await fences.latch(name, "another uid", "key") is None
    assert await fences.get(name) == placed.fence
    with pytest.raises(ValueError, match="no uid was given"):
        await fences.unlatch(name, "", "key")


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"taint": {"effect": "NoSchedule"}}, "driver"),
        ({"deviceSelector": {}, "taint": {"effect": "NoSchedule"}}, "driver"),
        ({"deviceSelector": {"driver": "d"}, "taint": {"effect": "NoSchedule"}}, "pool"),
        (
            {"deviceSelector": {"driver": "d", "pool": "p", "device": ""}, "taint": {"effect": "NoSchedule"}},
            "device",
        ),
        (
            {"deviceSelector": {"driver": "d", "pool": "p", "device": "x"}, "taint": {"effect": "NoExecute"}},
            "NoExecute",
        ),
    ],
)
def test_what_names_more_than_one_device_is_never_sent(spec: dict[str, Any], why: str) -> None:
    """An absent, empty or partial selector is refused right before the request, and so is an effect that deletes."""
    with pytest.raises(ValueError, match=why):
        exact(spec)


PARTS = st.sampled_from(["", "*", "gpu-0"]) | st.text(max_size=4)


@given(PARTS, PARTS, PARTS)
async def test_no_input_makes_a_wider_fence(driver: str, pool: str, device: str) -> None:
    """Whatever the parts are, a fence sent names all three literally, or none is sent."""
    key = DeviceKey.model_construct(cluster="lab", driver=driver, pool=pool, device=device)
    sent: list[Any] = []

    class Recorder:
        server = "recorder"

        async def request(self, method: str, _: str, *, body: Any = None, **__: Any) -> bytes:
            if method == "GET":
                return b'{"resources": [{"name": "devicetaintrules"}]}'
            sent.append(body)
            raise errors.Invalid(status=422)

    with pytest.raises((ValueError, errors.Invalid)):
        await Fences(Recorder()).put(key, 1, incident="i", effect_key="e")  # type: ignore[arg-type]  # records only
    assert bool(sent) == bool(driver and pool and device)
    for body in sent:
        assert body["spec"]["deviceSelector"] == {"driver": driver, "pool": pool, "device": device}


async def test_a_cluster_without_rules_says_what_to_turn_on(tmp_path: Path) -> None:
    """Where no version is served the error names the gates; an older served version is used."""
    async with scripted(tmp_path) as (server, gateway):
        server.script += [says(404), says(404), says(404)]
        with pytest.raises(errors.UsageError, match="DRADeviceTaintRules"):
            await Fences(gateway).list()
        server.script += [says(404), says(200, {"resources": [{"name": "devicetaintrules"}]}), says(200, {"items": []})]
        assert await Fences(gateway).list() == ()
        assert server.asked[-1].path == DEVICETAINTRULES_V1BETA2.path()


@pytest.mark.parametrize("path", ["/apis/resource.k8s.io/v9/devicetaintrules/x", "/apis/none.sickbay.dev/v1/none/x"])
async def test_a_missing_type_is_told_from_a_missing_object(sickbay: Installation, path: str) -> None:
    """A real API server names an object that it does not have, and no object of a type that it does not serve."""
    with pytest.raises(errors.NotFound) as unserved:
        await sickbay.admin.request("GET", path)
    with pytest.raises(errors.NotFound) as missing:
        await sickbay.admin.request("GET", sickbay.rules.path(name="x"))
    assert (unserved.value.name, missing.value.name) == ("", "x")


async def test_a_version_that_is_no_longer_served_is_no_missing_fence(tmp_path: Path) -> None:
    """After an upgrade of the cluster a fence is not taken for gone: the version is looked up again. Scripted."""
    found = {"resources": [{"name": "devicetaintrules"}]}
    missing = {"kind": "Status", "reason": "NotFound", "details": {"name": "sickbay-x-1"}}
    async with scripted(tmp_path) as (server, gateway):
        fences = Fences(gateway)
        server.script += [says(404), says(200, found), says(404, "404 page not found")]
        with pytest.raises(errors.ClusterUnavailable, match="not served"):
            await fences.unlatch("sickbay-x-1", "uid", "key")
        server.script += [says(200, found), says(404, missing)]
        assert await fences.unlatch("sickbay-x-1", "uid", "key") is None
        assert server.asked[-1].path == DEVICETAINTRULES.path(name="sickbay-x-1")


async def test_a_selector_that_the_server_changed_does_not_match(tmp_path: Path) -> None:
    """What a mutating webhook made of a fence is seen in the answer: scripted, as the lab has none."""
    key = a_device()
    stored = {
        "metadata": {"name": key.numbered(1), "uid": "u", "annotations": {INCIDENT_ANNOTATION: INCIDENT}},
        "spec": {"deviceSelector": {"driver": key.driver}, "taint": {"key": QUARANTINE_KEY, "effect": "NoSchedule"}},
    }
    async with scripted(tmp_path) as (server, gateway):
        server.script += [says(200, {"resources": [{"name": "devicetaintrules"}]}), says(201, stored)]
        placed = await Fences(gateway).put(key, 1, incident=INCIDENT, effect_key="e")
    assert (placed.created, placed.matches) == (True, False)
    assert placed.fence.selector == (key.driver, "", "")


def test_a_rule_without_anything_is_read() -> None:
    """A rule whose selector and annotations are gone reads as a fence that matches nothing."""
    rule = RULE(b'{"metadata": {"name": "odd"}, "spec": {"taint": {"key": "sickbay.dev/quarantine"}}}').value
    fence = read(rule)
    assert (fence.number, fence.selector, fence.device) == (0, ("", "", ""), "")
    assert not ours(rule)
