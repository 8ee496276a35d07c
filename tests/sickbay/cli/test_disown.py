"""``sickbay disown``, on a real API server: who may, and what everybody is told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from k8s.gateway import Gateway
from k8s.records import Records
from sickbay import errors
from sickbay.cli.disown import give_up
from sickbay.model.record import Closed, Disowning, Phase, Record, RecordStatus
from tests.builders import NOW
from tests.installation import BREAK_GLASS, OPERATORS, Installation, a_device, record_spec


async def opened(sickbay: Installation, **status: Any) -> Record:
    """Open an incident, as the leader and the incident do."""
    key, records = a_device(), Records(sickbay.gateway)
    record = await records.create(key, record_spec(key, term=await sickbay.lead()))
    told = {"incident": record.spec.incident, "run": 1, "phase": Phase.QUARANTINED} | status
    return await records.write_status(record, RecordStatus(**told))


@asynccontextmanager
async def eve(sickbay: Installation, group: str | None = BREAK_GLASS) -> AsyncIterator[Gateway]:
    """Be a member of a group."""
    async with sickbay.as_user("eve", group) as gateway:
        yield gateway


async def test_a_device_is_given_up_in_ones_own_name(sickbay: Installation) -> None:
    """By any of its names, and again without another write."""
    record, records = await opened(sickbay), Records(sickbay.gateway)
    async with eve(sickbay) as gateway:
        told = await give_up(gateway, record.spec.device.device, "node-1", "needed")
        assert told.startswith(f"{record.spec.incident}: given up by eve")
        written = await records.get(record.name)
        assert written.disowned == Disowning(by="eve", reason="needed", incident=record.spec.incident)
        await give_up(gateway, record.name, None, "needed")
    assert (await records.get(record.name)).resource_version == written.resource_version


@pytest.mark.parametrize("group", [OPERATORS, None])
async def test_it_is_for_the_group_that_may(sickbay: Installation, group: str | None) -> None:
    """The API server refuses everybody else, and nothing is written."""
    record = await opened(sickbay)
    async with eve(sickbay, group) as gateway:
        with pytest.raises(errors.Forbidden):
            await give_up(gateway, record.name, None, "needed")
    assert (await Records(sickbay.gateway).get(record.name)).disowning is None


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        (Phase.RELEASED, "already closed: .* ended as Released"),
        (Phase.RETIRED, "is retired.*delete record sickbay-.*disown that"),
    ],
)
async def test_what_has_ended_has_another_way(sickbay: Installation, outcome: Phase, why: str) -> None:
    """One line says what it is, and what to do."""
    record = await opened(sickbay, phase=outcome, closed=Closed(at=NOW, outcome=outcome))
    async with eve(sickbay) as gateway:
        with pytest.raises(errors.UsageError, match=why):
            await give_up(gateway, record.name, None, "needed")


async def test_nobody_is_given_up_without_a_reason(sickbay: Installation) -> None:
    """Nor is a device of which there is no incident."""
    record = await opened(sickbay)
    async with eve(sickbay) as gateway:
        with pytest.raises(errors.UsageError, match="--reason: say why"):
            await give_up(gateway, record.name, None, " ")
        with pytest.raises(errors.SickbayError, match="no incident of such a device"):
            await give_up(gateway, "gpu-of-nobody", None, "needed")
