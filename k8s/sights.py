"""What people look at, of one moment or as it changes: records, taint rules, published devices. Nothing is written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from k8s import fences, records
from k8s.gateway import Gateway
from k8s.informer import PAGE_TIMEOUT, Informer
from k8s.listings import list_all
from k8s.reading import Reader
from k8s.records import DeviceQuarantine
from k8s.resources import DEVICEQUARANTINES, RESOURCESLICES, Resource, served
from k8s.wire import DeviceTaintRule, ResourceSlice
from sickbay import errors

BREATH: Final = 0.2
"""Seconds between two looks of `follow`, so that a burst of changes is told once."""

_SLICE: Final = Reader(ResourceSlice)


@dataclass(frozen=True)
class Sight:
    """What there is at one moment.

    Attributes:
        quarantines: all records, also those that `k8s.records.decode` cannot read.
        rules: all device taint rules, ours and others'; empty where none are served.
        slices: all resource slices; empty if they were not asked for.
    """

    quarantines: tuple[DeviceQuarantine, ...] = ()
    rules: tuple[DeviceTaintRule, ...] = ()
    slices: tuple[ResourceSlice, ...] = field(default=(), repr=False)


async def look(gateway: Gateway, *, slices: bool) -> Sight:
    """Read everything once.

    Args:
        gateway: with the rights to list; members of group ``sickbay:operators`` have them.
        slices: whether to read resource slices, which are many in a large cluster.

    Raises:
        UsageError: Sickbay is not installed.
        ClusterError, ClusterUnavailable: it could not be read.
    """
    rules = await served(gateway)
    try:
        quarantines = (await list_all(gateway, DEVICEQUARANTINES, records.READER, wait=PAGE_TIMEOUT)).items
    except errors.NotFound as error:
        _not_installed(gateway, error)
    return Sight(
        quarantines=quarantines,
        rules=(await list_all(gateway, rules, fences.READER, wait=PAGE_TIMEOUT)).items if rules else (),
        slices=await published_slices(gateway) if slices else (),
    )


async def published_slices(gateway: Gateway) -> tuple[ResourceSlice, ...]:
    """Read all resource slices, of all drivers.

    Raises:
        ClusterError, ClusterUnavailable: they could not be read.
    """
    return (await list_all(gateway, RESOURCESLICES, _SLICE, wait=PAGE_TIMEOUT)).items


async def follow(gateway: Gateway, tell: Callable[[Sight], None], *, slices: bool) -> NoReturn:
    """Tell what there is, and again whenever something has changed, until cancelled.

    Raises:
        UsageError, ClusterError, ClusterUnavailable: as `look`, of the first reading alone; later ones are tried again.
    """
    tell(await look(gateway, slices=slices))
    changed = asyncio.Event()
    rules = await served(gateway)

    def informer(resource: Resource, kind: type[Any]) -> Informer[Any]:
        return Informer(gateway, resource, kind, lambda _: changed.set())

    of_records = informer(DEVICEQUARANTINES, DeviceQuarantine)
    of_rules = informer(rules, DeviceTaintRule) if rules else None
    of_slices = informer(RESOURCESLICES, ResourceSlice) if slices else None
    informers = [i for i in (of_records, of_rules, of_slices) if i is not None]
    async with AsyncExitStack() as stack:
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        for one in informers:
            tasks.create_task(one.run())
        for one in informers:
            await one.synced.wait()
        while True:
            await changed.wait()
            changed.clear()
            tell(Sight(_items(of_records), _items(of_rules), _items(of_slices)))
            await asyncio.sleep(BREATH)


def _items(informer: Informer[Any] | None) -> tuple[Any, ...]:
    if informer is None:
        return ()
    return tuple(item.object for _, item in sorted(informer.items.items()))


def _not_installed(gateway: Gateway, error: errors.NotFound) -> NoReturn:
    raise errors.UsageError(
        f"{gateway.server} has no {DEVICEQUARANTINES.plural}.{DEVICEQUARANTINES.group}; run 'sickbay install'"
    ) from error
