"""Records and fences as the cluster has them, our own writes included before any watch tells us of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import Final

from k8s import fences as fence_wire
from k8s import records as record_wire
from k8s.fences import Fence
from k8s.reading import Undecodable
from k8s.records import DeviceQuarantine
from k8s.store import Change, older
from k8s.wire import DeviceTaintRule
from sickbay.model.device import DeviceKey
from sickbay.model.record import Record
from sickbay.telemetry.alert import Alert
from sickbay.watch.alerts import Alerts

_NONE: Final[Mapping[str, Fence]] = {}


class Books:
    """What is written of each device.

    Of two states of one object the newer resourceVersion is kept, whoever brings it: an answer to our own write, a
    quorum read, or the watch.
    """

    def __init__(
        self,
        cluster: str,
        alerts: Alerts,
        on_record: Callable[[DeviceKey, Record | None, Record | None], None],
        on_fence: Callable[[DeviceKey, Fence | None, Fence | None], None],
    ) -> None:
        """Begin empty.

        Args:
            cluster: our name of the cluster.
            alerts: told of records that cannot be read.
            on_record: told device, record before and after.
            on_fence: told device, fence before and after.
        """
        self._cluster = cluster
        self._alerts = alerts
        self._on_record = on_record
        self._on_fence = on_fence
        self._records: dict[str, Record] = {}
        self._unreadable: set[str] = set()
        self._open: dict[str, Record] = {}
        self._waiting: dict[str, Record] = {}
        self._taken: set[DeviceKey] = set()
        self._taken_of: Counter[str] = Counter()
        self._fences: dict[DeviceKey, dict[str, Fence]] = defaultdict(dict)

    @property
    def open_records(self) -> Collection[Record]:
        """All records of incidents that have not ended."""
        return self._open.values()

    @property
    def waiting(self) -> Collection[Record]:
        """Open records that are not admitted."""
        return self._waiting.values()

    @property
    def records(self) -> Collection[Record]:
        """All records."""
        return self._records.values()

    @property
    def taken(self) -> Mapping[str, int]:
        """Devices by driver that take a place of their pool's share.

        They have an admitted, unclosed record, or a fence of ours whether or not its record can be read. A retired
        device takes none: it is not coming back.
        """
        return self._taken_of

    def takes_place(self, device: DeviceKey) -> bool:
        """Say whether a device is among those."""
        return device in self._taken

    @property
    def fenced_devices(self) -> Collection[DeviceKey]:
        """Devices that have a fence of ours."""
        return self._fences.keys()

    def record(self, device: DeviceKey) -> Record | None:
        """Find a device's record, open or closed."""
        return self._records.get(device.record_name)

    def unreadable(self, device: DeviceKey) -> bool:
        """Say whether the device has a record that cannot be decoded: such a device is not free."""
        return device.record_name in self._unreadable

    def fences(self, device: DeviceKey) -> Mapping[str, Fence]:
        """Give the device's fences by name."""
        return self._fences.get(device, _NONE)

    # Records.

    def on_record_change(self, change: Change[DeviceQuarantine]) -> None:
        """Take what the watch tells of a record."""
        name = change.key[1]
        if change.new is None:
            self._mark(name, readable=True)
            gone = change.old.uid if change.old is not None else ""
            known = self._records.get(name)
            if known is not None and known.uid == gone:
                self._put(name, None)
            return
        if change.new.undecodable:
            self._mark(name, readable=False, why="not an object of its type")
            return
        known = self._records.get(name)
        meta = change.new.object.metadata
        if known is not None and (known.uid, known.resource_version) == (meta.uid, meta.resource_version):
            return  # most events tell of our own doing, and decoding them is dear
        try:
            record = record_wire.decode(change.new.object)
        except Undecodable as error:
            self._mark(name, readable=False, why=str(error))
            return
        self.take(record)

    def take(self, record: Record) -> None:
        """Take a record as some answer has it; one that contradicts itself counts as unreadable."""
        wrong = contradiction(record, self._cluster)
        if wrong:
            self._mark(record.name, readable=False, why=wrong)
            return
        self._mark(record.name, readable=True)
        known = self._records.get(record.name)
        if known is not None and known.uid == record.uid:
            if known.resource_version == record.resource_version:
                return
            if older(record.resource_version, known.resource_version):
                return
        self._put(record.name, record)

    def take_list(self, listing: record_wire.Listing) -> None:
        """Take a quorum list: what it does not hold, and we had before it, is gone."""
        names = {record.name for record in listing.records}
        for name in listing.undecodable:
            self._mark(name, readable=False, why="cannot be decoded")
        for known in list(self._records.values()):
            if known.name in names or known.name in listing.undecodable:
                continue
            if older(known.resource_version, listing.resource_version):
                self._put(known.name, None)
        for record in listing.records:
            self.take(record)

    def drop(self, name: str, uid: str) -> None:
        """Take note that a record is gone."""
        known = self._records.get(name)
        if known is not None and known.uid == uid:
            self._put(name, None)

    def cannot_read(self, name: str, why: str) -> None:
        """Take note that a record is there and cannot be decoded; what it said last stays."""
        self._mark(name, readable=False, why=why)

    def restart_history(self) -> None:
        """Forget all versions: the cluster's database was restored, and they start over."""
        self._records = {
            name: record.model_copy(update={"resource_version": "restored"}) for name, record in self._records.items()
        }

    def _put(self, name: str, record: Record | None) -> None:
        before = self._records.pop(name, None)
        if record is not None:
            self._records[name] = record
        self._open.pop(name, None)
        self._waiting.pop(name, None)
        if record is not None and not record.closed:
            self._open[name] = record
            if not record.admitted:
                self._waiting[name] = record
        either = record or before
        if either is not None:
            self._count(either.spec.key)
            self._on_record(either.spec.key, before, record)

    def _count(self, device: DeviceKey) -> None:
        """Keep the count as it goes: a burst asks for it at each of its devices."""
        record = self._open.get(device.record_name)
        known = self._records.get(device.record_name)
        retired = known is not None and known.retired
        takes = (device in self._fences and not retired) or (record is not None and record.admitted)
        if takes and device not in self._taken:
            self._taken.add(device)
            self._taken_of[device.driver] += 1
        elif not takes and device in self._taken:
            self._taken.remove(device)
            self._taken_of[device.driver] -= 1

    def _mark(self, name: str, *, readable: bool, why: str = "") -> None:
        if readable:
            self._unreadable.discard(name)
            self._alerts.end(Alert.RECORD_UNREADABLE, name)
        else:
            self._unreadable.add(name)
            self._alerts.begin(Alert.RECORD_UNREADABLE, name, why=why)

    # Fences.

    def on_fence_change(self, change: Change[DeviceTaintRule]) -> None:
        """Take what the watch tells of a rule; those of others are none of ours."""
        old = self._ours(change.old.object) if change.old is not None else None
        new = self._ours(change.new.object) if change.new is not None else None
        if new is not None:
            self.take_fence(new)
        elif old is not None:
            self._alerts.end(Alert.FENCE_MISMATCHED, old.name)
            device = device_of(old, self._cluster)
            known = self._fences.get(device, {}).get(old.name) if device is not None else None
            if device is not None and known is not None and known.uid == old.uid:
                self._put_fence(device, old.name, None)

    def take_fence(self, fence: Fence) -> None:
        """Take a fence as some answer has it."""
        device = device_of(fence, self._cluster)
        if device is None:
            self._alerts.begin(Alert.FENCE_MISMATCHED, fence.name, why="it names no device of this cluster")
            return
        self._alerts.end(Alert.FENCE_MISMATCHED, fence.name)
        known = self._fences.get(device, {}).get(fence.name)
        if known is not None and known.uid == fence.uid and not older(known.resource_version, fence.resource_version):
            return
        self._put_fence(device, fence.name, fence)

    def _put_fence(self, device: DeviceKey, name: str, fence: Fence | None) -> None:
        mine = self._fences[device]
        before = mine.pop(name, None)
        if fence is not None:
            mine[name] = fence
        if not mine:
            del self._fences[device]
        self._count(device)
        self._on_fence(device, before, fence)

    def _ours(self, rule: DeviceTaintRule) -> Fence | None:
        return fence_wire.read(rule) if fence_wire.ours(rule) else None


def contradiction(record: Record, cluster: str) -> str:
    """Say what of a record's names does not follow from its device, ``""`` if all does: a person may have made it."""
    key, spec = record.spec.key, record.spec
    if spec.cluster != cluster:
        return f"spec.cluster must be {cluster!r}"
    if record.name != key.record_name:
        return f"it must be named {key.record_name}"
    if not spec.incident.startswith(f"incident/{key}/"):
        return f"spec.incident must begin with incident/{key}/"
    return ""


def device_of(fence: Fence, cluster: str) -> DeviceKey | None:
    """Tell which device a fence stands before: what its selector says, for that is what it does."""
    driver, pool, device = fence.selector
    if not (driver and pool and device):
        return None
    return DeviceKey(cluster=cluster, driver=driver, pool=pool, device=device)
