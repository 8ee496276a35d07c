"""What a person named: one device, with its record and what taints it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from k8s import fences
from k8s.hardware import published
from k8s.sights import Sight
from k8s.wire import SliceDevice
from sickbay import errors
from sickbay.cli.look.entry import Entry, Place, entries, spellings
from sickbay.cli.look.rows import tainted
from sickbay.model.record import PastIncident, Record

SHOWN: Final = 8
"""Candidates that an ambiguous name is told."""


@dataclass(frozen=True)
class Subject:
    """One device.

    Attributes:
        entry: its record; None if it never had an incident, or its record is past its time.
        device: as published; None if no complete slice pool has it.
        node: where it is, ``""`` if nobody says.
        taints: key, effect and giver of the taints that are not ours.
    """

    place: Place
    entry: Entry | None = None
    device: SliceDevice | None = None
    node: str = ""
    taints: tuple[str, ...] = ()

    @property
    def record(self) -> Record | None:
        """Its record, if it can be read."""
        return self.entry.record if self.entry else None

    @property
    def kept(self) -> bool:
        """Whether others keep it from being allocated: a taint of effect None only says something."""
        return any(f":{effect} by " in taint for taint in self.taints for effect in ("NoSchedule", "NoExecute"))

    def past(self, name: str) -> PastIncident | None:
        """Find the incident before the last one that has this id."""
        record = self.record
        if record is None or name == record.spec.incident:
            return None
        return next((past for past in record.status.history if past.incident == name), None)


def find(sight: Sight, name: str) -> Subject:
    """Find the one device that a name is of: its own, its record's, or an incident's, a past one too.

    Raises:
        SickbayError: there is none.
        UsageError: there are several; the text names them.
    """
    by_place = {entry.place: entry for entry in entries(sight) if entry.place is not None}
    devices = {
        (driver, found.spec.pool.name, device.name): (found, device)
        for driver in {s.spec.driver for s in sight.slices}
        for found, device in published(sight.slices, driver)
    }
    named = {place for place in devices if name in spellings(place)}
    named |= {place for place, entry in by_place.items() if name in entry.spellings or name in _past(entry)}
    if not named:
        for entry in entries(sight):
            if name in entry.spellings:
                raise errors.SickbayError(f"{entry.problem}; kubectl get dq {entry.name} -o yaml shows it")
        raise errors.SickbayError(f"nothing is named {name!r}; see sickbay get devices, sickbay get quarantines")
    if len(named) > 1:
        some = ", ".join("/".join(place) for place in sorted(named)[:SHOWN])
        more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
        raise errors.UsageError(f"{name!r} names {len(named)} devices; write one of {some}{more}")
    (place,) = named
    last = by_place.get(place)
    if place not in devices:
        record = last.record if last is not None else None
        return Subject(place, last, None, record.spec.node if record else "", _rules(sight, place))
    found, device = devices[place]
    taints = tuple(f"{taint.key}:{taint.effect} by its driver" for taint in device.taints)
    return Subject(place, last, device, device.node_name or found.spec.node_name, _rules(sight, place) + taints)


def _rules(sight: Sight, place: Place) -> tuple[str, ...]:
    rules = [rule for rule in sight.rules if tainted(rule, place) and not fences.ours(rule)]
    return tuple(f"{r.spec.taint.key}:{r.spec.taint.effect} by DeviceTaintRule {r.metadata.name}" for r in rules)


def _past(entry: Entry) -> set[str]:
    return {past.incident for past in entry.record.status.history} if entry.record else set()
