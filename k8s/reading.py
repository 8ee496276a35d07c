"""Decode one object at a time, losing no more of it than what is odd.

Clients that decode by a schema lose a whole list for one unexpected null, and a watch for ever. Here an odd field
reads as absent, an odd entry of a list or map is left out, and each is told as a `Flaw`. Null is absent, silently. Only
an object without its identity, or with an odd value for all of its spec or status, is `Undecodable`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, Final, Generic, TypeVar, Union, get_args, get_origin

import msgspec

T = TypeVar("T")

MAX_FLAWS: Final = 20
"""Flaws told of one object; more say nothing new."""


class Kind(StrEnum):
    """What was lost: a closed set, fit for a metric label."""

    FIELD = "field"
    """A field of a type we do not expect, read as absent."""
    ENTRY = "entry"
    """One entry of a list or map."""
    ITEM = "item"
    """A whole object."""


@dataclass(frozen=True, slots=True)
class Flaw:
    """Something of an object that could not be read; ``path`` is for logs only."""

    kind: Kind
    path: str


@dataclass(frozen=True, slots=True)
class Decoded(Generic[T]):
    """An object, and what of it was lost."""

    value: T
    flaws: tuple[Flaw, ...] = ()


class Undecodable(ValueError):
    """An object without its identity, or not an object at all."""


class Reader(Generic[T]):
    """Decoder of one wire type; lenient by field."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._decoder = msgspec.json.Decoder(kind)

    def __call__(self, data: bytes | msgspec.Raw) -> Decoded[T]:
        """Decode one object, dropping what is odd.

        Raises:
            Undecodable: not JSON, or a required field is missing or odd.
        """
        try:
            return Decoded(self._decoder.decode(data))
        except (msgspec.DecodeError, RecursionError):
            pass  # rare: now part by part
        flaws: list[Flaw] = []
        try:
            value: T = _salvage(self._kind, msgspec.json.decode(data), "", flaws)
        except (msgspec.DecodeError, RecursionError, _OddError) as error:
            raise Undecodable(str(error) or type(error).__name__) from error
        return Decoded(value, tuple(flaws[:MAX_FLAWS]))


class Memory(Generic[T]):
    """A reader for one list of many: what is byte for byte as in the last one is not decoded again.

    Attributes:
        seen: what this list held, for the next one.
    """

    def __init__(self, reader: Reader[T], last: Mapping[bytes, Decoded[T]]) -> None:
        self._reader = reader
        self._last = last
        self.seen: dict[bytes, Decoded[T]] = {}

    def __call__(self, data: bytes | msgspec.Raw) -> Decoded[T]:
        """Decode one object, as the reader does."""
        raw = bytes(data)
        decoded = self._last.get(raw) or self._reader(raw)
        self.seen[raw] = decoded
        return decoded


class _OddError(Exception):
    """A value that cannot be read as its type; the text is its path."""


def _salvage(kind: Any, value: Any, path: str, flaws: list[Flaw]) -> Any:
    """Convert a JSON value, leaving out the parts that do not fit."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        pass
    if get_origin(kind) in {Union, UnionType}:  # only "X or None" has a structure to save
        kind = next(choice for choice in get_args(kind) if choice is not NoneType)
    if isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _salvage_struct(kind, value, path, flaws)
    if isinstance(value, dict) and get_origin(kind) is dict:
        found = {key: _salvage_entry(get_args(kind)[1], part, f"{path}.{key}", flaws) for key, part in value.items()}
        return {key: part for key, part in found.items() if part is not _LOST}
    if isinstance(value, list) and get_origin(kind) is tuple:
        parts = [_salvage_entry(get_args(kind)[0], part, f"{path}[{n}]", flaws) for n, part in enumerate(value)]
        return tuple(part for part in parts if part is not _LOST)
    raise _OddError(path)


def _salvage_struct(kind: type[msgspec.Struct], value: dict[str, Any], path: str, flaws: list[Flaw]) -> msgspec.Struct:
    found = {}
    for field in msgspec.structs.fields(kind):
        where = f"{path}.{field.encode_name}".lstrip(".")
        part = value.get(field.encode_name)
        if part is None:  # null is absent
            if field.required:
                raise _OddError(where)
            continue
        try:
            found[field.name] = _salvage(field.type, part, where, flaws)
        except _OddError:
            if field.required or not path:
                raise
            flaws.append(Flaw(Kind.FIELD, where))
    return kind(**found)


_LOST: Final = object()


def _salvage_entry(kind: Any, value: Any, path: str, flaws: list[Flaw]) -> Any:
    try:
        return _salvage(kind, value, path, flaws)
    except _OddError:
        flaws.append(Flaw(Kind.ENTRY, path))
        return _LOST
