"""The leader's writes: each carries the term, and is in our books before anybody else hears of it."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from k8s.fences import Fence, Fences
from k8s.reading import Undecodable
from k8s.records import Records
from sickbay import errors
from sickbay.model.device import DeviceKey
from sickbay.model.policy import Mode, Policy
from sickbay.model.record import Record, RecordSpec
from sickbay.policy.opening import target_of
from sickbay.telemetry import tracing
from sickbay.telemetry.alert import Alert
from sickbay.telemetry.metrics import Metrics, Refusal
from sickbay.watch.alerts import Alerts
from sickbay.watch.directory import Directory
from sickbay.watch.office import Office

log = structlog.get_logger(__name__)


class Writer:
    """Writes records' specs, and fences on sight."""

    def __init__(
        self,
        records: Records,
        fences: Fences,
        directory: Directory,
        office: Office,
        policy: Policy,
        metrics: Metrics,
        alerts: Alerts,
        clock: Callable[[], float],
    ) -> None:
        self._records = records
        self._fences = fences
        self._directory = directory
        self._office = office
        self._policy = policy
        self._metrics = metrics
        self._alerts = alerts
        self._clock = clock

    async def write(self, device: DeviceKey, before: Record | None, spec: RecordSpec) -> Record | None:
        """Create a device's record, or write the spec of the one it has.

        Returns:
            The record, or None if somebody wrote first: the books then hold what they wrote.

        Raises:
            ClusterError: the API server refuses.
            ClusterUnavailable: whether it was written is not known.
        """
        try:
            if before is None:
                record = await self._records.create(device, spec)
            else:
                record = await self._records.write_spec(before, spec)
        except (errors.Conflict, errors.NotFound):
            self._metrics.refused(Refusal.CONFLICT)
            await self.reread(device)
            return None
        except errors.SickbayError as error:
            self._refused(error, spec.incident)
            raise
        self._alerts.end(Alert.WRITE_REFUSED)
        self._directory.books.take(record)
        return record

    async def open(
        self, device: DeviceKey, before: Record | None, spec: RecordSpec, part: tracing.Part
    ) -> Record | None:
        """Write the record of a new incident, and tell how its story begins.

        Nothing is told of an incident that did not come to be; of one of which that is not known, whoever finds it.

        Returns and raises as `write`.
        """
        record = None
        try:
            record = await self.write(device, before, spec)
        finally:
            if record is None:
                part.drop()
        if record is not None:
            tracing.begin_story(record)
        return record

    async def reread(self, device: DeviceKey) -> Record | None:
        """Read a device's record live into the books; None if there is none, or none that can be read."""
        books = self._directory.books
        known = books.record(device)
        try:
            record = await self._records.get(device.record_name)
        except errors.NotFound:
            if known is not None:
                books.drop(known.name, known.uid)
            return None
        except Undecodable as error:
            books.cannot_read(device.record_name, str(error))
            return None
        books.take(record)
        return record

    async def fence(self, record: Record, *, waited: bool = False) -> Fence | None:
        """Put the first fence of a record's incident: the very one that its activity would put; there already is fine.

        An incident that began with another policy is left to fence by that one.

        Args:
            record: admitted.
            waited: for the guard, a person or another leader: then it says nothing of how fast fences are.

        Raises:
            ClusterError, ClusterUnavailable: as `write`; the incident fences too, once it runs.
        """
        spec = record.spec
        if spec.policy_hash not in {"", self._policy.digest}:
            return None
        with tracing.part("fence", spec.incident, fence=spec.key.numbered(spec.first_fence), waited=waited) as part:
            try:
                placed = await self._fences.put(
                    spec.key,
                    spec.first_fence,
                    incident=spec.incident,
                    effect_key=target_of(record).effect_key("fence", spec.first_fence),
                    shadow=self._policy.mode is Mode.SHADOW,
                    term=self._office.term,
                )
            except errors.SickbayError as error:
                part.failed(error)
                self._refused(error, spec.incident)
                raise
            part.note(created=placed.created)
        self._directory.books.take_fence(placed.fence)
        if not placed.matches:
            self._alerts.begin(Alert.FENCE_MISMATCHED, placed.fence.name, incident=spec.incident)
        if placed.created:
            seconds = self._clock() - self._directory.changed_at(spec.key)
            if not waited:
                self._metrics.fenced(seconds)
            log.info(
                "device_fenced", incident=spec.incident, fence=placed.fence.name, milliseconds=round(seconds * 1000)
            )
        return placed.fence

    async def reread_fences(self, device: DeviceKey) -> tuple[Fence, ...]:
        """Read a device's fences live into the books."""
        fences = await self._fences.list(device)
        for fence in fences:
            self._directory.books.take_fence(fence)
        return fences

    def _refused(self, error: errors.SickbayError, incident: str) -> None:
        if isinstance(error, errors.UnavailableError):
            self._metrics.refused(Refusal.UNAVAILABLE)
        elif isinstance(error, errors.Forbidden) and not self._office.leads:
            # Another leads by now, and the API server knows before we do: that is what terms are for.
            self._metrics.refused(Refusal.TERM)
            log.warning("write_refused_by_term", term=self._office.term, incident=incident)
        else:
            self._metrics.refused(Refusal.FORBIDDEN if isinstance(error, errors.Forbidden) else Refusal.INVALID)
            self._alerts.begin(Alert.WRITE_REFUSED, error=str(error), incident=incident)
