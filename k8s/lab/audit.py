"""Read the API server's audit log: who did what to which object, and how it ended.

Only requests that ended are told (stage ResponseComplete or Panic), each once. The API server writes the line before
the answer goes out, so whoever has an answer finds its line here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec


class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    """Base: immutable, camelCase on the wire, unknown fields skipped."""


class ObjectReference(_Wire, frozen=True):
    """What a request was about; ``name`` is ``""`` for a collection and for a create whose name is in its body."""

    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_group: str = ""


class User(_Wire, frozen=True):
    """Who asked."""

    username: str = ""


class ResponseStatus(_Wire, frozen=True):
    """How it ended."""

    code: int = 0
    reason: str = ""


class Entry(_Wire, frozen=True):
    """One request that ended.

    Attributes:
        verb: as RBAC names it: get, list, watch, create, update, patch, delete, deletecollection.
        object_ref: what it was about.
        user: who asked.
        response_status: how it ended.
        request_object: the body, where the audit policy keeps it (for a patch the patch itself), else None.
        response_object: the answer, likewise.
        request_received_timestamp: RFC 3339 with microseconds, by the API server's clock.
        stage_timestamp: when it ended.
        user_agent: as sent.
        audit_id: of the request, unique.
        request_uri: path and query.
    """

    stage: str
    verb: str
    audit_id: str = msgspec.field(name="auditID")
    object_ref: ObjectReference = ObjectReference()
    user: User = User()
    response_status: ResponseStatus = ResponseStatus()
    request_object: Any = None
    response_object: Any = None
    request_received_timestamp: str = ""
    stage_timestamp: str = ""
    user_agent: str = ""
    request_uri: str = msgspec.field(name="requestURI", default="")

    @property
    def code(self) -> int:
        """HTTP status."""
        return self.response_status.code

    @property
    def resource(self) -> str:
        """``resource`` or ``resource/subresource``."""
        ref = self.object_ref
        return f"{ref.resource}/{ref.subresource}" if ref.subresource else ref.resource

    @property
    def name(self) -> str:
        """Name of the object; of a created one as far as the audit policy keeps bodies."""
        if self.object_ref.name or not isinstance(self.request_object, dict):
            return self.object_ref.name
        return str(self.request_object.get("metadata", {}).get("name", ""))

    @property
    def namespace(self) -> str:
        """Namespace of the object, ``""`` for a cluster-scoped one."""
        return self.object_ref.namespace

    @property
    def wrote(self) -> bool:
        """Whether it was a request to change something, and was accepted."""
        return self.verb not in {"get", "list", "watch"} and 200 <= self.code < 300  # noqa: PLR2004


class AuditLog:
    """Reads on from where it was; one reader has one place.

    Args:
        path: the log; it may not exist yet.
        from_end: skip what is there already.
    """

    def __init__(self, path: Path, *, from_end: bool = False) -> None:
        self._path = path
        self._offset = path.stat().st_size if from_end and path.exists() else 0
        self._decoder = msgspec.json.Decoder(Entry)

    def read(self) -> list[Entry]:
        """Return the requests that ended since the last call, oldest first. Blocks on the disk only."""
        return list(self._read())

    def _read(self) -> Iterator[Entry]:
        if not self._path.exists():
            return
        with self._path.open("rb") as log:
            log.seek(self._offset)
            for line in log:
                if not line.endswith(b"\n"):  # half written
                    return
                self._offset += len(line)
                entry = self._decoder.decode(line)
                if entry.stage in {"ResponseComplete", "Panic"}:
                    yield entry
