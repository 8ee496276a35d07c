"""Incidents that wait for the guard."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime

import pytest

from sickbay.model.device import DeviceKey
from sickbay.model.policy import Guard, Mode, Policy
from sickbay.model.record import Admission, AdmissionState, Record, RecordStatus
from sickbay.telemetry.alert import Alert
from sickbay.telemetry.metrics import Metrics
from sickbay.watch import waiting
from sickbay.watch.alerts import Alerts
from sickbay.watch.directory import Directory
from sickbay.watch.ledger import Ledger
from sickbay.watch.waiting import GATHER, WaitingRoom
from tests.installation import record_spec
from tests.sickbay.watch.objects import DRIVER, device

NOW = datetime(2026, 1, 10, tzinfo=UTC)
GPU = device()


class Room:
    """A waiting room, and who was called."""

    def __init__(self, published: int) -> None:
        """Begin with nobody waiting."""
        metrics = Metrics()
        self.alerts = Alerts(metrics)
        policy = Policy(mode=Mode.ENFORCE, guard=Guard(share=0.5, floor=0))
        self.directory = Directory("lab", policy, metrics, self.alerts)
        self.called: list[DeviceKey] = []
        self.ledger = Ledger(policy, self.directory.books, lambda: {DRIVER: published}, metrics)
        self.room = WaitingRoom(self.directory, self.ledger, policy, self.alerts, self.called.append, lambda: NOW)

    def hold(self, key: DeviceKey) -> Record:
        """Let a device's incident be held by its record."""
        spec = record_spec(key, admission=Admission(state=AdmissionState.HELD, at=NOW))
        record = Record(name=key.record_name, uid="u", resource_version="1", spec=spec, status=RecordStatus())
        self.directory.books.take(record)
        return record


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule without gathering."""
    monkeypatch.setattr(waiting, "GATHER", GATHER / 100)


@pytest.mark.usefixtures("quick")
async def test_an_admission_stands_until_it_is_written() -> None:
    """While the installation is paused, or the API server refuses: the leader looks again by itself."""
    house = Room(published=4)
    record = house.hold(GPU)
    serving = asyncio.create_task(house.room.serve())
    house.room.changed()
    await asyncio.sleep(0.1)
    serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving
    assert 1 <= len(house.called) <= 2  # at the start, and for the change
    ruling = house.room.ruling(record)
    assert ruling is not None
    assert ruling.state is AdmissionState.ADMITTED


@pytest.mark.usefixtures("quick")
async def test_incidents_that_stay_held_are_told_once() -> None:
    """Nothing may be fenced: one alert, and nobody is called."""
    house = Room(published=1)
    house.hold(GPU)
    serving = asyncio.create_task(house.room.serve())
    await asyncio.sleep(0.05)
    serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving
    assert house.called == []
    assert house.alerts.holds(Alert.INCIDENTS_HELD)
