"""The leader's writes, and what the API server thinks of one that slept."""

from __future__ import annotations

import asyncio

import pytest

from k8s.clock import utc_now
from k8s.control import ControlMap
from k8s.election import boot_clock
from k8s.fences import Fences
from k8s.records import Records
from sickbay import errors
from sickbay.model.policy import Mode, Policy
from sickbay.model.record import Admission, AdmissionState, Record
from sickbay.telemetry.metrics import Metrics
from sickbay.watch.alerts import Alerts
from sickbay.watch.directory import Directory
from sickbay.watch.office import Office
from sickbay.watch.writer import Writer
from tests.installation import Installation, a_device, record_spec
from tests.sickbay.watch.house import House


class Desk:
    """A writer of one term."""

    def __init__(self, sickbay: Installation, term: int, *, leads: bool) -> None:
        """Take office, or only believe so."""
        self.metrics = Metrics()
        alerts, policy = Alerts(self.metrics), Policy(mode=Mode.ENFORCE)
        self.directory = Directory("lab", policy, self.metrics, alerts)
        self.office = Office(
            term, "desk", lambda: leads, ControlMap(sickbay.gateway), self.metrics, utc_now, boot_clock
        )
        records, fences = Records(sickbay.gateway), Fences(sickbay.gateway)
        self.writer = Writer(records, fences, self.directory, self.office, policy, self.metrics, alerts, boot_clock)

    def refusals(self, cause: str) -> bool:
        """Say whether one refusal of this cause was counted."""
        return f'sickbay_refusals_total{{cause="{cause}"}} 1.0'.encode() in self.metrics.exposed()


async def test_writes_of_a_past_term_are_refused(house: House, sickbay: Installation) -> None:
    """A leader that slept through its successor's election can create no record, change none, and put no fence."""
    old = await sickbay.lead()
    device, other = a_device(), a_device()
    sleeper = Desk(sickbay, old, leads=False)
    admitted = Admission(state=AdmissionState.ADMITTED)
    record = await sleeper.writer.write(device, None, record_spec(device, term=old, admission=admitted))
    assert record is not None
    await sickbay.lead()
    with pytest.raises(errors.Forbidden):
        await sleeper.writer.write(other, None, record_spec(other, term=old))
    assert sleeper.refusals("Term")
    with pytest.raises(errors.Forbidden):
        await sleeper.writer.write(device, record, record.spec.model_copy(update={"run": 2}))
    with pytest.raises(errors.Forbidden):
        await sleeper.writer.fence(record)
    assert await house.none_of(other)
    assert await house.fences.list(device) == ()


async def test_who_comes_second_learns_what_the_first_wrote(house: House, sickbay: Installation) -> None:
    """Of many creates at once one is made; the others hold that one in their books."""
    term = await sickbay.lead()
    device = a_device()
    desks = [Desk(sickbay, term, leads=True) for _ in range(20)]
    specs = [record_spec(device, term=term, actor=f"desk-{n}") for n in range(20)]
    written = await asyncio.gather(*(d.writer.write(device, None, s) for d, s in zip(desks, specs, strict=True)))
    assert sum(w is not None for w in written) == 1
    made = await house.records.get(device.record_name)
    assert all(d.directory.books.record(device) == made for d in desks)


async def test_record_that_changed_is_read_again(house: House, sickbay: Installation) -> None:
    """A write decided on an older state is none; a record that is gone leaves the books."""
    term = await sickbay.lead()
    desk, device = Desk(sickbay, term, leads=True), a_device()
    first = await desk.writer.write(device, None, record_spec(device, term=term))
    assert first is not None
    second = await house.records.write_spec(first, first.spec.model_copy(update={"node": "elsewhere"}))
    assert await desk.writer.write(device, first, first.spec.model_copy(update={"run": 2})) is None
    assert desk.directory.books.record(device) == second
    await remove(house, second)
    assert await desk.writer.write(device, second, second.spec.model_copy(update={"run": 3})) is None
    assert desk.directory.books.record(device) is None


async def test_fence_is_put_once_by_whomever(house: House, sickbay: Installation) -> None:
    """The watcher's fence has the name and the key of the incident's own first fence."""
    term = await sickbay.lead()
    desk, device = Desk(sickbay, term, leads=True), a_device()
    record = await desk.writer.write(device, None, record_spec(device, term=term))
    assert record is not None
    placed = await asyncio.gather(*(desk.writer.fence(record) for _ in range(20)))
    assert len({fence.uid for fence in placed if fence is not None}) == 1
    (fence,) = await house.fences.list(device)
    assert fence.effect_key == f"{device}/100/fence/1"
    assert list(desk.directory.books.fences(device)) == [fence.name]


async def remove(house: House, record: Record) -> None:
    """Remove a record for good."""
    await house.records.delete(await house.records.unlatch(record, "gone"))
