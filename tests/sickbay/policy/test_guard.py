"""The fleet guard."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sickbay.model.device import DeviceKey
from sickbay.model.observation import Health
from sickbay.model.policy import Guard, Mode, Policy
from sickbay.model.record import Admission, AdmissionState
from sickbay.policy.guard import Candidate, Fleet, allowed, rule, waits_for_a_person

NOW = datetime(2026, 1, 10, 10, tzinfo=UTC)
HELD, ADMITTED = AdmissionState.HELD, AdmissionState.ADMITTED


def candidate(
    n: int, *, driver: str = "gpu", age: float = 0, severity: Health = Health.UNHEALTHY, by: str = ""
) -> Candidate:
    """Build a candidate that has been bad for ``age`` seconds."""
    device = DeviceKey(cluster="c", driver=driver, pool="node", device=f"d{n:04}")
    return Candidate(device, severity, NOW - timedelta(seconds=age), approved_by=by)


def policy(mode: Mode = Mode.ENFORCE, **guard: float) -> Policy:
    """Build a policy with these limits and an open rate."""
    return Policy(mode=mode, guard=Guard.model_validate({"per_minute": 1000, **guard}))


@pytest.mark.parametrize(
    ("share", "floor", "ceiling", "published", "expected"),
    [
        (0.1, 1, 32, 0, 1),  # no devices: no division, and nobody to fence
        (0.1, 0, 32, 0, 0),
        (0.1, 1, 32, 4, 1),  # small pools may act
        (0.1, 8, 32, 24, 8),  # one node of three
        (0.1, 1, 32, 19, 1),  # rounded down
        (0.1, 1, 32, 20, 2),
        (0.01, 0, 32, 288, 2),
        (0.29, 0, 100, 100, 29),  # exact, where floating point gives 28.999…
        (0.1, 1, 32, 1600, 32),  # large pools are bounded
        (1.0, 0, 10_000, 1600, 1600),
        (0.0, 0, 32, 1600, 0),
    ],
)
def test_allowed_devices_of_a_pool(share: float, floor: int, ceiling: int, published: int, expected: int) -> None:
    """The smaller of the ceiling and the larger of floor and share, rounded down."""
    assert allowed(Guard(share=share, floor=floor, ceiling=ceiling), published) == expected


def test_share_is_of_the_devices_that_can_be_fenced() -> None:
    """Pools are counted apart, each by its own devices."""
    fleet = Fleet(fenced={"gpu": 2, "nic": 0}, published={"gpu": 20, "nic": 20})
    rulings = rule([candidate(1), candidate(2, driver="nic")], fleet, policy(share=0.1), NOW)
    assert {r.device.driver: r.reason for r in rulings} == {"gpu": "ShareFull", "nic": "Admitted"}


def test_numbers_say_what_was_counted_and_what_would_change_it() -> None:
    """A ruling explains itself in one line."""
    fleet = Fleet(fenced={"gpu": 2}, published={"gpu": 20})
    (ruling,) = rule([candidate(1)], fleet, policy(share=0.1), NOW)
    assert ruling.numbers == (
        "2 of 20 devices of gpu fenced, 2 allowed (share 0.1, floor 1, ceiling 32); 0 of 1000 admissions in 60 s; "
        "waits until a device is released, or for a person"
    )


def test_unknown_pool_size_admits_nobody() -> None:
    """Before the first complete list of slices nobody is admitted."""
    (ruling,) = rule([candidate(1)], Fleet(fenced={}, published=None), policy(share=1), NOW)
    assert (ruling.state, ruling.reason) == (HELD, "NotSynced")


def test_rate_counts_any_sixty_seconds_over_all_pools() -> None:
    """The next place is free when the oldest of the last admissions is 60 s old."""
    fleet = Fleet(
        fenced={},
        published={"gpu": 100, "nic": 100},
        admitted_at=[NOW - timedelta(seconds=s) for s in (60, 59, 10)],  # the first is too old to count
    )
    limits = policy(per_minute=2, share=0.5)
    (ruling,) = rule([candidate(1, driver="nic")], fleet, limits, NOW)
    assert (ruling.reason, ruling.recheck_at) == ("RateFull", NOW + timedelta(seconds=1))
    (later,) = rule([candidate(1)], fleet, limits, NOW + timedelta(seconds=1))
    assert later.state is ADMITTED


def test_rate_zero_waits_for_another_policy() -> None:
    """With no admissions a minute, time changes nothing."""
    (ruling,) = rule([candidate(1)], Fleet({}, {"gpu": 100}), policy(per_minute=0), NOW)
    assert (ruling.reason, ruling.recheck_at) == ("RateFull", None)


def test_severity_then_age_decide_who_is_next() -> None:
    """With one place, the worst and then the oldest gets it."""
    fleet = Fleet({}, {"gpu": 4})
    crowd = [candidate(1, age=5), candidate(2, age=50), candidate(3, age=500, severity=Health.UNKNOWN)]
    rulings = rule(crowd, fleet, policy(floor=1), NOW)
    assert [(r.device.device, r.state) for r in rulings] == [
        ("d0002", ADMITTED),
        ("d0001", HELD),
        ("d0003", HELD),
    ]


def test_mode_approve_holds_until_a_person_says_so() -> None:
    """Approval by name admits, names the person, and may exceed the share; it still counts."""
    fleet = Fleet({"gpu": 1}, {"gpu": 4})
    rulings = rule([candidate(1), candidate(2, by="ada")], fleet, policy(Mode.APPROVE), NOW)
    assert [(r.device.device, r.state, r.by) for r in rulings] == [
        ("d0002", ADMITTED, "ada"),
        ("d0001", HELD, "guard"),
    ]
    assert rulings[1].numbers.startswith("2 of 4 devices of gpu fenced")
    (early,) = rule([candidate(1)], Fleet({}, None), policy(Mode.APPROVE), NOW)
    assert early.reason == "NeedsApproval"


@pytest.mark.parametrize(
    ("fleet", "limits", "waits"),
    [
        (Fleet({}, {"gpu": 4}), policy(Mode.APPROVE), True),
        (Fleet({}, None), policy(Mode.APPROVE), True),
        (Fleet({"gpu": 1}, {"gpu": 4}), policy(), False),
        (Fleet({}, {"gpu": 4}), policy(per_minute=0), False),
        (Fleet({}, None), policy(), False),
    ],
)
def test_whether_only_a_person_can_let_it_act_is_in_its_record(fleet: Fleet, limits: Policy, *, waits: bool) -> None:
    """By what the guard writes there; the counts alone admit nobody in mode approve."""
    (ruling,) = rule([candidate(1)], fleet, limits, NOW)
    assert ruling.state is HELD
    assert waits_for_a_person(Admission(state=ruling.state, by=ruling.by, numbers=ruling.numbers)) is waits


@pytest.mark.parametrize(
    ("mode", "policy_hash", "by", "reason"),
    [
        (Mode.SHADOW, "another", "", "OtherPolicy"),
        (Mode.SHADOW, "another", "ada", "Approved"),
        (Mode.SHADOW, "own", "", "Admitted"),
        (Mode.SHADOW, "", "", "Admitted"),
        (Mode.ENFORCE, "another", "", "Admitted"),
    ],
)
def test_mode_shadow_lets_loose_nobody_who_may_act(mode: Mode, policy_hash: str, by: str, reason: str) -> None:
    """An incident that began with another policy would evict by it; only a person's word by name admits it."""
    in_force = policy(mode, share=1.0)
    fleet = Fleet(fenced={}, published={"gpu": 100})
    asks = replace(candidate(1, by=by), policy_hash=in_force.digest if policy_hash == "own" else policy_hash)
    assert [r.reason for r in rule([asks], fleet, in_force, NOW)] == [reason]


def test_bad_check_stops_at_the_limit() -> None:
    """1,400 of 1,600 devices turning bad at once fence no more than is allowed."""
    crowd = [candidate(n) for n in range(1400)]
    rulings = rule(crowd, Fleet({}, {"gpu": 1600}), policy(share=0.1), NOW)
    assert sum(r.state is ADMITTED for r in rulings) == 32


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("bad"), st.integers(0, 30)),
        st.tuples(st.just("release"), st.integers(0, 30)),
        st.tuples(st.just("pool"), st.integers(0, 60)),
        st.tuples(st.just("wait"), st.integers(1, 90)),
    ),
    max_size=60,
)


@given(STEPS, st.integers(0, 3), st.integers(3, 8), st.floats(0, 1), st.integers(0, 5))
def test_limits_hold_in_any_order_of_events(
    steps: list[tuple[str, int]], floor: int, ceiling: int, share: float, per_minute: int
) -> None:
    """Whatever happens in whatever order, nobody is admitted beyond share, ceiling or rate."""
    limits = policy(floor=floor, ceiling=ceiling, share=share, per_minute=per_minute)
    now, published = NOW, 30
    bad: dict[int, Candidate] = {}
    fenced: set[int] = set()
    admitted_at: list[datetime] = []
    for verb, n in steps:
        if verb == "bad" and n not in fenced:
            bad.setdefault(n, candidate(n))
        elif verb == "release":
            fenced.discard(n)
        elif verb == "pool":
            published = n
        elif verb == "wait":
            now += timedelta(seconds=n)
        before = len(fenced)
        fleet = Fleet(Counter({"gpu": before}), {"gpu": published}, admitted_at)
        for ruling in rule(bad.values(), fleet, limits, now):
            if ruling.state is ADMITTED:
                number = int(ruling.device.device[1:])
                fenced.add(number)
                del bad[number]
                admitted_at.append(now)
        # A pool may shrink below what is fenced; then nobody is added.
        assert len(fenced) <= max(before, allowed(limits.guard, published))
        assert len(fenced) <= ceiling
        assert sum(at > now - timedelta(seconds=60) for at in admitted_at) <= per_minute
