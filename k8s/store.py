"""The objects that an informer knows, and what changes them.

- An object that cannot be decoded keeps its last good state, marked; it is not taken for deleted. While a list holds an
  object without a readable name, no deletes are drawn from that list.
- Same name, other uid: the old one is deleted, the new one added.
- What is older than what we have is dropped, but for a list after the cluster's database was restored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Generic, TypeVar

import msgspec
import structlog

from k8s.reading import Flaw, Kind, Reader, Undecodable
from k8s.wire import Meta, Object

log = structlog.get_logger(__name__)

T = TypeVar("T", bound=Object)

Key = tuple[str, str]
"""Namespace (``""`` for cluster-scoped types) and name."""

_NAME_ONLY: Final = Reader(Object)


class Count(StrEnum):
    """What an informer counts: a closed set, fit for a metric label."""

    LISTS = "lists"
    WATCHES = "watches"
    EVENTS = "events"
    BOOKMARKS = "bookmarks"
    GONE = "gone"
    """Lists forced by a 410."""
    FAILURES = "failures"
    """Attempts that ended in an error or brought nothing."""
    HISTORY_BREAKS = "history_breaks"
    """Lists older than what we have: the cluster's database was restored."""
    STALE = "stale"
    """Objects older than what we have, dropped."""
    ODD_FIELDS = "odd_fields"
    ODD_ENTRIES = "odd_entries"
    UNDECODABLE = "undecodable"
    NAMELESS = "nameless"
    """Undecodable, and not even the name is known."""
    ODD_EVENTS = "odd_events"
    """Watch events of a type that we do not know."""


@dataclass(frozen=True, slots=True)
class Item(Generic[T]):
    """One object as last seen.

    Attributes:
        object: its last good state.
        version: resourceVersion last seen, which is newer than ``object`` while undecodable.
        undecodable: a newer state may exist that could not be read: what ``object`` says is old.
        flaws: parts of it that were odd and are missing.
    """

    object: T
    version: str
    undecodable: bool = False
    flaws: tuple[Flaw, ...] = ()

    @property
    def uid(self) -> str:
        """Uid of the object."""
        return self.object.metadata.uid


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """One change: added (no ``old``), modified (both) or deleted (no ``new``).

    Attributes:
        key: namespace and name.
        old: before. For a delete that was watched the final state; for one that only a list showed, or whose final
            state cannot be read, the last one known.
        new: after.
    """

    key: Key
    old: Item[T] | None
    new: Item[T] | None


class Store(Generic[T]):
    """Objects by namespace and name; tells each change once, after ``items`` has it.

    Attributes:
        items: read it, never write it.
        counts: of its informer too.
    """

    def __init__(self, kind: type[T], on_change: Callable[[Change[T]], None], *, plural: str) -> None:
        """Begin empty.

        Args:
            kind: wire type to decode into.
            on_change: told each change.
            plural: name of the type, for logs.
        """
        self.items: dict[Key, Item[T]] = {}
        self.counts: Counter[Count] = Counter()
        self._read = Reader(kind)
        self._on_change = on_change
        self._log = log.bind(resource=plural)

    def take(self, raw: msgspec.Raw, *, deleted: bool = False, restored: bool = False) -> Meta | None:
        """Take over one object as listed or watched.

        Args:
            raw: the object.
            deleted: it is gone, and this is its final state.
            restored: accept it even if it is older than what we have.

        Returns:
            Its metadata, or None if not even its name can be read.
        """
        item, meta = self._decode(raw)
        if meta is None:
            return None
        key = (meta.namespace, meta.name)
        old = self.items.get(key)
        if old is not None and not restored and older(meta.resource_version, old.version):
            self.counts[Count.STALE] += 1
            return meta
        if old is not None and (deleted or old.uid != meta.uid):
            self._tell(key, item if item is not None and item.uid == old.uid else old, None)
            old = None
        if deleted:
            return meta
        if item is not None:
            self._put(key, item)
        elif old is not None:
            self._put(key, replace(old, version=meta.resource_version, undecodable=True))
        return meta

    def lose(self, keys: Iterable[Key], *, believed: bool) -> None:
        """Take objects that a complete list does not hold for deleted.

        Args:
            keys: of objects that we have.
            believed: False if the list held an object without a name, which may be any of them: they are kept, marked.
        """
        for key in keys:
            if believed:
                self._tell(key, self.items[key], None)
            else:
                self._put(key, replace(self.items[key], undecodable=True))

    def _decode(self, raw: msgspec.Raw) -> tuple[Item[T] | None, Meta | None]:
        """Read an object, or at least its metadata, or nothing; count what was lost."""
        try:
            decoded = self._read(raw)
        except Undecodable:
            self.counts[Count.UNDECODABLE] += 1
        else:
            for flaw in decoded.flaws:
                self.counts[Count.ODD_FIELDS if flaw.kind is Kind.FIELD else Count.ODD_ENTRIES] += 1
            meta = decoded.value.metadata
            if meta.uid and meta.resource_version:
                return Item(decoded.value, meta.resource_version, flaws=decoded.flaws), meta
            self.counts[Count.UNDECODABLE] += 1
            return None, meta
        try:
            return None, _NAME_ONLY(raw).value.metadata
        except Undecodable as error:
            self.counts[Count.NAMELESS] += 1
            self._log.warning("object_nameless", error=str(error))
            return None, None

    def _put(self, key: Key, new: Item[T]) -> None:
        old = self.items.get(key)
        if old is not None and (old.version, old.undecodable) == (new.version, new.undecodable):
            return
        # Said once, not with each event of an object that stays odd.
        if new.undecodable and not (old is not None and old.undecodable):
            self._log.warning("object_undecodable", namespace=key[0], name=key[1])
        if new.flaws and (old is None or old.flaws != new.flaws):
            self._log.warning("object_flawed", namespace=key[0], name=key[1], path=new.flaws[0].path)
        self._tell(key, old, new)

    def _tell(self, key: Key, old: Item[T] | None, new: Item[T] | None) -> None:
        if new is None:
            del self.items[key]
        else:
            self.items[key] = new
        self._on_change(Change(key, old, new))


def older(version: str, than: str) -> bool:
    """Whether a resourceVersion precedes another of the same type; False unless both are decimal.

    They are comparable as whole numbers since Kubernetes 1.35 (KEP-5504); any other form allows equality only.
    """
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)
