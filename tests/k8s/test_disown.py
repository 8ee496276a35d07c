"""Who gives a device up, on a real API server: the break-glass group in its own name, and nobody else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from k8s.gateway import MERGE_PATCH, Gateway
from k8s.impersonation import SERVICE_ACCOUNT
from k8s.lab.lab import Lab
from k8s.records import Records
from k8s.resources import DEVICEQUARANTINES
from sickbay import errors
from sickbay.model.record import (
    DISOWN_INCIDENT,
    DISOWN_REASON,
    DISOWNED_BY,
    Closed,
    Disowning,
    PastIncident,
    Phase,
    Record,
    RecordStatus,
)
from tests.builders import NOW
from tests.installation import BREAK_GLASS, OPERATORS, Installation, a_device, record_spec
from tests.k8s.test_policies import a_record

EVE = "eve"
DRY: Mapping[str, str] = {"dryRun": "All"}


async def opened(sickbay: Installation, **status: Any) -> Record:
    """Open an incident, as the leader and the incident do."""
    key, records = a_device(), Records(sickbay.gateway)
    record = await records.create(key, record_spec(key, term=await sickbay.lead()))
    told = {"incident": record.spec.incident, "run": 1, "phase": Phase.QUARANTINED} | status
    return await records.write_status(record, RecordStatus(**told))


def word(record: Record, **changes: str) -> dict[str, str]:
    """Build what eve writes, but for `changes`."""
    said = {DISOWNED_BY: EVE, DISOWN_REASON: "needed", DISOWN_INCIDENT: record.spec.incident}
    return said | {f"sickbay.dev/{name.replace('_', '-')}": text for name, text in changes.items()}


async def annotate(gateway: Gateway, record: Record, said: Mapping[str, str | None], *, dry: bool = True) -> None:
    """Try to write annotations."""
    path, body = DEVICEQUARANTINES.path(name=record.name), {"metadata": {"annotations": dict(said)}}
    await gateway.request("PATCH", path, body=body, params=DRY if dry else None, content_type=MERGE_PATCH)


async def test_break_glass_gives_a_device_up(sickbay: Installation) -> None:
    """In their own name, for the incident that is open; the record tells it, and nobody's word but theirs."""
    record = await opened(sickbay)
    said = Disowning(by=EVE, reason="needed", incident=record.spec.incident)
    assert record.disowned is None
    async with sickbay.as_user(EVE, BREAK_GLASS) as eve:
        await Records(eve).disown(record, said)
    assert (await Records(sickbay.gateway).get(record.name)).disowned == said


async def test_nobody_else_gives_a_device_up(sickbay: Installation) -> None:
    """Neither an operator, an administrator nor Sickbay's own account, whatever group it says it is in."""
    record = await opened(sickbay)
    for user, group in (
        (EVE, OPERATORS),
        (EVE, None),
        (EVE, "system:masters"),
        (SERVICE_ACCOUNT, None),
        (SERVICE_ACCOUNT, BREAK_GLASS),
    ):
        async with sickbay.as_user(user, group) as somebody:
            with pytest.raises(errors.Forbidden):
                await annotate(somebody, record, word(record, disowned_by=user))
    with pytest.raises(errors.Forbidden, match=r"only a member of sickbay:break-glass gives a device up"):
        await annotate(sickbay.gateway, record, word(record, disowned_by=SERVICE_ACCOUNT))
    body = a_record(key := a_device(), term=await sickbay.term())
    body["metadata"]["annotations"] = word(record, disown_incident=key.incident_id("100"))
    with pytest.raises(errors.Forbidden, match="only a member"):
        await sickbay.gateway.request("POST", DEVICEQUARANTINES.path(), body=body, params=DRY)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"disowned_by": "ann"}, r"set sickbay.dev/disowned-by to your own user name"),
        ({"disown_reason": ""}, r"set sickbay.dev/disown-reason"),
        ({"disown_reason": "x" * 1001}, r"in at most 1000 characters"),
        ({"disown_incident": "incident/of/another/day"}, r"set sickbay.dev/disown-incident to spec.incident"),
        ({"disown_incident": ""}, r"set sickbay.dev/disown-incident to spec.incident"),
    ],
)
async def test_half_a_word_is_refused(sickbay: Installation, changes: dict[str, str], why: str) -> None:
    """Who, why and for which incident: each has to be right."""
    record = await opened(sickbay)
    async with sickbay.as_user(EVE, BREAK_GLASS) as eve:
        with pytest.raises(errors.Forbidden, match=why):
            await annotate(eve, record, word(record, **changes))


@pytest.mark.parametrize("outcome", [phase for phase in Phase if phase.final])
async def test_what_has_ended_cannot_be_given_up(sickbay: Installation, outcome: Phase) -> None:
    """A word is not kept in store for the next incident."""
    record = await opened(sickbay, phase=outcome, closed=Closed(at=NOW, outcome=outcome))
    async with sickbay.as_user(EVE, BREAK_GLASS) as eve:
        with pytest.raises(errors.Forbidden, match="only while that incident is open"):
            await annotate(eve, record, word(record))


async def test_only_they_take_it_back(sickbay: Installation) -> None:
    """Sickbay goes on writing the record, and can neither change nor remove the word; nor can an operator."""
    record, records = await opened(sickbay), Records(sickbay.gateway)
    async with sickbay.as_user(EVE, BREAK_GLASS) as eve, sickbay.as_user("ann", OPERATORS) as ann:
        await annotate(eve, record, word(record), dry=False)
        record = await records.get(record.name)
        record = await records.write_status(record, record.status.model_copy(update={"phase": Phase.RELEASING}))
        record = await records.write_spec(record, record.spec.model_copy(update={"message": "worse"}))
        record = await records.unlatch(record, "close/1")
        gone: dict[str, str | None] = dict.fromkeys((DISOWNED_BY, DISOWN_REASON, DISOWN_INCIDENT))
        for somebody in (sickbay.gateway, ann, sickbay.admin):
            for change in (gone, {DISOWN_REASON: "another"}):
                with pytest.raises(errors.Forbidden):
                    await annotate(somebody, record, change)
        status = DEVICEQUARANTINES.path(name=record.name, subresource="status")
        patch = {"metadata": {"annotations": {DISOWN_REASON: "another"}}, "status": {"phase": "Releasing"}}
        await eve.request("PATCH", status, body=patch, content_type=MERGE_PATCH)
        assert (await records.get(record.name)).disowned == record.disowned
        await annotate(eve, record, gone, dry=False)
    assert (await records.get(record.name)).disowned is None


async def test_a_word_is_for_one_incident(sickbay: Installation) -> None:
    """Sickbay takes the record over, and the word says nothing of the next incident."""
    record, records = await opened(sickbay), Records(sickbay.gateway)
    key = record.spec.key
    async with sickbay.as_user(EVE, BREAK_GLASS) as eve:
        await annotate(eve, record, word(record), dry=False)
    record = await records.get(record.name)
    end = {"phase": Phase.DISOWNED, "closed": Closed(at=NOW, outcome=Phase.DISOWNED)}
    record = await records.write_status(record, record.status.model_copy(update=end))
    assert (record.closed, record.disowned) == (True, None)
    over = {"incident": key.incident_id("200"), "status_version": "200", "term": await sickbay.term()}
    record = await records.write_spec(record, record.spec.model_copy(update=over))
    assert (record.closed, record.disowning is None, record.disowned) == (False, False, None)


def test_a_name_from_before_a_restore_is_not_it() -> None:
    """Where the history has an incident of that name, the word was for that one."""
    spec = record_spec(key := a_device())
    said = Disowning(by=EVE, reason="needed", incident=spec.incident)
    record = Record(name=key.record_name, uid="u", resource_version="1", disowning=said, spec=spec)
    assert record.disowned == said
    past = PastIncident(incident=spec.incident, outcome=Phase.DISOWNED, opened_at=NOW, closed_at=NOW)
    assert record.model_copy(update={"status": RecordStatus(history=(past,))}).disowned is None


async def test_the_audit_log_has_who_why_and_what(sickbay: Installation, lab: Lab) -> None:
    """As an annotation of its own, so that one can look for it; what says nothing of it has none."""
    record, records = await opened(sickbay), Records(sickbay.gateway)
    async with sickbay.as_user(EVE, BREAK_GLASS) as eve:
        await annotate(eve, record, word(record), dry=False)
    record = await records.get(record.name)
    await records.write_spec(record, record.spec.model_copy(update={"message": "worse"}))
    lines = [json.loads(line) for line in lab.audit_log.read_text(encoding="utf-8").splitlines()]
    ours = [line for line in lines if line.get("objectRef", {}).get("name") == record.name]
    told = [line["annotations"].get("sickbay-disown/disown") for line in ours if line["verb"] == "patch"]
    assert [text for text in told if text] == [f"{EVE} gives up {record.spec.incident}, needed"]
