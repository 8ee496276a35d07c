"""All devices: what is said of each, what is published, what is written. Rebuilt from the cluster at any start.

Every method is synchronous and called from one event loop, so that whoever reads sees one moment. It decides nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from k8s.clock import utc_now
from k8s.election import boot_clock
from k8s.fences import Fence
from k8s.store import Change
from k8s.wire import Lease, ResourceSlice
from sickbay.model.device import DeviceKey
from sickbay.model.observation import Health, Observation
from sickbay.model.policy import Policy
from sickbay.model.record import Record
from sickbay.policy import evidence
from sickbay.policy.detect import seen_by
from sickbay.policy.evidence import Moment, Track
from sickbay.telemetry.metrics import Metrics
from sickbay.watch.alerts import Alerts
from sickbay.watch.books import Books
from sickbay.watch.leases import Leases
from sickbay.watch.pools import Pools
from sickbay.watch.translate import Translator

DOUBT_SHARE: Final = 0.5
DOUBT_FLOOR: Final = 16
"""The fleet is in doubt when more than half of all devices that are reported on, and more than these (two nodes of
eight), are Unknown at once: then it is a driver, a network or ourselves, and no device."""


@dataclass
class Listener:
    """What the directory tells.

    Attributes:
        device: something of this device changed: what is said, its record, or a fence.
        fence: a fence of a device before and after.
        pools: the number of published devices changed.
    """

    device: Callable[[DeviceKey], None]
    fence: Callable[[DeviceKey, Fence | None, Fence | None], None]
    pools: Callable[[], None]


NOBODY: Final = Listener(device=lambda _: None, fence=lambda *_: None, pools=lambda: None)
"""What a standby listens to: nothing."""


class Directory:
    """The devices of one cluster.

    Attributes:
        books: records and fences.
        pools: what is published.
        leases: age of the nodes' Leases.
        translator: takes pods and claims.
        trusted: False after the cluster's history broke: resourceVersions of before say nothing.
    """

    def __init__(
        self,
        cluster: str,
        policy: Policy,
        metrics: Metrics,
        alerts: Alerts,
        *,
        lease_silence: Callable[[], float] = lambda: 0.0,
        clock: Callable[[], float] = boot_clock,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """Begin empty.

        Args:
            cluster: our name of the cluster.
            policy: for staleness, stable and what Unknown means.
            metrics: counts what cannot be read.
            alerts: told of records that cannot be read.
            lease_silence: seconds since the watch of Leases was last known to be current.
            clock: seconds, never going back.
            now: the time for records.
        """
        self.books = Books(cluster, alerts, self._on_record, self._on_fence)
        self.pools = Pools()
        self.leases = Leases(clock, lease_silence)
        self.translator = Translator(cluster, self._said, self._silent, metrics)
        self.trusted = True
        self.listener = NOBODY
        self._policy = policy
        self._clock = clock
        self._now = now
        self._tracks: dict[DeviceKey, Track] = {}
        self._by_node: dict[str, set[DeviceKey]] = defaultdict(set)
        self._stale: set[str] = set()
        self._resting: set[DeviceKey] = set()  # time alone may change what is known of these
        self._unknown: set[DeviceKey] = set()
        self._reported: set[DeviceKey] = set()
        self._changed_at: dict[DeviceKey, float] = {}
        self._known: frozenset[str] = frozenset()

    # What is known.

    @property
    def devices(self) -> Collection[DeviceKey]:
        """Devices of which something was said."""
        return self._tracks.keys()

    @property
    def known(self) -> frozenset[str]:
        """Digests of the devices that have been Healthy or Unhealthy."""
        return self._known | {device.digest for device, track in self._tracks.items() if track.known}

    @property
    def in_doubt(self) -> bool:
        """Say whether most of the fleet is Unknown at once."""
        return len(self._unknown) > max(DOUBT_FLOOR, DOUBT_SHARE * len(self._reported))

    @property
    def doubted(self) -> Collection[DeviceKey]:
        """Devices that are Unknown now."""
        return self._unknown

    def track(self, device: DeviceKey) -> Track:
        """Give what is said of a device, brought to this moment."""
        track = self._tracks.get(device)
        if track is None:
            return Track(device, known=device.digest in self._known)
        return evidence.at(track, self._moment())

    def lease_version(self, node: str) -> str:
        """Give the resourceVersion of a node's Lease, ``""`` if none was seen."""
        lease = self.leases.get(node)
        return lease.version if lease is not None else ""

    def changed_at(self, device: DeviceKey) -> float:
        """Tell when what is said of a device last changed, on the directory's clock."""
        return self._changed_at.get(device, self._clock())

    def oldest_lease(self) -> float:
        """Give the age in seconds of the oldest Lease on whose node somebody reports, 0 without any."""
        ages = (self.leases[node].age for node in self._by_node if node in self.leases)
        return max((age.total_seconds() for age in ages), default=0.0)

    # What happens.

    def remember(self, known: Iterable[str]) -> None:
        """Take over which devices have been known before, by digest; what was said meanwhile is looked at again."""
        self._known |= frozenset(known)
        for device, track in list(self._tracks.items()):
            if device.digest in self._known and not track.known:
                self._keep(track, replace(track, known=True))

    def on_lease(self, change: Change[Lease]) -> None:
        """Take a change of a Lease."""
        node = self.leases.on_lease(change)
        if node is not None and node in self._stale:
            self._stale.discard(node)
            self._look_at_node(node)

    def on_slice(self, change: Change[ResourceSlice]) -> None:
        """Take a change of a slice."""
        if self.pools.on_slice(change):
            self.listener.pools()

    def sweep(self) -> None:
        """See what time alone has changed; call it about once a second."""
        for node in list(self._by_node):
            lease = self.leases.get(node)
            stale = lease is not None and lease.age > self._policy.staleness
            if stale != (node in self._stale):
                (self._stale.add if stale else self._stale.discard)(node)
                self._look_at_node(node)
        for device in list(self._resting):
            self._look_at(device)

    def restart_history(self) -> None:
        """Go on after the cluster's database was restored: no version of before is compared with one from now on."""
        self.trusted = False
        self.books.restart_history()
        for device, track in list(self._tracks.items()):
            self._tracks[device] = replace(track, voices=tuple(evidence.unversioned(v) for v in track.voices))

    # Parts that tell us.

    def _said(self, observation: Observation) -> None:
        device, node = observation.device, observation.node
        self.leases.expect(node)
        self._by_node[node].add(device)
        before = self._tracks.get(device) or Track(device, known=device.digest in self._known)
        self._keep(before, evidence.observe(before, observation, self._moment()))
        record = self.books.record(device)
        if record is not None and record.closed and before.voice(observation.source.uid) is None:
            self._settle(device, record)

    def _silent(self, device: DeviceKey, uid: str) -> None:
        before = self._tracks.get(device)
        if before is not None:
            self._keep(before, evidence.vanish(before, uid, self._moment()))

    def _on_record(self, device: DeviceKey, before: Record | None, after: Record | None) -> None:
        if after is not None and after.closed and not (before is not None and _same_end(before, after)):
            self._settle(device, after)
        self.listener.device(device)

    def _settle(self, device: DeviceKey, record: Record) -> None:
        track = self._tracks.get(device)
        if track is None:
            return
        seen = seen_by(record)
        closed = record.status.closed
        lease_version, pods_version = (closed.lease_version, closed.pods_version) if closed else ("", "")
        covered = [v.uid for v in track.voices if evidence.covered(v, seen, lease_version, trusted=self.trusted)]
        settled = evidence.settle(track, covered, [s.uid for s in seen], pods_version)
        self._keep(track, evidence.at(settled, self._moment()))

    def _on_fence(self, device: DeviceKey, before: Fence | None, after: Fence | None) -> None:
        self.listener.fence(device, before, after)

    def _look_at_node(self, node: str) -> None:
        for device in list(self._by_node.get(node, ())):
            self._look_at(device)

    def _look_at(self, device: DeviceKey) -> None:
        track = self._tracks[device]
        self._keep(track, evidence.at(track, self._moment()))

    def _keep(self, before: Track, after: Track) -> None:
        device = after.device
        self._tracks[device] = after
        (self._resting.add if after.first_bad_at and after.healthy_since else self._resting.discard)(device)
        counted = after.counted(self._policy)
        doubt = bool(counted) and counted[0].told.health is Health.UNKNOWN
        (self._unknown.add if doubt else self._unknown.discard)(device)
        (self._reported.add if counted else self._reported.discard)(device)
        if before is not after and before.outline(self._policy) != after.outline(self._policy):
            self._changed_at[device] = self._clock()
            self.listener.device(device)

    def _moment(self) -> Moment:
        return Moment(self._now(), self.leases, self._policy)


def _same_end(before: Record, after: Record) -> bool:
    """Whether both are of the same ended incident, so that nothing ended just now."""
    return before.closed and before.spec.incident == after.spec.incident
