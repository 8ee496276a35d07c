"""The directory: what is said of all devices, as time passes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from k8s.records import Listing
from sickbay.model.device import DeviceKey
from sickbay.model.observation import Health, Reason
from sickbay.model.policy import Mode, Policy
from sickbay.model.record import (
    Admission,
    AdmissionState,
    Closed,
    Phase,
    Record,
    RecordStatus,
    SeenSource,
)
from sickbay.policy.detect import Action, decide
from sickbay.telemetry.metrics import Metrics
from sickbay.watch.alerts import Alerts
from sickbay.watch.directory import DOUBT_FLOOR, Directory, Listener
from tests.installation import record_spec
from tests.sickbay.watch.objects import change, claim, device, entry, fence, lease, pod, say

POLICY = Policy(mode=Mode.ENFORCE)
GPU = device()


class World:
    """A directory whose time a test moves."""

    def __init__(self) -> None:
        """Begin with one claim of one device, on a node whose Lease was seen."""
        self.at = 1000.0
        self.silence = 0.0
        self.changed: list[DeviceKey] = []
        self.pools = 0
        metrics = Metrics()
        self.directory = Directory(
            "lab",
            POLICY,
            metrics,
            Alerts(metrics),
            lease_silence=lambda: self.silence,
            clock=lambda: self.at,
            now=lambda: datetime(2026, 1, 10, tzinfo=UTC) + timedelta(seconds=self.at),
        )
        self.directory.listener = Listener(device=self.changed.append, fence=lambda *_: None, pools=self._pools)
        self.directory.translator.on_claim(change(None, claim()))
        self.renew("1")

    def _pools(self) -> None:
        self.pools += 1

    def renew(self, version: str, node: str = "node-1") -> None:
        """Let a node's Lease move."""
        self.directory.on_lease(change(None, lease(node, version)))

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.at += seconds
        self.directory.sweep()

    def health(self, key: DeviceKey = GPU) -> Health | None:
        """Judge a device."""
        return self.directory.track(key).evidence(POLICY).health

    def heard(self) -> list[DeviceKey]:
        """Give and forget which devices changed."""
        found, self.changed[:] = list(self.changed), []
        return found


@pytest.fixture
def world() -> World:
    """Make a world."""
    return World()


def test_changes_are_told_once(world: World) -> None:
    """A change of what is said is told; the same in another order, version or wording is not."""
    first = say(world.directory, None, pod(entry("Healthy"), version="10"))
    assert world.heard() == [GPU]
    second = say(world.directory, first, pod(entry("Healthy", message="fine"), version="11"))
    assert world.heard() == []
    say(world.directory, second, pod(entry("Unhealthy"), version="12"))
    assert world.heard() == [GPU]


def test_lease_ages_by_our_clock_and_returns(world: World) -> None:
    """A Lease that does not move makes devices Unknown, whatever times stand in it; a renewal brings them back."""
    say(world.directory, None, pod(entry("Healthy")))
    world.wait(40)
    assert world.health() is Health.HEALTHY
    world.heard()
    world.wait(1)
    assert world.health() is Health.UNKNOWN
    assert world.heard() == [GPU]
    world.renew("2")
    assert world.health() is Health.HEALTHY
    assert world.heard() == [GPU]
    assert decide(world.directory.track(GPU), None, POLICY).action is Action.IGNORE


def test_no_lease_ages_while_our_own_watch_is_silent(world: World) -> None:
    """What could not have reached us proves nothing about a node."""
    say(world.directory, None, pod(entry("Healthy")))
    world.silence = 100
    world.wait(100)
    assert world.health() is Health.HEALTHY


def test_node_without_a_lease_counts_from_when_it_was_missed(world: World) -> None:
    """A node that has never had a Lease is believed for a while, and then not."""
    world.directory.translator.on_claim(change(None, claim(name="c2", pods=("other",), node="node-2")))
    say(world.directory, None, pod(entry("Healthy", node="node-2"), name="other", node="node-2", claim="c2"))
    world.renew("9")
    assert world.health(device(node="node-2")) is Health.HEALTHY
    world.wait(41)
    evidence = world.directory.track(device(node="node-2")).evidence(POLICY)
    assert (evidence.health, evidence.reason) == (Health.UNKNOWN, Reason.NODE_UNREACHABLE)


def test_time_alone_ends_what_was_bad(world: World) -> None:
    """Healthy that lasts is noticed without anything being said."""
    bad = say(world.directory, None, pod(entry("Unhealthy"), version="10"))
    say(world.directory, bad, pod(entry("Healthy"), version="11"))
    assert world.directory.track(GPU).first_bad_at is not None
    world.wait(29)
    world.renew("2")
    assert world.directory._tracks[GPU].first_bad_at is not None
    world.wait(1)
    assert world.directory._tracks[GPU].first_bad_at is None


def test_most_of_the_fleet_unknown_is_doubt(world: World) -> None:
    """More than half of all devices, and more than two nodes' worth, Unknown at once is no device's fault."""
    count = 2 * DOUBT_FLOOR
    pods = {}
    for n in range(count):
        name = f"gpu-{n}"
        world.directory.translator.on_claim(change(None, claim(name, name=name, pods=(name,))))
        pods[name] = say(world.directory, None, pod(entry("Healthy", device_name=name), name=name, claim=name))
    for n, (name, before) in enumerate(pods.items(), start=1):
        assert world.directory.in_doubt == (n - 1 > DOUBT_FLOOR)
        say(world.directory, before, pod(entry("Unknown", device_name=name), name=name, claim=name, version="11"))
    assert len(world.directory.doubted) == count


def test_known_devices_are_remembered(world: World) -> None:
    """Which devices have been known comes from the last leader; until then Unknown of a new process is nothing."""
    say(world.directory, None, pod(entry("Unknown")))
    assert world.health() is None
    world.heard()
    world.directory.remember([GPU.digest])
    assert world.health() is Health.UNKNOWN
    assert world.heard() == [GPU]
    assert GPU.digest in world.directory.known


def record(version: str, *, closed: Closed | None = None, admitted: bool = True, uid: str = "uid-r") -> Record:
    """Build the device's record at some version."""
    spec = record_spec(GPU, admission=Admission(state=AdmissionState.ADMITTED if admitted else AdmissionState.HELD))
    status = RecordStatus(incident=spec.incident, phase=Phase.RELEASED, closed=closed) if closed else RecordStatus()
    return Record(name=GPU.record_name, uid=uid, resource_version=version, spec=spec, status=status)


def test_own_writes_count_before_the_watch_tells_of_them(world: World) -> None:
    """The newer of two states is kept, whoever brings it."""
    books = world.directory.books
    books.take(record("20"))
    assert books.taken[GPU.driver] == 1
    books.take(record("19", admitted=False))
    assert books.taken[GPU.driver] == 1
    assert [r.resource_version for r in books.open_records] == ["20"]
    assert world.heard() == [GPU]


def test_device_takes_one_place_with_record_or_fence_or_both(world: World) -> None:
    """A fence counts whether or not its record can be read; the place is free when both are gone."""
    books = world.directory.books
    places = []

    def count() -> None:
        places.append((books.taken[GPU.driver], books.takes_place(GPU)))

    count()
    books.on_fence_change(change(None, fence(GPU)))
    count()
    books.take(record("31"))
    count()
    books.on_fence_change(change(fence(GPU), None))
    count()
    books.take(record("32", closed=Closed(at=datetime(2026, 1, 10, tzinfo=UTC), outcome=Phase.RELEASED)))
    count()
    assert places == [(0, False), (1, True), (1, True), (1, True), (0, False)]


def test_list_removes_what_was_gone_by_then(world: World) -> None:
    """A quorum list outweighs what we had before it, not what was written after it."""
    books = world.directory.books
    books.take(record("20"))
    books.take_list(Listing((), (), "19"))
    assert books.record(GPU) is not None
    books.take_list(Listing((), (), "21"))
    assert books.record(GPU) is None
    assert books.taken[GPU.driver] == 0


def test_undecodable_record_keeps_its_device_busy(world: World) -> None:
    """A record that cannot be read is not no record."""
    world.directory.books.take_list(Listing((), (GPU.record_name,), "5"))
    assert world.directory.books.unreadable(GPU)


def test_end_of_an_incident_settles_what_it_saw(world: World) -> None:
    """After the end, silent voices that were gone by then are forgotten, and sticky ones count at their next change."""
    said = pod(entry("Unhealthy"), version="10")
    say(world.directory, None, said)
    gone = say(world.directory, None, pod(entry("Unhealthy"), name="gone", version="11"))
    world.directory.translator.on_claim(change(None, claim(pods=("train-0", "gone"))))
    say(world.directory, gone, None)
    assert len(world.directory.track(GPU).voices) == 2
    seen = SeenSource(uid="uid-train-0", resource_version="12", digest="x")
    world.directory.books.take(record("20"))
    world.directory.books.take(
        record("21", closed=Closed(at=world.directory._now(), outcome=Phase.RELEASED, seen=(seen,)))
    )
    (voice,) = world.directory.track(GPU).voices
    assert (voice.uid, voice.settled) == ("uid-train-0", True)
    assert decide(world.directory.track(GPU), world.directory.books.record(GPU), POLICY).reason == "AlreadySeen"


def test_restored_database_drops_nothing_as_older(world: World) -> None:
    """After a history break lower versions are news."""
    said = say(world.directory, None, pod(entry("Healthy"), version="900"))
    world.directory.books.take(record("900"))
    world.directory.restart_history()
    say(world.directory, said, pod(entry("Unhealthy"), version="7"))
    assert world.health() is Health.UNHEALTHY
    world.directory.books.take(record("8"))
    assert world.directory.books.record(GPU) == record("8")
    assert not world.directory.trusted
