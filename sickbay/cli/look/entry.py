"""A record as people look at it: with the fence that stands, and where its incident is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from k8s import fences
from k8s.fences import Fence
from k8s.reading import Undecodable
from k8s.records import DeviceQuarantine, decode
from k8s.sights import Sight
from sickbay.model.device import DeviceKey
from sickbay.model.record import DEVICE_ANNOTATION, NEEDS_OPERATOR, Condition, Record
from sickbay.policy.guard import waits_for_a_person

OPENING: Final = "Opening"
"""In place of a phase: the leader has opened the incident, and it has not written yet."""

UNREADABLE: Final = "Unreadable"
"""In place of a phase: the record cannot be decoded."""

APPROVE: Final = "Approve"
"""What a person is asked where nothing but a person's word lets an incident act."""

Place = tuple[str, str, str]
"""Driver, slice pool, device."""


@dataclass(frozen=True)
class Entry:
    """One record.

    Attributes:
        item: as on the wire.
        record: what it says; None if it cannot be read.
        problem: why not.
        fences: of ours that stand for its device.
    """

    item: DeviceQuarantine
    record: Record | None
    problem: str = ""
    fences: tuple[Fence, ...] = ()

    @property
    def name(self) -> str:
        """Name of the record."""
        return self.item.metadata.name

    @property
    def created(self) -> datetime | None:
        """When the record was made, by the API server's clock."""
        text = self.item.metadata.creation_timestamp
        return datetime.fromisoformat(text) if text else None

    @property
    def place(self) -> Place | None:
        """The device; of a record that cannot be read as its annotation has it, None if nothing says it."""
        if self.record is not None:
            device = self.record.spec.device
            return (device.driver, device.pool, device.device)
        try:
            key = DeviceKey.parse(self.item.metadata.annotations.get(DEVICE_ANNOTATION, ""))
        except ValueError:
            return None
        return (key.driver, key.pool, key.device)

    @property
    def phase(self) -> str:
        """Where its incident stands."""
        if self.record is None:
            return UNREADABLE
        status = self.record.status
        if status.incident != self.record.spec.incident or status.phase is None:
            return OPENING
        return str(status.phase)

    @property
    def closed(self) -> bool:
        """Whether its incident has ended."""
        return self.record is not None and self.record.closed

    @property
    def asks(self) -> Condition | None:
        """What a person is asked now; the word that a held incident waits for is asked by no condition."""
        if self.record is None or self.closed:
            return None
        condition = self.record.status.condition(NEEDS_OPERATOR)
        if condition is not None and condition.status == "True":
            return condition
        admission = self.record.spec.admission
        if not waits_for_a_person(admission):
            return None
        message = f"sickbay approve {self.name} lets it act"
        return Condition(type=NEEDS_OPERATOR, reason=APPROVE, message=message, last_transition_time=admission.at)

    @property
    def spellings(self) -> frozenset[str]:
        """What people may call it, and its incident: by record, incident or device."""
        own = {self.name, self.name.removeprefix("sickbay-"), *(spellings(self.place) if self.place else ())}
        if self.record is None:
            return frozenset(own)
        return frozenset({*own, self.record.spec.incident, str(self.record.spec.key)})

    @property
    def fence(self) -> str:
        """How the fence stands, in a word."""
        return standing(self.fences)


def spellings(place: Place) -> frozenset[str]:
    """What people may call a device, from all of driver, slice pool and device to the last alone."""
    driver, pool, device = place
    return frozenset({f"{driver}/{pool}/{device}", f"{pool}/{device}", device})


def standing(found: Iterable[Fence]) -> str:
    """Say in a word how a device is fenced; ``""`` if it is not."""
    words = {_word(fence) for fence in found}
    return next((word for word in ("Stands", "Ramp", "Shadow", "Leaving") if word in words), "")


def entries(sight: Sight) -> list[Entry]:
    """Read all records, in the order of their names."""
    ours = [fences.read(rule) for rule in sight.rules if fences.ours(rule)]
    return sorted((_entry(item, ours) for item in sight.quarantines), key=lambda entry: entry.name)


def _entry(item: DeviceQuarantine, ours: Iterable[Fence]) -> Entry:
    try:
        record = decode(item)
    except Undecodable as error:
        return Entry(item, None, str(error))
    place = Entry(item, record).place
    return Entry(item, record, fences=tuple(fence for fence in ours if fence.selector == place))


def _word(fence: Fence) -> str:
    if fence.terminating:
        return "Leaving"
    if fence.effect == "None":
        return "Shadow"
    return "Ramp" if fence.taint_key.endswith("/ramp") else "Stands"
