"""The guard's books."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from sickbay.model.device import DeviceKey
from sickbay.model.observation import Health
from sickbay.model.policy import Guard, Mode, Policy
from sickbay.model.record import Admission, AdmissionState, Phase, Record, RecordStatus
from sickbay.policy.guard import Candidate, allowed
from sickbay.telemetry.metrics import Metrics
from sickbay.watch.alerts import Alerts
from sickbay.watch.books import Books
from sickbay.watch.ledger import Ledger
from tests.installation import record_spec
from tests.sickbay.watch.objects import DRIVER, device

NOW = datetime(2026, 1, 10, tzinfo=UTC)
PUBLISHED = 20


class Desk:
    """A ledger, the books, and the devices of one pool."""

    def __init__(self, **guard: float) -> None:
        """Begin with nothing fenced."""
        metrics = Metrics()
        self.policy = Policy(mode=Mode.ENFORCE, guard=Guard.model_validate({"per_minute": 1000, **guard}))
        self.books = Books("lab", Alerts(metrics), lambda *_: None, lambda *_: None)
        self.ledger = Ledger(self.policy, self.books, lambda: {DRIVER: PUBLISHED}, metrics)
        self._version = 0

    def ask(self, *names: str, now: datetime = NOW) -> dict[str, AdmissionState]:
        """Ask for devices."""
        asked = [Candidate(device(name), Health.UNHEALTHY, NOW) for name in names]
        return {r.device.device: r.state for r in self.ledger.ask(asked, now)}

    def record(self, key: DeviceKey, state: AdmissionState, *, closed: bool = False, at: datetime = NOW) -> Record:
        """Let the books have a record."""
        self._version += 1
        spec = record_spec(key, admission=Admission(state=state, at=at))
        status = RecordStatus(incident=spec.incident, phase=Phase.RELEASED) if closed else RecordStatus()
        found = Record(name=key.record_name, uid="u", resource_version=str(self._version), spec=spec, status=status)
        self.books.take(found)
        return found

    @property
    def fenced(self) -> int:
        """What counts now."""
        return self.ledger._fenced()[DRIVER]


def test_promise_counts_until_its_record_does() -> None:
    """A place that was promised is taken at once, and taken once when the record is seen."""
    desk = Desk(share=0.1)
    assert desk.ask("a", "b", "c") == {"a": "Admitted", "b": "Admitted", "c": "Held"}
    assert desk.fenced == 2
    desk.record(device("a"), AdmissionState.ADMITTED)
    assert desk.fenced == 2
    desk.ledger.keep(device("a"))
    assert desk.fenced == 2
    assert desk.ask("c") == {"c": "Held"}


def test_promise_that_was_not_written_is_taken_back() -> None:
    """Place and rate are free again."""
    desk = Desk(share=0.05, per_minute=1)
    desk.ask("a")
    assert desk.ask("b") == {"b": "Held"}
    desk.ledger.withdraw(device("a"))
    assert desk.ask("b") == {"b": "Admitted"}


def test_same_device_is_told_the_same_promise() -> None:
    """Asking again takes no second place."""
    desk = Desk(share=0.1)
    assert [desk.ask("a") for _ in range(5)] == [{"a": "Admitted"}] * 5
    assert desk.fenced == 1


def test_admissions_of_the_last_leader_count_for_the_rate() -> None:
    """The minute goes on over a change of leader; a clock ahead of ours counts as now."""
    desk = Desk(share=1.0, per_minute=2)
    ages = (timedelta(seconds=-30), timedelta(seconds=10), timedelta(seconds=61))
    records = [desk.record(device(f"old-{n}"), AdmissionState.ADMITTED, at=NOW - age) for n, age in enumerate(ages)]
    desk.ledger.remember(records, NOW)
    assert desk.ask("a") == {"a": "Held"}
    assert not desk.ledger.has_room(DRIVER, NOW)
    assert desk.ask("a", now=NOW + timedelta(seconds=51)) == {"a": "Admitted"}


EVENTS = st.lists(st.tuples(st.sampled_from(["ask", "seen", "keep", "lost", "close"]), st.integers(0, 12)), max_size=80)


@given(EVENTS, st.floats(0, 0.6))
def test_share_holds_whatever_comes_in_what_order(events: list[tuple[str, int]], share: float) -> None:
    """Answers, watches and failures in any order: never more than allowed is promised or fenced."""
    desk = Desk(share=share, floor=0)
    limit = allowed(desk.policy.guard, PUBLISHED)
    held: set[int] = set()  # really promised or fenced, as an onlooker counts
    for verb, n in events:
        key = device(f"gpu-{n}")
        if verb == "ask":
            if desk.ask(key.device)[key.device] is AdmissionState.ADMITTED:
                held.add(n)
        elif n in held and verb == "seen":
            desk.record(key, AdmissionState.ADMITTED)
        elif n in held and verb == "keep" and desk.books.record(key) is not None:
            desk.ledger.keep(key)
        elif n in held and verb == "lost" and desk.books.record(key) is None:
            desk.ledger.withdraw(key)
            held.discard(n)
        elif n in held and verb == "close" and desk.books.record(key) is not None:
            desk.ledger.keep(key)
            desk.record(key, AdmissionState.ADMITTED, closed=True)
            held.discard(n)
        assert len(held) <= limit
