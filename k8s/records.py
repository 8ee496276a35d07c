"""`DeviceQuarantine` objects: Sickbay's own record of a device, and the lock on it.

Every write names the resourceVersion that it was decided on, and sends only what differs: two writers never overwrite
each other, and a repeated write is none. The leader writes ``spec``, an incident's activities write ``status`` and take
the finalizer off (design rule "one writer per field"); the API server's admission policies hold the leader to its term.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import structlog
from pydantic import ValidationError

from k8s.gateway import MERGE_PATCH, Gateway
from k8s.patches import difference
from k8s.reading import Reader, Undecodable
from k8s.resources import DEVICEQUARANTINES
from k8s.wire import Object, Page
from sickbay import errors
from sickbay.model.base import Wire
from sickbay.model.device import DeviceKey
from sickbay.model.record import (
    DEVICE_ANNOTATION,
    DISOWN_INCIDENT,
    DISOWN_REASON,
    DISOWNED_BY,
    EFFECT_ANNOTATION,
    FINALIZER,
    Disowning,
    Record,
    RecordSpec,
    RecordStatus,
)
from sickbay.model.trace import TRACE_ANNOTATION, trace_id

log = structlog.get_logger(__name__)

PAGE_SIZE: Final = 500
"""Records per page of a list."""

_PAGE: Final = msgspec.json.Decoder(Page)


class DeviceQuarantine(Object, frozen=True):
    """A record on the wire: `decode` tells what it says. Fit for an informer."""

    spec: Any = None
    status: Any = None


READER: Final = Reader(DeviceQuarantine)
"""Decoder for an informer over records."""


@dataclass(frozen=True)
class Listing:
    """All records at one moment.

    Attributes:
        records: those that could be read.
        undecodable: names of those that could not: such a device is not free.
        resource_version: of the list.
    """

    records: tuple[Record, ...]
    undecodable: tuple[str, ...]
    resource_version: str


def decode(item: DeviceQuarantine) -> Record:
    """Tell what a record says.

    Raises:
        Undecodable: a field of the record is missing or odd; the text names the object and the field.
    """
    meta = item.metadata
    try:
        return Record.model_validate(
            {
                "name": meta.name,
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
                "deleting": bool(meta.deletion_timestamp),
                "finalizers": meta.finalizers,
                "disowning": _disowning(meta.annotations),
                "spec": item.spec,
                "status": {} if item.status is None else item.status,
            }
        )
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise Undecodable(f"DeviceQuarantine {meta.name}: {field}: {first['msg']}") from error


class Records:
    """The records of one cluster, read past every cache."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def get(self, name: str) -> Record:
        """Read one record, by a quorum read.

        Args:
            name: `DeviceKey.record_name`.

        Raises:
            NotFound: there is none.
            Undecodable: it is there and cannot be read.
            UsageError: records are not served at all: Sickbay is not installed. So do all other verbs.
        """
        return _record(await self._send("GET", DEVICEQUARANTINES.path(name=name)))

    async def list(self) -> Listing:
        """Read all records, by a quorum list in pages: one that cannot be decoded costs itself alone, and a log line.

        Raises:
            Gone: the list took longer than the API server keeps history; call again.
            ClusterUnavailable: no answer, or one that is no list.
        """
        records: list[Record] = []
        undecodable: list[str] = []
        query = {"limit": str(PAGE_SIZE)}
        while True:
            page = await self._page(query)
            for raw in page.items or ():
                item = READER(raw).value
                try:
                    records.append(decode(item))
                except Undecodable as error:
                    undecodable.append(item.metadata.name)
                    log.warning("record_undecodable", name=item.metadata.name, error=str(error))
            if not page.metadata.continue_:
                return Listing(tuple(records), tuple(undecodable), page.metadata.resource_version or "")
            query["continue"] = page.metadata.continue_

    async def _page(self, query: Mapping[str, str]) -> Page:
        path = DEVICEQUARANTINES.path()
        try:
            return _PAGE.decode(await self._send("GET", path, params=query))
        except msgspec.DecodeError as error:
            raise errors.ClusterUnavailable(f"LIST {path}: not a list: {error}") from error

    async def create(self, key: DeviceKey, spec: RecordSpec) -> Record:
        """Create the record of a device that has none.

        Raises:
            AlreadyExists: it has one: read it.
            Forbidden: an admission policy refused: another leader's term, or not our account.
            ValueError: the spec is of another device.
        """
        if spec.key != key:
            raise ValueError(f"record of {key} with the spec of {spec.key}")
        body = {
            "apiVersion": DEVICEQUARANTINES.api_version,
            "kind": "DeviceQuarantine",
            "metadata": {
                "name": key.record_name,
                "finalizers": [FINALIZER],
                "annotations": {
                    DEVICE_ANNOTATION: str(key),
                    EFFECT_ANNOTATION: _claim_key(spec),
                    TRACE_ANNOTATION: trace_id(spec.incident),
                },
            },
            "spec": _wire(spec),
        }
        return _record(await self._send("POST", DEVICEQUARANTINES.path(), body=body))

    async def write_spec(self, record: Record, spec: RecordSpec) -> Record:
        """Write what of the spec differs; a closed record that is taken over gets its finalizer back in the same write.

        Returns:
            The record as it is now; `record` itself if nothing differed.

        Raises:
            Conflict: somebody wrote since `record` was read: read again and decide again.
            NotFound: it is gone.
            Forbidden: as `create`.
            ValueError: the spec is of another device.
        """
        if spec.key != record.spec.key:
            raise ValueError(f"record of {record.spec.key} with the spec of {spec.key}")
        if spec == record.spec:
            return record
        patch: dict[str, Any] = {"spec": _changes(record.spec, spec)}
        metadata: dict[str, Any] = {}
        if _claim_key(spec) != _claim_key(record.spec):
            metadata["annotations"] = {
                EFFECT_ANNOTATION: _claim_key(spec),
                TRACE_ANNOTATION: trace_id(spec.incident),
            }
        if FINALIZER not in record.finalizers and not record.deleting:
            metadata["finalizers"] = [*record.finalizers, FINALIZER]
        return await self._patch(record, patch, metadata)

    async def write_status(self, record: Record, status: RecordStatus) -> Record:
        """Write what of the status differs.

        Returns and raises as `write_spec`.
        """
        if status == record.status:
            return record
        patch = {"status": _changes(record.status, status)}
        return await self._patch(record, patch, {}, subresource="status")

    async def disown(self, record: Record, word: Disowning) -> Record:
        """Write a person's word that the device is to go back into the pool without proof.

        Returns and raises as `write_spec`; the API server refuses whoever is not of the break-glass group.
        """
        said = {DISOWNED_BY: word.by, DISOWN_REASON: word.reason, DISOWN_INCIDENT: word.incident}
        return await self._patch(record, {}, {"annotations": said})

    async def unlatch(self, record: Record, effect_key: str) -> Record:
        """Take our finalizer off a closed record, so that it can be deleted.

        Args:
            record: as read.
            effect_key: kept as annotation of the same write, so that an audit log counts it.

        Raises:
            Conflict: as `write_spec`.
            NotFound: it is gone; so it is when it was being deleted and this was its last finalizer.
        """
        if FINALIZER not in record.finalizers:
            return record
        rest = [finalizer for finalizer in record.finalizers if finalizer != FINALIZER]
        return await self._patch(record, {}, {"finalizers": rest, "annotations": {EFFECT_ANNOTATION: effect_key}})

    async def delete(self, record: Record) -> None:
        """Delete exactly this state of a record whose finalizer is off. Gone is success.

        Raises:
            Conflict: it is another object, or was written since.
            ValueError: our finalizer is on: its incident is not over.
        """
        if FINALIZER in record.finalizers:
            raise ValueError(f"record {record.name} still has its finalizer: its incident has not let go of it")
        body = {"preconditions": {"uid": record.uid, "resourceVersion": record.resource_version}}
        try:
            await self._send("DELETE", DEVICEQUARANTINES.path(name=record.name), body=body)
        except errors.NotFound:
            log.info("record_already_gone", name=record.name)

    async def _patch(
        self, record: Record, patch: Mapping[str, Any], metadata: Mapping[str, Any], *, subresource: str | None = None
    ) -> Record:
        body = {**patch, "metadata": {**metadata, "resourceVersion": record.resource_version}}
        path = DEVICEQUARANTINES.path(name=record.name, subresource=subresource)
        return _record(await self._send("PATCH", path, body=body, content_type=MERGE_PATCH))

    async def _send(self, method: str, path: str, **request: Any) -> bytes:
        """Make a request; that the *type* is not found must not read as a record that is gone."""
        try:
            return await self._gateway.request(method, path, **request)
        except errors.NotFound as error:
            if error.name:
                raise
            raise errors.UsageError(
                f"{self._gateway.server} does not serve DeviceQuarantines: run 'sickbay install'"
            ) from error


def _record(data: bytes) -> Record:
    return decode(READER(data).value)


def _disowning(annotations: Mapping[str, str]) -> dict[str, str] | None:
    """Read the word of a person; half a word is none."""
    said = {
        "by": annotations.get(DISOWNED_BY, ""),
        "reason": annotations.get(DISOWN_REASON, ""),
        "incident": annotations.get(DISOWN_INCIDENT, ""),
    }
    return said if all(said.values()) else None


def _wire(model: Wire) -> dict[str, Any]:
    """Absent is how a missing value is written: the API server refuses null where the schema says string."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def _changes(read: Wire, new: Wire) -> dict[str, Any]:
    """Compare with what was on the wire: a field that only has its default there is not there."""
    there = read.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
    return difference(there, _wire(new))


def _claim_key(spec: RecordSpec) -> str:
    """Effect key of the write that gives a record to a run of an incident."""
    return f"{spec.key}/{spec.status_version}/record/{spec.run}"
