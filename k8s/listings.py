"""Quorum lists that many incidents share: one at a time, spaced, and nobody is given one older than the asking.

A burst of a thousand incidents asks for the same claims and slices at once. Each caller joins the next list, which
begins after the call, so that the answer is as live as a read of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Generic, TypeVar

import msgspec
import structlog

from k8s.gateway import REQUEST_TIMEOUT, Gateway
from k8s.hardware import Identities
from k8s.reading import Memory, Reader, Undecodable
from k8s.resources import RESOURCECLAIMS, RESOURCESLICES, Resource
from k8s.store import Key
from k8s.wire import Object, Page, ResourceClaim, ResourceSlice
from sickbay import errors
from sickbay.model.device import DeviceKey

log = structlog.get_logger(__name__)

T = TypeVar("T")
O = TypeVar("O", bound=Object)  # noqa: E741 - an object

SPACING: Final = timedelta(seconds=1)
"""From the beginning of one shared list to the next."""

PAGE_SIZE: Final = 500

_PAGE: Final = msgspec.json.Decoder(Page)
_CLAIM: Final = Reader(ResourceClaim)
_SLICE: Final = Reader(ResourceSlice)


class Shared(Generic[T]):
    """Spaces calls of one function, one at a time; callers of `get` in between share the next one."""

    def __init__(
        self,
        call: Callable[[], Awaitable[T]],
        *,
        spacing: timedelta = SPACING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._call = call
        self._spacing = spacing.total_seconds()
        self._clock = clock
        self._began = -self._spacing
        self._next: asyncio.Task[T] | None = None
        self._running = asyncio.Lock()

    async def get(self) -> T:
        """Give a result whose call began after this one, or raise what it raised."""
        if self._next is None:
            self._next = asyncio.create_task(self._run())
            # All who asked may be cancelled by then; an error that nobody fetches is no news.
            self._next.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._next)

    async def _run(self) -> T:
        async with self._running:
            await asyncio.sleep(max(0.0, self._began + self._spacing - self._clock()))
            self._next = None  # who asks from here on wants a later one
            self._began = self._clock()
            return await self._call()


@dataclass(frozen=True)
class Claims:
    """All claims at one moment.

    Attributes:
        by_name: by namespace and name.
        by_device: those that hold a device, by driver, slice pool and device.
        flawed: what a claim holds could not be read: that a device is not held is then not known.
    """

    by_name: Mapping[Key, ResourceClaim] = field(default_factory=dict)
    by_device: Mapping[tuple[str, str, str], tuple[ResourceClaim, ...]] = field(default_factory=dict)
    flawed: bool = False

    def of(self, device: DeviceKey) -> tuple[ResourceClaim, ...]:
        """Give the claims that hold this device, as users or as observers."""
        return self.by_device.get((device.driver, device.pool, device.device), ())

    @classmethod
    def index(cls, claims: Iterable[ResourceClaim], *, flawed: bool = False) -> Claims:
        """Sort a list of claims."""
        by_name = {(c.metadata.namespace, c.metadata.name): c for c in claims}
        by_device: dict[tuple[str, str, str], dict[Key, ResourceClaim]] = {}
        for name, claim in by_name.items():
            for result in claim.status.allocation.devices.results if claim.status.allocation else ():
                by_device.setdefault((result.driver, result.pool, result.device), {})[name] = claim
        return cls(
            by_name=by_name,
            by_device={device: tuple(holders.values()) for device, holders in by_device.items()},
            flawed=flawed,
        )


class ClaimLister:
    """All claims of the cluster, live; one per process."""

    def __init__(self, gateway: Gateway, *, spacing: timedelta = SPACING) -> None:
        self._gateway = gateway
        self._shared = Shared(self._list, spacing=spacing)
        self._memory = Memory(_CLAIM, {})

    async def get(self) -> Claims:
        """List all claims, together with whoever else asks now."""
        return await self._shared.get()

    async def _list(self) -> Claims:
        self._memory = Memory(_CLAIM, self._memory.seen)
        listed = await list_all(self._gateway, RESOURCECLAIMS, self._memory)
        return Claims.index(listed.items, flawed=listed.flawed)


class SliceLister:
    """All slices of a driver, live; one per process."""

    def __init__(self, gateway: Gateway, *, spacing: timedelta = SPACING) -> None:
        self._gateway = gateway
        self._spacing = spacing
        self._shared: dict[str, Shared[tuple[ResourceSlice, ...]]] = {}
        self._memory: dict[str, Memory[ResourceSlice]] = {}
        self._identities: dict[tuple[str, str], tuple[tuple[ResourceSlice, ...], Identities]] = {}

    async def get(self, driver: str) -> tuple[ResourceSlice, ...]:
        """List the driver's slices of all nodes, together with whoever else asks now."""
        if driver not in self._shared:
            self._shared[driver] = Shared(lambda: self._list(driver), spacing=self._spacing)
        return await self._shared[driver].get()

    async def identities(self, driver: str, attribute: str) -> Identities:
        """Give the identities of a driver's devices, indexed anew when its slices have changed."""
        slices = await self.get(driver)
        indexed = self._identities.get((driver, attribute))
        if indexed is None or indexed[0] != slices:
            indexed = self._identities[driver, attribute] = (slices, Identities.of(slices, driver, attribute))
        return indexed[1]

    async def _list(self, driver: str) -> tuple[ResourceSlice, ...]:
        selector = {"fieldSelector": f"spec.driver={driver}"}
        last = self._memory.get(driver)
        memory = self._memory[driver] = Memory(_SLICE, last.seen if last is not None else {})
        return (await list_all(self._gateway, RESOURCESLICES, memory, params=selector)).items


@dataclass(frozen=True)
class Listed(Generic[O]):
    """A complete list; ``flawed`` if something of a status, or a whole object, could not be read."""

    items: tuple[O, ...]
    flawed: bool = False


async def list_all(
    gateway: Gateway,
    resource: Resource,
    reader: Reader[O] | Memory[O],
    *,
    namespace: str | None = None,
    params: Mapping[str, str] | None = None,
    wait: float = REQUEST_TIMEOUT,
) -> Listed[O]:
    """List all objects of a type by a quorum list in pages; one that cannot be decoded costs itself, and a log line.

    Args:
        gateway: the API server.
        resource: the type.
        reader: decoder of one object.
        namespace: list only this one.
        params: selectors.
        wait: seconds for one page.

    Raises:
        ClusterUnavailable: no answer, or one that is no list.
        Gone: the list took longer than the API server keeps history; call again.
    """
    found: list[O] = []
    flawed = False
    query = {**(params or {}), "limit": str(PAGE_SIZE)}
    path = resource.path(namespace)
    while True:
        data = await gateway.request("GET", path, params=query, wait=wait)
        try:
            page = _PAGE.decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            raise errors.ClusterUnavailable(f"LIST {path}: not a list: {error}") from error
        for raw in page.items or ():
            try:
                decoded = reader(raw)
                found.append(decoded.value)
                flawed |= any(flaw.path.startswith("status") for flaw in decoded.flaws)
            except Undecodable as error:
                flawed = True
                log.warning("listed_object_undecodable", resource=resource.plural, error=str(error))
        if not page.metadata.continue_:
            return Listed(tuple(found), flawed)
        query["continue"] = page.metadata.continue_
