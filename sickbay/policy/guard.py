"""The fleet guard: who may be fenced now. Pure; the leader asks it in one place, and counts what it has just promised.

A pool is all devices of one driver: only devices can be fenced, so nothing else is counted. Of ``published`` devices,
``min(ceiling, max(floor, share x published))`` may be fenced; the product is computed exactly and rounded down, so that
1 % of 288 is 2. A pool of unknown size admits nobody. Over all pools no more than ``per_minute`` are admitted in any
60 seconds. Severity, then age, decides who is next; who finds a pool full waits, and does not hold up other pools.

What a person approved by name is admitted whatever the numbers, and says so.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from typing import Final

from sickbay.model.device import DeviceKey
from sickbay.model.observation import Health
from sickbay.model.policy import Guard, Mode, Policy
from sickbay.model.record import Admission, AdmissionState

RATE_WINDOW: Final = timedelta(seconds=60)
"""Window of ``per_minute``: any 60 seconds, not a clock minute."""

BY_GUARD: Final = "guard"
"""Who admits what no person approved."""

FOR_A_PERSON: Final = "waits for a person"
"""How the numbers of an incident end that nothing but a person's word lets act."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A device whose incident asks to be admitted.

    Attributes:
        approved_by: the person who approved it by name, ``""`` if nobody did.
        policy_hash: of the policy that its incident began with and acts by, ``""`` if it begins now.
    """

    device: DeviceKey
    severity: Health
    first_bad_at: datetime
    approved_by: str = ""
    policy_hash: str = ""


@dataclass(frozen=True, slots=True)
class Fleet:
    """What is counted.

    Attributes:
        fenced: admitted, unclosed records by pool, and what was promised but is not seen yet.
        published: devices by pool; None = not known (not synced). A pool that is not listed has none.
        admitted_at: times of admissions of the last minute, in any order; older ones do not count.
    """

    fenced: Mapping[str, int]
    published: Mapping[str, int] | None
    admitted_at: Sequence[datetime] = ()


@dataclass(frozen=True, slots=True)
class Ruling:
    """The guard's word on one candidate.

    Attributes:
        reason: CamelCase: Admitted, Approved, NotSynced, ShareFull, RateFull, NeedsApproval, OtherPolicy.
        numbers: what was counted and what the limits are, in one line; for Held also what would change it.
        recheck_at: when the answer may change by itself; None = when a record or the pool changes.
    """

    device: DeviceKey
    state: AdmissionState
    by: str
    reason: str
    numbers: str
    recheck_at: datetime | None = None


def waits_for_a_person(admission: Admission) -> bool:
    """Say whether nothing but a person's word lets a held incident act, by what the guard wrote into its record."""
    return admission.state is AdmissionState.HELD and admission.numbers.endswith(f" {FOR_A_PERSON}")


def allowed(guard: Guard, published: int) -> int:
    """Count the devices of a pool of this size that may be fenced at once; exact, rounded down."""
    share = math.floor(_exact(guard.share) * published)
    return min(guard.ceiling, max(guard.floor, share))


def rule(candidates: Iterable[Candidate], fleet: Fleet, policy: Policy, now: datetime) -> tuple[Ruling, ...]:
    """Rule on all candidates together, in the order in which they are served: worst first, then oldest."""
    fenced = Counter(fleet.fenced)
    since = now - RATE_WINDOW
    recent = sorted(fleet.admitted_at)
    del recent[: bisect_right(recent, since)]
    rulings = []
    for candidate in sorted(candidates, key=_order):
        ruling = _rule_one(candidate, fleet, fenced[candidate.device.driver], recent, policy, now)
        if ruling.state is AdmissionState.ADMITTED:
            fenced[candidate.device.driver] += 1
            recent.append(now)
        rulings.append(ruling)
    return tuple(rulings)


def _rule_one(
    candidate: Candidate, fleet: Fleet, fenced: int, recent: Sequence[datetime], policy: Policy, now: datetime
) -> Ruling:
    guard, device = policy.guard, candidate.device
    rate = f"{len(recent)} of {guard.per_minute} admissions in 60 s"

    def held(reason: str, numbers: str, recheck_at: datetime | None = None) -> Ruling:
        return Ruling(device, AdmissionState.HELD, BY_GUARD, reason, numbers, recheck_at)

    if fleet.published is None:
        if candidate.approved_by:
            return Ruling(device, AdmissionState.ADMITTED, candidate.approved_by, "Approved", "pool not counted yet")
        if policy.mode is Mode.APPROVE:
            return held("NeedsApproval", f"the pool is not counted yet; mode approve {FOR_A_PERSON}")
        return held("NotSynced", "the pool is not counted yet; waits for the first complete list of slices")
    published = fleet.published.get(device.driver, 0)
    limit = allowed(guard, published)
    numbers = (
        f"{fenced} of {published} devices of {device.driver} fenced, {limit} allowed "
        f"(share {guard.share:g}, floor {guard.floor}, ceiling {guard.ceiling}); {rate}"
    )
    # A person's word by name is the one thing that may exceed the share; it is recorded as theirs.
    if candidate.approved_by:
        return Ruling(device, AdmissionState.ADMITTED, candidate.approved_by, "Approved", numbers)
    # An incident acts by the policy it began with. While the one in force only shows, none that may act is let loose.
    if policy.mode is Mode.SHADOW and candidate.policy_hash not in {"", policy.digest}:
        return held(
            "OtherPolicy", f"{numbers}; began with another policy, and mode shadow lets nobody act; {FOR_A_PERSON}"
        )
    if policy.mode is Mode.APPROVE:
        return held("NeedsApproval", f"{numbers}; mode approve {FOR_A_PERSON}")
    if fenced >= limit:
        return held("ShareFull", f"{numbers}; waits until a device is released, or for a person")
    if len(recent) >= guard.per_minute:
        # With per_minute 0 nothing frees a place but another policy.
        free_at = recent[len(recent) - guard.per_minute] + RATE_WINDOW if guard.per_minute else None
        seconds = f"{math.ceil((free_at - now).total_seconds())} s" if free_at else "another policy"
        return held("RateFull", f"{numbers}; waits {seconds} for the rate, or for a person", free_at)
    return Ruling(device, AdmissionState.ADMITTED, BY_GUARD, "Admitted", numbers)


@lru_cache
def _exact(share: float) -> Fraction:
    """Read a share as it is written: 0.01 is a hundredth."""
    return Fraction(str(share))


def _order(candidate: Candidate) -> tuple[bool, int, datetime, str]:
    return (not candidate.approved_by, -candidate.severity.severity, candidate.first_bad_at, str(candidate.device))
