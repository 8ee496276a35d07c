"""Records on a real API server: what is written, what a race refuses, what cannot be read."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic.alias_generators import to_camel

from k8s import records as module
from k8s.gateway import MERGE_PATCH, decode
from k8s.install import manifests
from k8s.reading import Undecodable
from k8s.records import Records
from k8s.resources import DEVICEQUARANTINES
from sickbay import errors
from sickbay.model.base import Wire
from sickbay.model.device import DeviceKey
from sickbay.model.record import (
    DEVICE_ANNOTATION,
    EFFECT_ANNOTATION,
    FINALIZER,
    Admission,
    AdmissionState,
    Closed,
    Condition,
    Counters,
    FenceRef,
    PastIncident,
    PauseOrder,
    Phase,
    Record,
    RecordSource,
    RecordSpec,
    RecordStatus,
    SeenSource,
    StandingOrders,
)
from sickbay.model.trace import TRACE_ANNOTATION, trace_id
from tests.builders import NOW
from tests.installation import Installation, a_device, record_spec
from tests.k8s.scripted import says, scripted

FULL_STATUS = RecordStatus(
    incident="incident/x",
    run=2,
    phase=Phase.PROBING,
    verified=True,
    counters=Counters(fence=1, probe=2, release=0),
    fence=FenceRef(name="sickbay-x-1", uid="fence-1"),
    hardware_id="GPU-1",
    expires_at=NOW,
    orders=StandingOrders(pause=PauseOrder(by="ann", since=NOW, until=NOW), kept_until=NOW, retiring="bob: worn"),
    conditions=(Condition(type="NeedsOperator", reason="X", message="do y", last_transition_time=NOW),),
    closed=Closed(at=NOW, outcome=Phase.RELEASED, seen=(SeenSource(uid="pod-1", resource_version="7"),)),
    history=(PastIncident(incident="incident/w", outcome=Phase.CLEARED, opened_at=NOW, closed_at=NOW),),
    overruled=(SeenSource(uid="pod-1", digest="abc"),),
)


async def created(sickbay: Installation, key: DeviceKey | None = None, **changes: Any) -> tuple[Records, Record]:
    """Create a record in the term in force."""
    key = key or a_device()
    records = Records(sickbay.gateway)
    return records, await records.create(key, record_spec(key, term=await sickbay.term(), **changes))


async def test_what_is_created_is_read_back(sickbay: Installation) -> None:
    """Every field of a spec survives the API server, and metadata tells device, finalizer and effect."""
    key = a_device(device="GPU é/0:1")
    source = RecordSource(kind="Pod", namespace="team", name="train-0", uid="pod-1", resource_version="100")
    admission = Admission(
        state=AdmissionState.ADMITTED, by="guard", at=NOW + timedelta(microseconds=5), numbers="1 of 8"
    )
    spec = record_spec(
        key, term=await sickbay.term(), hardware_id="GPU-1", sources=(source,), admission=admission, namespace_id="t"
    )
    records = Records(sickbay.gateway)
    record = await records.create(key, spec)
    assert record.spec == spec
    assert record.spec.key == key
    assert await records.get(key.record_name) == record
    metadata = decode(await sickbay.gateway.request("GET", DEVICEQUARANTINES.path(name=key.record_name)))["metadata"]
    assert metadata["finalizers"] == [FINALIZER]
    assert metadata["annotations"] == {
        DEVICE_ANNOTATION: str(key),
        EFFECT_ANNOTATION: f"{key}/100/record/1",
        TRACE_ANNOTATION: trace_id(spec.incident),
    }


async def test_a_device_has_one_record(sickbay: Installation) -> None:
    """A second create is told that the record exists."""
    records, record = await created(sickbay)
    with pytest.raises(errors.AlreadyExists):
        await records.create(record.spec.key, record.spec)


async def test_of_many_creators_one_wins(sickbay: Installation) -> None:
    """A hundred creates at once make one record; everybody else is told that it exists."""
    key = a_device()
    spec = record_spec(key, term=await sickbay.term())
    records = Records(sickbay.gateway)

    lost = 0

    async def answered() -> Record | None:
        nonlocal lost
        while True:
            try:
                return await records.create(key, spec)
            except errors.AlreadyExists:
                return None
            except errors.ClusterUnavailable:
                lost += 1  # a busy machine gave no answer in time: the record may be there by now

    won = [record for record in await asyncio.gather(*(answered() for _ in range(100))) if record is not None]
    assert len(won) == 1 or (lost and not won)
    assert (await records.get(key.record_name)).spec.incident == spec.incident


async def test_a_type_that_is_not_served_is_no_missing_record(tmp_path: Path) -> None:
    """Without the CRD nothing is known of any record, and the remedy is named: scripted, as the lab has it."""
    async with scripted(tmp_path) as (server, gateway):
        server.script += [says(404, "404 page not found")] * 2
        with pytest.raises(errors.UsageError, match="run 'sickbay install'"):
            await Records(gateway).get("sickbay-x")
        with pytest.raises(errors.UsageError, match="run 'sickbay install'"):
            await Records(gateway).list()


async def test_a_record_is_of_its_device(sickbay: Installation) -> None:
    """Neither a create nor a write can name another device, and the API server would refuse it."""
    records, record = await created(sickbay)
    other = record_spec(a_device())
    with pytest.raises(ValueError, match="with the spec of"):
        await records.create(record.spec.key, other)
    with pytest.raises(ValueError, match="with the spec of"):
        await records.write_spec(record, other)
    patch = {"spec": {"device": {"device": "gpu-other"}}}
    with pytest.raises(errors.Invalid, match="of one device for ever"):
        await sickbay.gateway.request(
            "PATCH", DEVICEQUARANTINES.path(name=record.name), body=patch, content_type=MERGE_PATCH
        )


async def test_only_what_differs_is_written(sickbay: Installation) -> None:
    """An equal spec or status is no request; a changed one leaves the other half alone."""
    records, record = await created(sickbay)
    assert await records.write_spec(record, record.spec) is record
    with_status = await records.write_status(record, FULL_STATUS)
    assert with_status.status == FULL_STATUS
    assert with_status.spec == record.spec
    assert await records.write_status(with_status, FULL_STATUS) is with_status
    admitted = record.spec.model_copy(update={"admission": Admission(state=AdmissionState.ADMITTED, by="guard")})
    after = await records.write_spec(with_status, admitted)
    assert (after.spec, after.status) == (admitted, FULL_STATUS)


async def test_a_status_is_taken_back(sickbay: Installation) -> None:
    """What a new status lacks is removed."""
    records, record = await created(sickbay)
    record = await records.write_status(record, FULL_STATUS)
    bare = RecordStatus(incident="incident/y", run=1, phase=Phase.SUSPECT, counters=FULL_STATUS.counters)
    assert (await records.write_status(record, bare)).status == bare


async def test_a_lost_race_is_a_conflict(sickbay: Installation) -> None:
    """Whoever decided on an older state is refused, for spec, status and finalizer."""
    records, record = await created(sickbay)
    await records.write_status(record, RecordStatus(incident="a", run=1, phase=Phase.SUSPECT))
    with pytest.raises(errors.Conflict):
        await records.write_status(record, FULL_STATUS)
    with pytest.raises(errors.Conflict):
        await records.write_spec(record, record.spec.model_copy(update={"message": "x"}))
    with pytest.raises(errors.Conflict):
        await records.unlatch(record, "key")


async def test_counters_never_fall(sickbay: Installation) -> None:
    """The API server itself keeps a number from naming two effects."""
    records, record = await created(sickbay)
    record = await records.write_status(record, FULL_STATUS)
    fewer = FULL_STATUS.model_copy(update={"counters": Counters(fence=1, probe=1, release=0)})
    with pytest.raises(errors.Invalid, match="they only grow"):
        await records.write_status(record, fewer)


async def test_a_closed_record_goes_and_comes_back(sickbay: Installation) -> None:
    """Its finalizer goes off with the end, and comes back in the very write that takes it over."""
    records, record = await created(sickbay)
    key = record.spec.key
    record = await records.unlatch(record, f"{key}/100/close/1")
    assert record.finalizers == ()
    assert await records.unlatch(record, "again") is record
    metadata = decode(await sickbay.gateway.request("GET", DEVICEQUARANTINES.path(name=record.name)))["metadata"]
    assert metadata["annotations"][EFFECT_ANNOTATION] == f"{key}/100/close/1"
    taken = record.spec.model_copy(update={"incident": key.incident_id("200"), "status_version": "200"})
    record = await records.write_spec(record, taken)
    assert record.finalizers == (FINALIZER,)
    metadata = decode(await sickbay.gateway.request("GET", DEVICEQUARANTINES.path(name=record.name)))["metadata"]
    assert metadata["annotations"][EFFECT_ANNOTATION] == f"{key}/200/record/1"
    assert metadata["annotations"][TRACE_ANNOTATION] == trace_id(key.incident_id("200"))


async def test_only_exactly_what_was_read_is_deleted(sickbay: Installation) -> None:
    """A latched record is not deleted, a changed one neither, and gone is success."""
    records, record = await created(sickbay)
    with pytest.raises(ValueError, match="has not let go"):
        await records.delete(record)
    free = await records.unlatch(record, "close")
    changed = await records.write_status(free, FULL_STATUS)
    with pytest.raises(errors.Conflict):
        await records.delete(free)
    await records.delete(changed)
    await records.delete(changed)
    with pytest.raises(errors.NotFound):
        await records.get(record.name)


async def test_one_odd_record_costs_itself_alone(sickbay: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list in pages gives all that can be read, and the names of the rest."""
    monkeypatch.setattr(module, "PAGE_SIZE", 2)
    records, odd = await created(sickbay)
    good = [(await created(sickbay))[1] for _ in range(4)]
    patch = {"spec": {"reason": "FromTheFuture"}}
    await sickbay.gateway.request("PATCH", DEVICEQUARANTINES.path(name=odd.name), body=patch, content_type=MERGE_PATCH)
    listing = await records.list()
    assert {record.name for record in good} <= {record.name for record in listing.records}
    assert odd.name in listing.undecodable
    assert odd.name not in {record.name for record in listing.records}
    assert int(listing.resource_version) > 0
    with pytest.raises(Undecodable, match=rf"{odd.name}: spec\.reason"):
        await records.get(odd.name)


async def test_identity_is_required(sickbay: Installation) -> None:
    """The API server takes no record without the fields that name device and incident."""
    spec = record_spec(a_device(), term=await sickbay.term()).model_dump(mode="json", by_alias=True, exclude_none=True)
    for field in ("cluster", "device", "incident", "statusVersion", "run", "firstBadAt"):
        body = {
            "apiVersion": DEVICEQUARANTINES.api_version,
            "kind": "DeviceQuarantine",
            "metadata": {"name": "incomplete"},
            "spec": {key: value for key, value in spec.items() if key != field},
        }
        with pytest.raises(errors.Invalid, match=field):
            await sickbay.gateway.request("POST", DEVICEQUARANTINES.path(), body=body)


def test_schema_and_models_agree() -> None:
    """The CRD has exactly the fields of the models, level by level."""
    [crd] = manifests("crd.yaml")
    properties = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    _same(RecordSpec, properties["spec"], "spec")
    _same(RecordStatus, properties["status"], "status")


def _same(model: type[Wire], schema: dict[str, Any], path: str) -> None:
    fields = {field.alias or to_camel(name): field for name, field in model.model_fields.items()}
    assert set(fields) == set(schema["properties"]), path
    for name, field in fields.items():
        inner = [kind for kind in _kinds(field.annotation) if isinstance(kind, type) and issubclass(kind, Wire)]
        if inner:
            nested = schema["properties"][name]
            _same(inner[0], nested.get("items", nested), f"{path}.{name}")


def _kinds(annotation: Any) -> list[Any]:
    arguments = getattr(annotation, "__args__", ())
    return [annotation] if not arguments else [kind for argument in arguments for kind in _kinds(argument)]
