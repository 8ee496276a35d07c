"""Follow all objects of one kind: list, watch, and list again whenever the stream breaks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, Generic

import msgspec

from k8s.gateway import Gateway
from k8s.lab.nodes.wire import Event, Item, Page
from sickbay import errors

_IDLE: Final = 120.0
"""Seconds; bookmarks come about once a minute."""

_AGAIN: Final = 0.1
"""Seconds before the next list after a failure: one client on loopback needs no back-off."""

_PAGE: Final = "500"
_EVENT: Final = msgspec.json.Decoder(Event)


@dataclass
class Follower(Generic[Item]):
    """Keeps up with one kind of object.

    Attributes:
        gateway: where to ask.
        path: of the collection.
        kind: the struct to decode into.
        changed: called with each object that is new or changed, and with all of them after each list.
        gone: called with each object that is there no longer, as it was last seen.
        selector: a field selector.
        synced: set after the first list.
    """

    gateway: Gateway
    path: str
    kind: type[Item]
    changed: Callable[[Item], None]
    gone: Callable[[Item], None]
    selector: str = ""
    synced: asyncio.Event = field(default_factory=asyncio.Event)
    _known: dict[str, Item] = field(default_factory=dict)

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            try:
                await self._watch(await self._list())
            except (errors.UnavailableError, errors.ServerFault, errors.TooManyRequests, errors.Gone):
                await asyncio.sleep(_AGAIN)

    async def _list(self) -> str:
        """List everything, tell the difference, and return the version to watch from."""
        decoder = msgspec.json.Decoder(Page[self.kind])  # type: ignore[name-defined] # a type made at run time
        params = {"limit": _PAGE, **self._selected()}
        found: dict[str, Item] = {}
        while True:
            page = decoder.decode(await self.gateway.request("GET", self.path, params=params))
            found.update({item.metadata.uid: item for item in page.items})
            if not page.metadata.continue_:
                break
            params["continue"] = page.metadata.continue_
        for uid in self._known.keys() - found.keys():
            self.gone(self._known.pop(uid))
        for uid, item in found.items():
            self._known[uid] = item
            self.changed(item)
        self.synced.set()
        return str(page.metadata.resource_version)

    async def _watch(self, version: str) -> None:
        decoder = msgspec.json.Decoder(self.kind)
        params = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version, **self._selected()}
        async with aclosing(self.gateway.stream(self.path, params, idle=_IDLE)) as lines:
            async for line in lines:
                event = _EVENT.decode(line)
                if event.type == "ERROR":
                    return
                if event.type != "BOOKMARK":
                    self._tell(event.type, decoder.decode(event.object))

    def _tell(self, kind: str, item: Item) -> None:
        if kind == "DELETED":
            self._known.pop(item.metadata.uid, None)
            self.gone(item)
        else:
            self._known[item.metadata.uid] = item
            self.changed(item)

    def _selected(self) -> dict[str, str]:
        return {"fieldSelector": self.selector} if self.selector else {}
