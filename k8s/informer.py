"""A live copy of all objects of one type: list, watch, and what it takes to trust that.

One informer is one task of the event loop. It tells each change to one plain function, synchronously and in order; a
watcher merges several informers by giving them methods of its own. An exception of that function ends the informer: it
is a bug, not weather. What becomes of each object is in `k8s.store`.

Rules, and what each is for:

- A list is read in pages; deletes are what a complete list no longer holds.
- A watch resumes from the last resourceVersion seen, bookmarks included. Whatever refuses it (410 as status or inside
  the stream, any other error) leads to a new list; a cut connection only to a new watch.
- An ERROR event is never an object, and an empty resourceVersion is never sent.
- The watch ends when the next resync is due, so that a lost event costs at most `RESYNC`.
- Pauses grow while nothing moves. A watch that the server closes at once with 200 counts as a failure.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from datetime import timedelta
from typing import Final, Generic, TypeVar

import msgspec
import structlog

from k8s.gateway import Gateway, stream_error
from k8s.resources import Resource
from k8s.store import Change, Count, Item, Key, Store, older
from k8s.wire import Bookmark, Event, Object, Page
from sickbay import errors

log = structlog.get_logger(__name__)

T = TypeVar("T", bound=Object)

PAGE_SIZE: Final = 500
"""Objects per page of a list, as client-go and kubectl use."""

PAGE_TIMEOUT: Final = 30.0
"""Seconds for one page: 500 pods are some 4 MB."""

IDLE: Final = 90.0
"""Seconds without a byte after which a watch counts as dead: the API server sends a bookmark about once a minute."""

SETTLED: Final = 5.0
"""Seconds that a watch must live, if it brings nothing, to count as healthy."""

PAUSE: Final = 0.25
PAUSE_CAP: Final = 15.0
"""Seconds before the first new attempt and at most; doubled in between, each times 0.5 to 1 by chance."""

RESYNC: Final = timedelta(minutes=10)
"""Between full lists. Events are not lost by a correct server; this bounds what an incorrect one can cost."""

WATCH_AT_MOST: Final = 300.0
"""Seconds asked for per watch: proxies cut longer ones less politely."""

_PAGE: Final = msgspec.json.Decoder(Page)
_EVENT: Final = msgspec.json.Decoder(Event)
_BOOKMARK: Final = msgspec.json.Decoder(Bookmark)


class Informer(Generic[T]):
    """Keeps ``items`` equal to the cluster's objects of one type, and tells what changes.

    Attributes:
        synced: set once the first list is complete.
        problem: the error that the last attempt ended with, None once something worked again.
        history: grows when the cluster's database was restored; resourceVersions compare within one history only.
    """

    def __init__(
        self,
        gateway: Gateway,
        resource: Resource,
        kind: type[T],
        on_change: Callable[[Change[T]], None],
        *,
        namespace: str | None = None,
        params: Mapping[str, str] | None = None,
        resync: timedelta = RESYNC,
        pause: float = PAUSE,
        idle: float = IDLE,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """Prepare; `run` does the work.

        Args:
            gateway: the API server.
            resource: the type.
            kind: wire type to decode into.
            on_change: told each change, after ``items`` has it.
            namespace: watch only this one.
            params: selectors: ``labelSelector``, ``fieldSelector``.
            resync: between full lists.
            pause: seconds before the first new attempt after a failure.
            idle: seconds without a byte after which a watch counts as dead.
            clock: monotonic seconds.
            sleep: waits that many seconds.
        """
        self.synced = asyncio.Event()
        self.problem: errors.SickbayError | None = None
        self.history = 0
        self._gateway = gateway
        self._resource = resource
        self._store = Store(kind, on_change, plural=resource.plural)
        self._path = resource.path(namespace)
        self._params = dict(params or {})
        self._resync = resync.total_seconds()
        self._pause = pause
        self._idle = idle
        self._clock = clock
        self._sleep = sleep
        self._version = ""  # where a watch resumes
        self._list_at = clock()  # when the next full list is due
        self._alive_at = clock()
        self._asked_to_wait = 0.0
        self._log = log.bind(resource=resource.plural)

    @property
    def items(self) -> Mapping[Key, Item[T]]:
        """All objects by namespace and name."""
        return self._store.items

    @property
    def counts(self) -> Counter[Count]:
        """What happened so far."""
        return self._store.counts

    @property
    def staleness(self) -> float:
        """Seconds since the API server last proved that this copy is current: a list, an event or a bookmark.

        A silent, healthy cluster proves it about once a minute.
        """
        return self._clock() - self._alive_at

    async def run(self) -> None:
        """List and watch until cancelled."""
        attempt = 0
        while True:
            attempt = 0 if await self._attempt() else attempt + 1
            pause = min(PAUSE_CAP, self._pause * 2 ** min(attempt, 16)) * random.uniform(0.5, 1.0)  # noqa: S311 - jitter
            pause, self._asked_to_wait = max(pause, self._asked_to_wait), 0.0
            await self._sleep(pause)

    async def _attempt(self) -> bool:
        """List if due, then watch; tell whether the watch brought something or lived for a while."""
        began, before = None, ""
        try:
            if self._clock() >= self._list_at:
                await self._list()
            began, before = self._clock(), self._version
            await self._watch()
        except errors.SickbayError as error:
            self._failed(error)
        if began is not None and (self._version != before or self._clock() - began >= SETTLED):
            return True
        self.counts[Count.FAILURES] += 1
        return False

    def _failed(self, error: errors.SickbayError) -> None:
        if isinstance(error, errors.ClusterError):
            self._asked_to_wait = min(error.retry_after or 0.0, 4 * PAUSE_CAP)
            if not isinstance(error, errors.TooManyRequests):
                self._list_soon()  # whatever is wrong with resuming here, a new list is the way out
        if isinstance(error, errors.Gone):
            self.counts[Count.GONE] += 1
            self._log.info("watch_expired", error=str(error))
            return
        if type(error) is not type(self.problem):
            self._log.warning("informer_failed", error=str(error))
        self.problem = error

    def _list_soon(self) -> None:
        self._list_at = self._clock()

    def _alive(self) -> None:
        self._alive_at = self._clock()
        self.problem = None

    async def _list(self) -> None:
        self.counts[Count.LISTS] += 1
        page = await self._page("")
        version = page.metadata.resource_version or ""
        if not version:
            raise errors.ClusterUnavailable(f"LIST {self._path}: the list has no resourceVersion")
        restored = older(version, self._version)
        if restored:
            self.history += 1
            self.counts[Count.HISTORY_BREAKS] += 1
            self._log.error("history_broke", had=self._version, found=version)
        seen: set[Key] = set()
        nameless = False
        while True:
            for raw in page.items or ():
                meta = self._store.take(raw, restored=restored)
                nameless |= meta is None
                if meta is not None:
                    seen.add((meta.namespace, meta.name))
            if not page.metadata.continue_:
                break
            page = await self._page(page.metadata.continue_)
        self._store.lose([key for key in self.items if key not in seen], believed=not nameless)
        # The first page's version: whatever later pages saw beyond it, the watch only tells again.
        self._version = version
        self._list_at = self._clock() + self._resync * random.uniform(0.8, 1.0)  # noqa: S311 - spreads load
        self._alive()
        self.synced.set()

    async def _page(self, continued: str) -> Page:
        params = {**self._params, "limit": str(PAGE_SIZE)}
        if continued:
            params["continue"] = continued
        data = await self._gateway.request("GET", self._path, params=params, wait=PAGE_TIMEOUT)
        try:
            return _PAGE.decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            raise errors.ClusterUnavailable(f"LIST {self._path}: not a list: {error}") from error

    async def _watch(self) -> None:
        self.counts[Count.WATCHES] += 1
        seconds = min(WATCH_AT_MOST, max(1.0, self._list_at - self._clock()))
        params = {
            **self._params,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(round(seconds)),
        }
        async with aclosing(self._gateway.stream(self._path, params, idle=self._idle)) as lines:
            async for line in lines:
                self._event(line)
                if self._clock() >= self._list_at:
                    return

    def _event(self, line: bytes) -> None:
        try:
            event = _EVENT.decode(line)
            bookmark = _BOOKMARK.decode(event.object) if event.type == "BOOKMARK" else None
        except (msgspec.DecodeError, RecursionError) as error:
            self._list_soon()
            raise errors.ClusterUnavailable(f"WATCH {self._path}: not an event: {error}") from error
        if bookmark is not None:
            self.counts[Count.BOOKMARKS] += 1
            self._advance(bookmark.metadata.resource_version)
        elif event.type in {"ADDED", "MODIFIED", "DELETED"}:
            self.counts[Count.EVENTS] += 1
            meta = self._store.take(event.object, deleted=event.type == "DELETED")
            if meta is None:
                self._list_soon()  # something changed, and only a list can tell what
            else:
                self._advance(meta.resource_version)
        elif event.type == "ERROR":
            raise stream_error(bytes(event.object), request=f"WATCH {self._path}")
        else:
            self.counts[Count.ODD_EVENTS] += 1
            self._log.warning("watch_event_odd", type=event.type[:40])

    def _advance(self, version: str) -> None:
        self._alive()
        if version and not older(version, self._version):
            self._version = version
