"""Which piece of hardware a device is."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from k8s.hardware import cel_of, identify
from k8s.wire import ResourceSlice
from sickbay.model.device import UNKNOWN_HARDWARE, DeviceKey

DRIVER = "gpu.example.com"
DEVICE = DeviceKey(cluster="c", driver=DRIVER, pool="node-1", device="gpu-0")

Attributes = dict[str, dict[str, Any]]


def published(
    devices: dict[str, Attributes], *, pool: str = "node-1", generation: int = 1, of: int = 1, driver: str = DRIVER
) -> ResourceSlice:
    """Build a slice."""
    listed = [{"name": name, "attributes": attributes} for name, attributes in devices.items()]
    spec = {
        "driver": driver,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": of},
        "devices": listed,
    }
    return msgspec.convert({"metadata": {"name": "s"}, "spec": spec}, ResourceSlice)


def text(value: str, name: str = "uuid") -> Attributes:
    """Build a string attribute."""
    return {name: {"string": value}}


@pytest.mark.parametrize(
    ("asked", "attributes", "found"),
    [
        ("uuid", text("GPU-1"), "GPU-1"),
        ("uuid", text("GPU-1", f"{DRIVER}/uuid"), "GPU-1"),
        (f"{DRIVER}/uuid", text("GPU-1"), "GPU-1"),
        (f"{DRIVER}/uuid", text("GPU-1", f"{DRIVER}/uuid"), "GPU-1"),
        ("vendor.example.com/serial", text("S1", "vendor.example.com/serial"), "S1"),
        ("vendor.example.com/serial", text("S1", "serial"), UNKNOWN_HARDWARE),
        ("uuid", text("GPU-1", "vendor.example.com/uuid"), UNKNOWN_HARDWARE),
        ("serial", {"serial": {"int": 7}}, "7"),
        ("serial", {"serial": {"int": 0}}, "0"),
        ("revision", {"revision": {"version": "1.2.3"}}, "1.2.3"),
        ("uuid", {"uuid": {"bool": True}}, UNKNOWN_HARDWARE),
        ("uuid", {"uuid": {"string": ""}}, UNKNOWN_HARDWARE),
        ("uuid", {"uuid": {"quantity": "1"}}, UNKNOWN_HARDWARE),
        ("uuid", {}, UNKNOWN_HARDWARE),
    ],
)
def test_the_attribute_is_found_however_its_domain_is_spelt(asked: str, attributes: Attributes, found: str) -> None:
    """A driver may qualify its attributes or not, and so may the policy; other domains are others."""
    assert identify([published({"gpu-0": attributes})], DEVICE, asked).id == found


def test_an_identity_is_unique_over_all_pools_of_the_driver() -> None:
    """The same value at another device, on any node, makes it ambiguous; that of another driver does not."""
    ours = published({"gpu-0": text("A"), "gpu-1": text("B")})
    assert identify([ours], DEVICE, "uuid").unique
    twin = published({"gpu-7": text("A")}, pool="node-2")
    assert not identify([ours, twin], DEVICE, "uuid").unique
    foreign = published({"gpu-7": text("A")}, pool="node-2", driver="other.example.com")
    assert identify([ours, foreign], DEVICE, "uuid").unique


def test_only_the_highest_complete_generation_counts() -> None:
    """While a driver replaces its slices, the last complete set is believed."""
    old = published({"gpu-0": text("A")}, generation=1)
    half = published({"gpu-0": text("B")}, generation=2, of=2)
    assert identify([old, half], DEVICE, "uuid").id == "A"
    rest = published({"gpu-1": text("C")}, generation=2, of=2)
    assert identify([old, half, rest], DEVICE, "uuid").id == "B"


def test_a_pool_without_a_complete_generation_tells_nothing() -> None:
    """A kubelet that just started has wiped the slices of its node."""
    assert identify([published({"gpu-0": text("A")}, of=2)], DEVICE, "uuid").id == UNKNOWN_HARDWARE
    assert identify([], DEVICE, "uuid").id == UNKNOWN_HARDWARE


def test_a_twin_in_an_incomplete_generation_makes_ambiguous() -> None:
    """What may become true in a moment is no ground for a probe."""
    ours = published({"gpu-0": text("A")})
    half = published({"gpu-7": text("A")}, pool="node-2", of=2)
    assert not identify([ours, half], DEVICE, "uuid").unique


def test_an_outdated_twin_does_not_count() -> None:
    """A card that moved is where the newest complete generation says."""
    ours = published({"gpu-0": text("A")})
    old = published({"gpu-7": text("A")}, pool="node-2", generation=1)
    new = published({"gpu-7": text("B")}, pool="node-2", generation=2)
    assert identify([ours, old, new], DEVICE, "uuid").unique


@pytest.mark.parametrize(
    ("attribute", "expression"),
    [
        ({"string": "GPU-1"}, 'device.attributes["gpu.example.com"]["uuid"] == "GPU-1"'),
        ({"string": 'a"b\\c\n'}, 'device.attributes["gpu.example.com"]["uuid"] == "a\\"b\\\\c\\n"'),
        ({"int": 7}, 'device.attributes["gpu.example.com"]["uuid"] == 7'),
        (
            {"version": "1.2.3"},
            'device.attributes["gpu.example.com"]["uuid"].compareTo(semver("1.2.3")) == 0',
        ),
    ],
)
def test_a_selector_compares_by_type_and_quotes(attribute: dict[str, Any], expression: str) -> None:
    """No identity, whatever is in it, becomes part of the expression."""
    hardware = identify([published({"gpu-0": {"uuid": attribute}})], DEVICE, "uuid")
    guard = 'device.driver == "gpu.example.com" && "uuid" in device.attributes["gpu.example.com"]'
    assert cel_of(hardware, DRIVER) == f"{guard} && {expression}"


def test_unknown_hardware_selects_nothing() -> None:
    """There is no selector without an identity: it would select any device."""
    with pytest.raises(ValueError, match="not published"):
        cel_of(identify([], DEVICE, "uuid"), DRIVER)
