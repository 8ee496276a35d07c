"""What drivers publish: how many devices there are, and which hardware each one is."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from k8s.hardware import identify
from k8s.store import Change, Key
from k8s.wire import ResourceSlice
from sickbay.model.device import DeviceKey

SlicePool = tuple[str, str]
"""Driver and slice pool."""


class Pools:
    """Published devices, kept up to date slice by slice.

    A slice pool counts what its highest complete generation holds. While a driver replaces its slices one by one no
    generation is complete, and the last count stands; with its last slice gone a pool counts nothing.
    """

    def __init__(self) -> None:
        self._slices: dict[SlicePool, dict[Key, ResourceSlice]] = defaultdict(dict)
        self._counts: dict[SlicePool, int] = {}
        self._published: Counter[str] = Counter()

    @property
    def published(self) -> Mapping[str, int]:
        """Devices by driver."""
        return self._published

    def on_slice(self, change: Change[ResourceSlice]) -> bool:
        """Take a change of a slice; say whether the number of devices of a driver changed.

        A slice that cannot be read keeps its last good state.
        """
        pools = set()
        if change.old is not None:
            pool = _pool(change.old.object)
            self._slices[pool].pop(change.key, None)
            pools.add(pool)
        if change.new is not None:
            pool = _pool(change.new.object)
            self._slices[pool][change.key] = change.new.object
            pools.add(pool)
        changed = False
        for pool in pools:
            changed |= self._count(pool)
        return changed

    def hardware_id(self, device: DeviceKey, attribute: str) -> str:
        """Read the identity attribute of a device, ``unknown`` if it is not published."""
        slices = self._slices.get((device.driver, device.pool), {})
        return identify(slices.values(), device, attribute).id

    def _count(self, pool: SlicePool) -> bool:
        slices = self._slices[pool].values()
        if not slices:
            del self._slices[pool]
        count = _devices(list(slices), self._counts.get(pool, 0))
        before = self._counts.pop(pool, 0)
        if count:
            self._counts[pool] = count
        self._published[pool[0]] += count - before
        return count != before


def _pool(published: ResourceSlice) -> SlicePool:
    return published.spec.driver, published.spec.pool.name


def _devices(slices: list[ResourceSlice], last: int) -> int:
    """Count the devices of the highest complete generation of one slice pool, a device once."""
    generations: dict[int, list[ResourceSlice]] = defaultdict(list)
    for published in slices:
        generations[published.spec.pool.generation].append(published)
    for _, members in sorted(generations.items(), reverse=True):
        if len(members) == members[0].spec.pool.resource_slice_count:
            return len({device.name for member in members for device in member.spec.devices})
    return last if slices else 0
