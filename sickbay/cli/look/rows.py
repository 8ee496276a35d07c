"""What the tables of ``sickbay get`` hold, as pure functions of what was seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from k8s import fences
from k8s.hardware import published
from k8s.resources import DEVICEQUARANTINES
from k8s.sights import Sight
from k8s.wire import DeviceTaintRule, ResourceSlice, SliceDevice
from sickbay.cli.look.entry import Entry, Place, entries, spellings, standing
from sickbay.cli.look.kinds import Kind
from sickbay.cli.look.table import Columns, Row, age
from sickbay.model.base import tamed
from sickbay.model.record import PastIncident, Record

IN_SERVICE: Final = "InService"
"""State of a device that no open incident has: nothing is said of its health."""

TAINTED: Final = "Tainted"
"""State of a device that no open incident has, and that somebody else keeps from being allocated."""

RETIRED: Final = "Retired"
"""State of a device whose incident a person ended for good: its fence stays, and no incident is opened for it."""

FENCED: Final = "Fenced"
"""State of a device that a fence of ours keeps, and no open incident has: the leader will open one."""

COLUMNS: Final[Mapping[Kind, Columns]] = {
    Kind.INCIDENTS: Columns(
        ("NAME", "DEVICE", "NODE", "REASON", "PHASE", "ASKS", "AGE"),
        ("DRIVER", "SEVERITY", "RUN", "ADMISSION", "INCIDENT", "WHY"),
    ),
    Kind.QUARANTINES: Columns(
        ("NAME", "DEVICE", "NODE", "REASON", "PHASE", "FENCE", "AGE"),
        ("DRIVER", "HARDWARE", "ADMISSION", "SCOPE", "EXPIRES", "WHY", "ASKS"),
    ),
    Kind.DEVICES: Columns(
        ("DEVICE", "DRIVER", "NODE", "STATE", "FENCE", "QUARANTINE"),
        ("PUBLISHED", "LAST", "TAINTS"),
    ),
}


@dataclass(frozen=True)
class Wanted:
    """Which rows are asked for; an empty field takes all.

    Attributes:
        names: spellings; one that names nothing is told by `missing`.
        phases: of incidents and quarantines, states of devices; lower case.
        ended: also incidents that have ended, and those of a device's history.
        keys: rows that are wanted whatever the rest says: those that were shown before.
    """

    names: tuple[str, ...] = ()
    phases: frozenset[str] = frozenset()
    node: str = ""
    driver: str = ""
    ended: bool = False
    keys: frozenset[str] = frozenset()

    def takes(self, phase: str, node: str, driver: str) -> bool:
        """Say whether something with these values is wanted."""
        return (
            (not self.phases or phase.lower() in self.phases)
            and self.node in {"", node}
            and self.driver in {"", driver}
        )


def rows(kind: Kind, sight: Sight, wanted: Wanted, now: datetime) -> list[Row]:
    """Make the rows of a table."""
    made = {Kind.INCIDENTS: _incidents, Kind.QUARANTINES: _quarantines, Kind.DEVICES: _devices}[kind]
    return [row for row in made(sight, wanted, now) if not wanted.names or row.spellings & set(wanted.names)]


def missing(found: Iterable[Row], wanted: Wanted) -> list[str]:
    """Give the names that name nothing."""
    known = frozenset[str]().union(*(row.spellings for row in found))
    return [name for name in wanted.names if name not in known]


def of_quarantine(entry: Entry) -> dict[str, Any]:
    """Give a record as the API server has it, as far as Sickbay reads it."""
    meta = entry.item.metadata
    metadata = {
        "name": meta.name,
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
        "creationTimestamp": meta.creation_timestamp,
        "deletionTimestamp": meta.deletion_timestamp or None,
        "annotations": meta.annotations or None,
        "finalizers": list(meta.finalizers) or None,
    }
    return {
        "apiVersion": DEVICEQUARANTINES.api_version,
        "kind": "DeviceQuarantine",
        "metadata": {key: value for key, value in metadata.items() if value is not None},
        "spec": entry.item.spec,
        "status": entry.item.status or {},
    }


def _quarantines(sight: Sight, wanted: Wanted, now: datetime) -> Iterator[Row]:
    for entry in entries(sight):
        record = entry.record
        spec = record.spec if record else None
        node, driver = (spec.node, spec.device.driver) if spec else ("", "")
        if not wanted.takes(entry.phase, node, driver) and entry.name not in wanted.keys:
            continue
        cells = (
            entry.name,
            _device(record),
            node,
            str(spec.reason) if spec else "",
            entry.phase,
            entry.fence,
            age(entry.created, now),
        )
        asks = entry.asks
        wide = (
            driver,
            tamed(record.hardware_id) if record else "",
            str(spec.admission.state) if spec else "",
            spec.scope if spec else "",
            _iso(record.status.expires_at) if record and record.status.expires_at else "",
            tamed(spec.message if spec else entry.problem),
            tamed(asks.message) if asks else "",
        )
        yield Row(
            entry.name, f"devicequarantine.sickbay.dev/{entry.name}", cells, wide, entry.spellings, of_quarantine(entry)
        )


def _incidents(sight: Sight, wanted: Wanted, now: datetime) -> Iterator[Row]:
    for entry in sorted(entries(sight), key=lambda entry: entry.place or ("", "", "")):
        record = entry.record
        if record is None:
            continue  # whose incident it is cannot be known; the quarantine is listed
        spec = record.spec
        taken = wanted.takes(entry.phase, spec.node, spec.device.driver)
        for past in record.status.history:
            if taken and past.incident != spec.incident and (wanted.ended or past.incident in wanted.names):
                yield _past(record, past, now)
        if (taken and (wanted.ended or wanted.names or not entry.closed)) or spec.incident in wanted.keys:
            yield _incident(entry, record, now)


def _incident(entry: Entry, record: Record, now: datetime) -> Row:
    spec, asks = record.spec, entry.asks
    cells = (
        entry.name,
        _device(record),
        spec.node,
        str(spec.reason),
        entry.phase,
        asks.reason if asks else "",
        age(spec.first_bad_at, now),
    )
    wide = (
        spec.device.driver,
        str(spec.severity),
        str(spec.run),
        str(spec.admission.state),
        spec.incident,
        tamed(spec.message),
    )
    data = {
        "incident": spec.incident,
        "run": spec.run,
        "quarantine": entry.name,
        "device": str(spec.key),
        "node": spec.node,
        "phase": entry.phase,
        "open": not entry.closed,
        "severity": str(spec.severity),
        "reason": str(spec.reason),
        "message": spec.message,
        "firstBadAt": _iso(spec.first_bad_at),
        "closedAt": _iso(record.status.closed.at) if entry.closed and record.status.closed else None,
        "admission": spec.admission.model_dump(mode="json", by_alias=True, exclude_none=True),
        "asks": asks.model_dump(mode="json", by_alias=True, exclude_none=True) if asks else None,
        "fence": entry.fence or None,
    }
    shown = {key: value for key, value in data.items() if value is not None}
    return Row(spec.incident, spec.incident, cells, wide, entry.spellings, shown)


def _past(record: Record, past: PastIncident, now: datetime) -> Row:
    spec = record.spec
    cells = (
        record.name,
        _device(record),
        spec.node,
        str(past.reason),
        str(past.outcome),
        "",
        age(past.opened_at, now),
    )
    wide = (spec.device.driver, "", str(past.run), "", past.incident, "")
    data = {
        "incident": past.incident,
        "run": past.run,
        "quarantine": record.name,
        "device": str(spec.key),
        "node": spec.node,
        "phase": str(past.outcome),
        "open": False,
        "reason": str(past.reason),
        "firstBadAt": _iso(past.opened_at),
        "closedAt": _iso(past.closed_at),
    }
    names = frozenset(
        {past.incident, record.name, *spellings((spec.device.driver, spec.device.pool, spec.device.device))}
    )
    return Row(past.incident, past.incident, cells, wide, names, data)


def _devices(sight: Sight, wanted: Wanted, now: datetime) -> Iterator[Row]:  # noqa: ARG001 - the shape of the others
    by_place = {entry.place: entry for entry in entries(sight) if entry.place is not None}
    places = {
        (driver, found.spec.pool.name, device.name): (found, device)
        for driver in {s.spec.driver for s in sight.slices}
        for found, device in published(sight.slices, driver)
    }
    # A device that is no longer published is still of interest while its incident is open.
    gone = [place for place, entry in by_place.items() if place not in places and not entry.closed]
    for place in sorted([*places, *gone]):
        row = _device_row(place, places.get(place), by_place.get(place), sight.rules)
        node, state = row.cells[2], row.cells[3]
        if wanted.takes(state, node, place[0]) or row.key in wanted.keys:
            yield row


def _device_row(
    place: Place,
    found: tuple[ResourceSlice, SliceDevice] | None,
    entry: Entry | None,
    rules: Iterable[DeviceTaintRule],
) -> Row:
    driver, pool, device = place
    own = [rule for rule in rules if tainted(rule, place)]
    fence = standing(fences.read(rule) for rule in own if fences.ours(rule))
    taints = [f"{rule.spec.taint.key}:{rule.spec.taint.effect}" for rule in own if not fences.ours(rule)]
    node = entry.record.spec.node if entry and entry.record else ""
    if found is not None:
        taints += [f"{taint.key}:{taint.effect}" for taint in found[1].taints]
        node = found[1].node_name or found[0].spec.node_name
    kept = any(taint.endswith((":NoSchedule", ":NoExecute")) for taint in taints)
    state, last = FENCED if fence else TAINTED if kept else IN_SERVICE, ""
    if entry is not None:
        state, last = (state, entry.phase) if entry.closed else (entry.phase, "")
        state = RETIRED if last == RETIRED and fence else state
    name = entry.name if entry else ""
    data = {
        "driver": driver,
        "pool": pool,
        "device": device,
        "node": node,
        "state": state,
        "fence": fence or None,
        "quarantine": name or None,
        "lastIncident": last or None,
        "published": found is not None,
        "taints": taints,
    }
    return Row(
        key="/".join(place),
        name=f"{driver}/{pool}/{device}",
        cells=(f"{pool}/{device}", driver, node, state, fence, name),
        wide=("yes" if found else "no", last, tamed(",".join(taints))),
        spellings=spellings(place) | (entry.spellings if entry else frozenset()),
        data={key: value for key, value in data.items() if value is not None},
    )


def tainted(rule: DeviceTaintRule, place: Place) -> bool:
    """Whether a rule taints this device: given parts are all required, no selector selects nothing."""
    selector = rule.spec.device_selector
    if selector is None:
        return False
    parts = (selector.driver, selector.pool, selector.device)
    return all(part in {None, "", own} for part, own in zip(parts, place, strict=True))


def _device(record: Record | None) -> str:
    return f"{record.spec.device.pool}/{record.spec.device.device}" if record else ""


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")
