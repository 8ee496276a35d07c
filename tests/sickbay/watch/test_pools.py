"""What drivers publish."""

from __future__ import annotations

from sickbay.model.device import UNKNOWN_HARDWARE
from sickbay.watch.pools import Pools
from tests.sickbay.watch.objects import DRIVER, change, device, published


def test_devices_are_counted_by_driver_over_all_nodes() -> None:
    """The guard's pool is all devices of one driver."""
    pools = Pools()
    for node in ("node-1", "node-2"):
        assert pools.on_slice(change(None, published("gpu-0", "gpu-1", node=node)))
    pools.on_slice(change(None, published("nic-0", driver="nic.example.com")))
    assert dict(pools.published) == {DRIVER: 4, "nic.example.com": 1}


def test_incomplete_generation_counts_nothing_yet() -> None:
    """A pool of two slices counts when both are there."""
    pools = Pools()
    assert not pools.on_slice(change(None, published("gpu-0", count=2, number=0)))
    assert pools.on_slice(change(None, published("gpu-1", count=2, number=1)))
    assert pools.published[DRIVER] == 2


def test_count_stands_while_slices_are_replaced() -> None:
    """Between two generations the last complete one counts; a wiped pool counts nothing."""
    pools = Pools()
    old = [published("gpu-0", count=2, number=0), published("gpu-1", count=2, number=1)]
    for one in old:
        pools.on_slice(change(None, one))
    pools.on_slice(change(old[0], None))
    assert pools.published[DRIVER] == 2
    new = published("gpu-0", "gpu-1", "gpu-2", generation=2)
    pools.on_slice(change(None, new))
    pools.on_slice(change(old[1], None))
    assert pools.published[DRIVER] == 3
    pools.on_slice(change(new, None))
    assert pools.published[DRIVER] == 0


def test_hardware_is_named_by_its_attribute() -> None:
    """The identity attribute of the newest complete slice, else unknown."""
    pools = Pools()
    pools.on_slice(change(None, published("gpu-0")))
    assert pools.hardware_id(device("gpu-0"), "uuid") == "uuid-gpu-0"
    assert pools.hardware_id(device("gpu-0"), "serial") == UNKNOWN_HARDWARE
    assert pools.hardware_id(device("gpu-9"), "uuid") == UNKNOWN_HARDWARE
