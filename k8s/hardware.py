"""Which piece of hardware a device is: its identity attribute in the newest complete slices of its pool."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from k8s.wire import Attribute, ResourceSlice, SliceDevice, SlicePool
from sickbay.model.device import UNKNOWN_HARDWARE, DeviceKey


@dataclass(frozen=True, slots=True)
class Hardware:
    """What the slices say of a device's identity.

    Attributes:
        id: value of the attribute as text, ``unknown`` if it is not published.
        unique: no other device of the driver has the same.
        domain: of the attribute: the driver's name, if it is not qualified.
        attribute: its name without the domain.
        value: as published.
    """

    domain: str
    attribute: str
    id: str = UNKNOWN_HARDWARE
    unique: bool = False
    value: Attribute | None = None


@dataclass(frozen=True, slots=True)
class Identities:
    """The identities of all devices of one driver at one moment, made once for many questions.

    Only the highest complete generation of a pool counts for a device itself: a driver replaces its slices one by one.
    For uniqueness everything from that generation on counts, complete or not.
    """

    domain: str
    attribute: str
    _own: Mapping[tuple[str, str], Attribute]
    _bearers: Mapping[str, frozenset[tuple[str, str]]]

    @classmethod
    def of(cls, slices: Iterable[ResourceSlice], driver: str, attribute: str) -> Identities:
        """Index slices.

        Args:
            slices: all slices of the driver; those of others are passed over.
            driver: the driver.
            attribute: name of the identity attribute, with its domain or without.
        """
        domain, name = _qualified(attribute, driver)
        slices = [s for s in slices if s.spec.driver == driver]
        complete = _complete_generations(slices)
        own: dict[tuple[str, str], Attribute] = {}
        bearers: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
        for pool, found in _devices(slices, complete):
            value = _attribute(found.attributes, domain, name, driver)
            if value is None:
                continue
            place = (pool.name, found.name)
            bearers[value.text].add(place)
            if pool.generation == complete.get(pool.name):
                own[place] = value
        return cls(domain, name, own, {text: frozenset(places) for text, places in bearers.items()})

    def identify(self, device: DeviceKey) -> Hardware:
        """Find a device's hardware identity."""
        place = (device.pool, device.device)
        value = self._own.get(place)
        if value is None:
            return Hardware(self.domain, self.attribute)
        unique = self._bearers[value.text] == {place}
        return Hardware(self.domain, self.attribute, id=value.text, unique=unique, value=value)


def identify(slices: Iterable[ResourceSlice], device: DeviceKey, attribute: str) -> Hardware:
    """Find one device's hardware identity; for many questions of the same slices keep the `Identities`."""
    return Identities.of(slices, device.driver, attribute).identify(device)


def published(slices: Iterable[ResourceSlice], driver: str) -> list[tuple[ResourceSlice, SliceDevice]]:
    """Give the devices that a driver publishes now: those of the highest complete generation of each pool."""
    slices = [s for s in slices if s.spec.driver == driver]
    complete = _complete_generations(slices)
    return [
        (s, found)
        for s in slices
        if s.spec.pool.generation == complete.get(s.spec.pool.name)
        for found in s.spec.devices
    ]


def cel_of(hardware: Hardware, driver: str) -> str:
    """Write the CEL expression that selects exactly this hardware; every text in it is quoted.

    Each part guards the next: the attributes of another driver's devices, or of one without the attribute, are not
    looked at, because an error in a selector fails the whole pod.

    Raises:
        ValueError: the identity is not published: nothing could be selected by it.
    """
    value = hardware.value
    if value is None:
        raise ValueError(f"attribute {hardware.attribute} is not published: it selects no device")
    domain, name = _quoted(hardware.domain), _quoted(hardware.attribute)
    found = f"device.attributes[{domain}][{name}]"
    if value.version is not None:
        same = f"{found}.compareTo(semver({_quoted(value.version)})) == 0"
    elif value.string is not None:
        same = f"{found} == {_quoted(value.string)}"
    else:
        same = f"{found} == {value.number}"
    return f"device.driver == {_quoted(driver)} && {name} in device.attributes[{domain}] && {same}"


def _quoted(text: str) -> str:
    """Write a CEL string literal. JSON's escapes are a subset of CEL's, but for surrogate pairs: those stay plain."""
    return json.dumps(text, ensure_ascii=False)


def _qualified(attribute: str, driver: str) -> tuple[str, str]:
    domain, slash, name = attribute.rpartition("/")
    return (domain, name) if slash else (driver, attribute)


def _attribute(attributes: Mapping[str, Attribute], domain: str, name: str, driver: str) -> Attribute | None:
    """Find an attribute, whichever way the driver spells its own domain; a bool names no hardware."""
    spellings = [f"{domain}/{name}", name] if domain == driver else [f"{domain}/{name}"]
    value = next((attributes[spelling] for spelling in spellings if spelling in attributes), None)
    return value if value is not None and value.text and value.flag is None else None


def _complete_generations(slices: Iterable[ResourceSlice]) -> dict[str, int]:
    """Give the highest generation of each pool of which all slices are there."""
    counts = Counter((s.spec.pool.name, s.spec.pool.generation) for s in slices)
    complete: dict[str, int] = {}
    for published in slices:
        pool = published.spec.pool
        if counts[pool.name, pool.generation] == pool.resource_slice_count:
            complete[pool.name] = max(pool.generation, complete.get(pool.name, pool.generation))
    return complete


def _devices(slices: Iterable[ResourceSlice], complete: Mapping[str, int]) -> list[tuple[SlicePool, SliceDevice]]:
    """Give the devices of all generations that are not outdated."""
    return [
        (s.spec.pool, found)
        for s in slices
        if s.spec.pool.generation >= complete.get(s.spec.pool.name, 0)
        for found in s.spec.devices
    ]
