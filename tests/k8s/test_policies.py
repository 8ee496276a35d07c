"""Each admission policy on a real API server: a right object passes, a wrong one is refused with 403 and a remedy.

Right objects are created as dry runs where nothing has to be there afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from k8s.fences import Fences
from k8s.gateway import MERGE_PATCH, Gateway, decode
from k8s.records import Records
from k8s.resources import (
    DEVICEQUARANTINES,
    RESOURCECLAIMS,
    RESOURCECLAIMTEMPLATES,
    VALIDATINGADMISSIONPOLICIES,
)
from sickbay import errors
from sickbay.model.device import DeviceKey
from sickbay.model.record import Phase, RecordStatus
from tests.installation import BREAK_GLASS, OPERATORS, Installation, a_device, record_spec
from tests.k8s import cluster

PERSON = "ada"
DRY: Mapping[str, str] = {"dryRun": "All"}


def a_record(key: DeviceKey, **changes: Any) -> dict[str, Any]:
    """Build a record on the wire; a change of None removes the field."""
    spec = record_spec(key).model_dump(mode="json", by_alias=True, exclude_none=True) | changes
    return {
        "apiVersion": DEVICEQUARANTINES.api_version,
        "kind": "DeviceQuarantine",
        "metadata": {"name": key.record_name},
        "spec": {name: value for name, value in spec.items() if value is not None},
    }


def a_fence(sickbay: Installation, key: DeviceKey, **changes: Any) -> dict[str, Any]:
    """Build a right fence on the wire, but for `changes`: selector, taint, labels or annotations."""
    metadata = {
        "name": key.numbered(1),
        "labels": {"app.kubernetes.io/managed-by": "sickbay", "sickbay.dev/device": key.digest},
        "annotations": {},
    }
    return {
        "apiVersion": sickbay.rules.api_version,
        "kind": "DeviceTaintRule",
        "metadata": metadata | {k: v for k, v in changes.items() if k in metadata},
        "spec": {
            "deviceSelector": changes.get("selector", {"driver": key.driver, "pool": key.pool, "device": key.device}),
            "taint": {"key": "sickbay.dev/quarantine", "effect": "NoSchedule"} | changes.get("taint", {}),
        },
    }


async def create_record(gateway: Gateway, body: dict[str, Any]) -> None:
    """Try to create a record."""
    await gateway.request("POST", DEVICEQUARANTINES.path(), body=body, params=DRY)


async def create_fence(sickbay: Installation, gateway: Gateway, body: dict[str, Any]) -> None:
    """Try to create a fence."""
    await gateway.request("POST", sickbay.rules.path(), body=body, params=DRY)


async def patch_fence(sickbay: Installation, gateway: Gateway, name: str, patch: dict[str, Any]) -> None:
    """Try to change a fence."""
    await gateway.request("PATCH", sickbay.rules.path(name=name), body=patch, params=DRY, content_type=MERGE_PATCH)


async def test_expressions_are_well_typed(sickbay: Installation) -> None:
    """The API server's own type check of every expression finds nothing."""
    async with asyncio.timeout(30):
        while True:
            answer = await sickbay.admin.request("GET", VALIDATINGADMISSIONPOLICIES.path())
            ours = [item for item in decode(answer)["items"] if item["metadata"]["name"].startswith("sickbay-")]
            if all("typeChecking" in item.get("status", {}) for item in ours):
                break
    assert len(ours) == 6
    assert [item["status"]["typeChecking"].get("expressionWarnings") for item in ours] == [None] * 6


# --- records ----------------------------------------------------------------------------------------------------------


async def test_a_new_term_refuses_the_old_one(sickbay: Installation) -> None:
    """A leader's creates and spec writes pass in its term, and are refused once another one leads."""
    old = await sickbay.lead()
    records, key = Records(sickbay.gateway), a_device()
    record = await records.create(key, record_spec(key, term=old))
    record = await records.write_spec(record, record.spec.model_copy(update={"message": "worse"}))
    new = await sickbay.lead()
    with pytest.raises(errors.Forbidden, match="another process leads"):
        await create_record(sickbay.gateway, a_record(a_device(), term=old))
    with pytest.raises(errors.Forbidden, match="another process leads"):
        await records.write_spec(record, record.spec.model_copy(update={"message": "worse still"}))
    with pytest.raises(errors.Forbidden, match="another process leads"):
        await create_record(sickbay.gateway, a_record(key, term=None))
    after = await records.write_spec(record, record.spec.model_copy(update={"message": "worse still", "term": new}))
    assert after.spec.term == new


async def test_what_is_no_decision_needs_no_term(sickbay: Installation) -> None:
    """Status and finalizer of a record stay the incident's, whoever leads."""
    term = await sickbay.lead()
    records, key = Records(sickbay.gateway), a_device()
    record = await records.create(key, record_spec(key, term=term))
    await sickbay.lead()
    record = await records.write_status(record, RecordStatus(incident="i", run=1, phase=Phase.QUARANTINED))
    record = await records.unlatch(record, "close")
    await records.delete(record)


async def test_only_sickbay_changes_records(sickbay: Installation) -> None:
    """An administrator is refused create, change, status and delete; each refusal names the way out."""
    term, key = await sickbay.term(), a_device()
    record = await Records(sickbay.gateway).create(key, record_spec(key, term=term))
    path = DEVICEQUARANTINES.path(name=record.name)
    status = DEVICEQUARANTINES.path(name=record.name, subresource="status")
    with pytest.raises(errors.Forbidden, match="break-glass"):
        await create_record(sickbay.admin, a_record(a_device(), term=term))
    for where, patch in (
        (path, {"spec": {"message": "x"}}),
        (path, {"metadata": {"finalizers": []}}),
        (status, {"status": {"phase": "Released"}}),
    ):
        with pytest.raises(errors.Forbidden, match="let its probe pass"):
            await sickbay.admin.request("PATCH", where, body=patch, content_type=MERGE_PATCH)
    with pytest.raises(errors.Forbidden, match="let its probe pass"):
        await sickbay.admin.request("DELETE", path)
    with pytest.raises(errors.Forbidden, match="let its probe pass"):
        await sickbay.admin.request("DELETE", DEVICEQUARANTINES.path())


async def test_break_glass_may_change_and_delete_records(sickbay: Installation) -> None:
    """The emergency group passes, without a term."""
    key = a_device()
    record = await Records(sickbay.gateway).create(key, record_spec(key, term=await sickbay.term()))
    path = DEVICEQUARANTINES.path(name=record.name)
    async with sickbay.as_user(PERSON, BREAK_GLASS) as person:
        patch = {"spec": {"message": "by hand"}, "metadata": {"finalizers": []}}
        await person.request("PATCH", path, body=patch, content_type=MERGE_PATCH)
        await person.request("DELETE", path)


async def test_operators_create_in_their_own_name(sickbay: Installation) -> None:
    """An operator needs no term but its own name, may admit in person, and changes nothing afterwards."""
    key = a_device()
    async with sickbay.as_user(PERSON, OPERATORS) as person:
        await create_record(person, a_record(key, actor=PERSON, term=0))
        await create_record(person, a_record(key, actor=PERSON, admission={"state": "Admitted", "by": PERSON}))
        with pytest.raises(errors.Forbidden, match=r"set spec\.actor"):
            await create_record(person, a_record(key, actor="somebody"))
        with pytest.raises(errors.Forbidden, match=r"set spec\.actor"):
            await create_record(person, a_record(key, actor=None))
        with pytest.raises(errors.Forbidden, match=r"set spec\.admission\.by"):
            await create_record(person, a_record(key, actor=PERSON, admission={"state": "Admitted", "by": "guard"}))
        await person.request("POST", DEVICEQUARANTINES.path(), body=a_record(key, actor=PERSON))
        with pytest.raises(errors.Forbidden):
            await person.request(
                "PATCH",
                DEVICEQUARANTINES.path(name=key.record_name),
                body={"spec": {"message": "x"}},
                content_type=MERGE_PATCH,
            )
    async with sickbay.as_user(PERSON) as nobody:
        with pytest.raises(errors.Forbidden):
            await create_record(nobody, a_record(key, actor=PERSON))


async def test_operators_take_over_what_has_ended(sickbay: Installation) -> None:
    """The record of an ended incident may become another's, in their own name; anything else of it stays refused."""
    key, records = a_device(), Records(sickbay.gateway)
    record = await records.create(key, record_spec(key, term=await sickbay.term()))
    path = DEVICEQUARANTINES.path(name=record.name)
    status = RecordStatus(incident=record.spec.incident, run=1, phase=Phase.QUARANTINED)
    over = {"spec": {"incident": key.incident_id("person-1"), "statusVersion": "person-1", "actor": PERSON, "term": 0}}

    async def try_to(person: Gateway, patch: dict[str, Any]) -> None:
        await person.request("PATCH", path, body=patch, params=DRY, content_type=MERGE_PATCH)

    async with sickbay.as_user(PERSON, OPERATORS) as person:
        record = await records.write_status(record, status)
        with pytest.raises(errors.Forbidden, match="has ended"):
            await try_to(person, over)
        record = await records.write_status(record, status.model_copy(update={"phase": Phase.RETIRED}))
        with pytest.raises(errors.Forbidden, match="has ended"):
            await try_to(person, over)
        await records.write_status(record, status.model_copy(update={"phase": Phase.RELEASED}))
        await try_to(person, over)
        with pytest.raises(errors.Forbidden, match=r"set spec\.actor"):
            await try_to(person, {"spec": over["spec"] | {"actor": "somebody"}})
        with pytest.raises(errors.Forbidden, match=r"set spec\.admission\.by"):
            await try_to(person, {"spec": over["spec"] | {"admission": {"state": "Admitted", "by": "guard"}}})
        others: tuple[dict[str, Any], ...] = ({"spec": {"message": "x"}}, {"metadata": {"finalizers": []}})
        for other in others:
            with pytest.raises(errors.Forbidden, match="has ended"):
                await try_to(person, other)
        with pytest.raises(errors.Forbidden):
            await person.request("DELETE", path, params=DRY)


# --- fences -----------------------------------------------------------------------------------------------------------


async def test_a_fence_put_on_sight_carries_the_term(sickbay: Installation) -> None:
    """A fence of the term in force passes, one of an earlier term is refused, one of an incident carries none."""
    old = await sickbay.lead()
    key = a_device()

    def termed(term: int) -> dict[str, Any]:
        return a_fence(sickbay, key, annotations={"sickbay.dev/term": str(term)})

    await create_fence(sickbay, sickbay.gateway, termed(old))
    new = await sickbay.lead()
    with pytest.raises(errors.Forbidden, match="another process leads"):
        await create_fence(sickbay, sickbay.gateway, termed(old))
    await create_fence(sickbay, sickbay.gateway, termed(new))
    await create_fence(sickbay, sickbay.gateway, a_fence(sickbay, key))


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        ({"selector": None}, "names one device"),
        ({"selector": {}}, "names one device"),
        ({"selector": {"driver": "gpu.sickbay.dev"}}, "names one device"),
        ({"selector": {"driver": "gpu.sickbay.dev", "pool": "node-1"}}, "names one device"),
        ({"selector": {"pool": "node-1", "device": "gpu-1"}}, "names one device"),
        ({"taint": {"key": "sickbay.dev/other"}}, "use a key of your own"),
        ({"taint": {"effect": "NoExecute"}}, "NoExecute would delete pods"),
        ({"taint": {"effect": "None"}}, "sickbay.dev/mode=shadow"),
        ({"taint": {"effect": "NoExecute"}, "annotations": {"sickbay.dev/mode": "shadow"}}, "NoExecute would"),
        ({"labels": {}}, "carries the labels"),
        ({"labels": {"app.kubernetes.io/managed-by": "sickbay"}}, "carries the labels"),
    ],
)
async def test_a_wrong_fence_is_refused_even_from_us(
    sickbay: Installation, changes: dict[str, Any], remedy: str
) -> None:
    """Every part of a fence that could widen or hide it is checked, whoever sends it."""
    for gateway in (sickbay.gateway, sickbay.admin):
        with pytest.raises(errors.Forbidden, match=remedy):
            await create_fence(sickbay, gateway, a_fence(sickbay, a_device(), **changes))


async def test_a_shadow_may_have_no_effect(sickbay: Installation) -> None:
    """Effect None passes with the annotation that says why."""
    shadow = a_fence(sickbay, a_device(), taint={"effect": "None"}, annotations={"sickbay.dev/mode": "shadow"})
    await create_fence(sickbay, sickbay.gateway, shadow)


async def test_a_fence_never_changes_into_another(sickbay: Installation) -> None:
    """Selector, effect, key and labels stay as they are, for us too; only quarantine may become ramp."""
    key = a_device()
    name = key.numbered(1)
    await Fences(sickbay.gateway).put(key, 1, incident="i", effect_key="e")
    await patch_fence(sickbay, sickbay.gateway, name, {"spec": {"taint": {"key": "sickbay.dev/ramp"}}})
    for patch, remedy in (
        ({"spec": {"deviceSelector": None}}, "names one device"),
        ({"spec": {"deviceSelector": {"device": "gpu-other"}}}, "keeps its spec.deviceSelector"),
        ({"spec": {"taint": {"key": "example.com/mine"}}}, "use a key of your own"),
        ({"spec": {"taint": {"effect": "NoExecute"}}}, "NoExecute would delete pods"),
        (
            {"spec": {"taint": {"effect": "None"}}, "metadata": {"annotations": {"sickbay.dev/mode": "shadow"}}},
            "keeps its effect",
        ),
        ({"metadata": {"labels": None}}, "carries the labels"),
    ):
        with pytest.raises(errors.Forbidden, match=remedy):
            await patch_fence(sickbay, sickbay.gateway, name, patch)


async def test_only_sickbay_lifts_a_fence(sickbay: Installation) -> None:
    """An administrator can neither delete a fence, nor all of them, nor take its finalizer off; break-glass can."""
    key = a_device()
    await Fences(sickbay.gateway).put(key, 1, incident="i", effect_key="e")
    name = key.numbered(1)
    path = sickbay.rules.path(name=name)
    with pytest.raises(errors.Forbidden, match="let its probe pass"):
        await sickbay.admin.request("DELETE", path)
    with pytest.raises(errors.Forbidden, match="let its probe pass"):
        await sickbay.admin.request("DELETE", sickbay.rules.path())
    with pytest.raises(errors.Forbidden, match="let its probe pass"):
        await patch_fence(sickbay, sickbay.admin, name, {"metadata": {"finalizers": []}})
    async with sickbay.as_user(PERSON, BREAK_GLASS) as person:
        await person.request("PATCH", path, body={"metadata": {"finalizers": []}}, content_type=MERGE_PATCH)
        await person.request("DELETE", path)


async def test_rules_of_others_are_theirs(sickbay: Installation) -> None:
    """A rule with another key is created, widened and deleted by whoever may."""
    name = f"human-{a_device().device}"
    body = {
        "apiVersion": sickbay.rules.api_version,
        "kind": "DeviceTaintRule",
        "metadata": {"name": name},
        "spec": {"deviceSelector": {"device": name}, "taint": {"key": "example.com/x", "effect": "NoExecute"}},
    }
    await sickbay.admin.request("POST", sickbay.rules.path(), body=body)
    await patch_fence(sickbay, sickbay.admin, name, {"spec": {"deviceSelector": {"device": "other"}}})
    with pytest.raises(errors.Forbidden):
        await patch_fence(sickbay, sickbay.admin, name, {"spec": {"taint": {"key": "sickbay.dev/quarantine"}}})
    await sickbay.admin.request("DELETE", sickbay.rules.path(name=name))


# --- claims -----------------------------------------------------------------------------------------------------------

QUARANTINE = {"key": "sickbay.dev/quarantine", "operator": "Exists", "effect": "NoSchedule"}
WILDCARD = {"operator": "Exists"}
WILDCARD_NO_EXECUTE = {"operator": "Exists", "effect": "NoExecute"}
FOREIGN = {"key": "example.com/x", "operator": "Exists"}


def requests(*tolerations: dict[str, str], first_available: bool = False, admin: bool = False) -> list[dict[str, Any]]:
    """Build one request with these tolerations, after one without any."""
    wanted: dict[str, Any] = {"deviceClassName": "sickbay-probe", "tolerations": list(tolerations)}
    plain = {"name": "plain", "exactly": {"deviceClassName": "sickbay-probe"}}
    if first_available:
        return [plain, {"name": "gpu", "firstAvailable": [{"name": "alt", **wanted}]}]
    return [plain, {"name": "gpu", "exactly": wanted | ({"adminAccess": True} if admin else {})}]


async def create_claim(
    sickbay: Installation, requests: list[dict[str, Any]], *, template: bool = False, namespace: str = "default"
) -> None:
    """Try to create a claim, or a template of one."""
    spec: dict[str, Any] = {"devices": {"requests": requests}}
    resource = RESOURCECLAIMTEMPLATES if template else RESOURCECLAIMS
    body = {
        "apiVersion": resource.api_version,
        "kind": "ResourceClaimTemplate" if template else "ResourceClaim",
        "metadata": {"name": "claim"},
        "spec": {"spec": spec} if template else spec,
    }
    await sickbay.admin.request("POST", resource.path(namespace), body=body, params=DRY)


@pytest.mark.parametrize("template", [False, True])
@pytest.mark.parametrize("first_available", [False, True])
async def test_only_probes_ask_for_a_fenced_device(
    sickbay: Installation, *, template: bool, first_available: bool
) -> None:
    """A toleration of our key, or of every key, passes in the probe namespace alone; others pass everywhere."""
    for wanted, remedy in ((QUARANTINE, "remove the toleration"), (WILDCARD, "name the keys")):
        asked = requests(wanted, first_available=first_available)
        with pytest.raises(errors.Forbidden, match=remedy):
            await create_claim(sickbay, asked, template=template)
        await create_claim(sickbay, asked, template=template, namespace="sickbay-probe")
    harmless = requests(FOREIGN, WILDCARD_NO_EXECUTE, first_available=first_available)
    await create_claim(sickbay, harmless, template=template)
    await create_claim(sickbay, requests(first_available=first_available), template=template)


@pytest.mark.parametrize("template", [False, True])
async def test_only_namespaces_that_opted_in_ask_for_a_device_that_comes_back(
    sickbay: Installation, *, template: bool
) -> None:
    """The key of a ramp is tolerated where the namespace has the label."""
    body = {"metadata": {"generateName": "ramp-"}}
    made = decode(await sickbay.admin.request("POST", "/api/v1/namespaces", body=body))
    namespace = made["metadata"]["name"]
    asked = requests({"key": "sickbay.dev/ramp", "operator": "Exists", "effect": "NoSchedule"})
    with pytest.raises(errors.Forbidden, match="label the namespace"):
        await create_claim(sickbay, asked, template=template, namespace=namespace)
    label = {"metadata": {"labels": {"sickbay.dev/ramp": "allowed"}}}
    await sickbay.admin.request("PATCH", f"/api/v1/namespaces/{namespace}", body=label, content_type=MERGE_PATCH)

    async def allowed() -> bool:
        try:
            await create_claim(sickbay, asked, template=template, namespace=namespace)
        except errors.Forbidden:  # the policy reads namespaces from a cache
            return False
        return True

    await cluster.until(allowed)


async def test_an_observer_may_tolerate_everything(sickbay: Installation) -> None:
    """Admin access looks at devices and uses none: a wildcard passes there, our own key does not."""
    label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    await sickbay.admin.request("PATCH", "/api/v1/namespaces/default", body=label, content_type=MERGE_PATCH)
    await create_claim(sickbay, requests(WILDCARD, admin=True))
    with pytest.raises(errors.Forbidden, match="remove the toleration"):
        await create_claim(sickbay, requests(QUARANTINE, admin=True))
