"""What the ladder asks of an incident's facts at a moment. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from sickbay.model.incident import IncidentState, ReleaseStage, User
from sickbay.model.observation import Health
from sickbay.model.policy import Mode
from sickbay.model.record import Phase

RENEWAL: Final = timedelta(seconds=10)
"""A kubelet renews its Lease every 10 s: the soonest that a second reading can prove the first one fresh."""

SHORTEST: Final = timedelta(seconds=1)
"""Shortest pause between two looks, and shortest timer: a deadline that has passed must not make the loop spin."""

REMINDER: Final = timedelta(days=1)
"""How often a person who is waited for is reminded."""

LONGEST_RECHECK: Final = timedelta(minutes=10)
"""Bound of the growing pause between live reads of a device in doubt."""

FLIPS_COUNTED: Final = 3
"""That double the pause between two looks at a device that flaps."""

ACTING: Final = frozenset({Mode.ENFORCE, Mode.APPROVE})
"""Modes in which an admitted incident moves jobs and probes."""

_QUARANTINE: Final = frozenset(
    {
        Phase.QUARANTINED,
        Phase.EVACUATING,
        Phase.RECOVERING,
        Phase.PROBING,
        Phase.CANARY,
        Phase.SOAKING,
        Phase.NEEDS_OPERATOR,
    }
)
"""Phases in which an admitted device is out of service, and not on its way back."""

IRREVOCABLE: Final = frozenset({ReleaseStage.DELETED, ReleaseStage.GONE})
"""Stages of a release in which the fence is gone, or was asked to go: too late for a word."""

CALLED_BACK: Final[Mapping[str, object]] = MappingProxyType(
    {
        "release": ReleaseStage.NONE,
        "outcome": None,
        "ramped_at": None,
        "fenced_at": None,
        "users_at": None,
        "unsaid": True,
    }
)
"""Changes that end a ramp, or a release before it is irrevocable: the fence is made sure of again."""


def lasted(state: IncidentState, time: timedelta) -> bool:
    """Healthy counts only fresh, and only from reading to reading: nothing is known of the time since the last one."""
    if state.healthy_since is None or state.read_at is None:
        return False
    return state.read_at - state.healthy_since >= time


def stable(state: IncidentState) -> bool:
    """Whether Healthy has lasted for as long as it must to count."""
    return lasted(state, state.policy.stable)


def free(state: IncidentState, now: datetime) -> bool:
    """Nobody holds the device, and the time in which the scheduler could still have bound someone is over."""
    if state.users_at is None or state.fenced_at is None:
        return False
    settled = now >= state.fenced_at + state.policy.settle
    return settled and not any(u.state.holds for u in state.users)


def healthy_recheck(state: IncidentState, now: datetime) -> datetime | None:
    """When Healthy, if it is said now, will have lasted; sooner if the reading was not proved fresh.

    Later, and later each time, of a device that flaps: looked at in step with its flaps it would say Healthy for ever.
    """
    if state.health is not Health.HEALTHY:
        return None
    if state.healthy_since is None:
        return now + min(RENEWAL * 2.0 ** min(max(state.readings - 2, 0), 8), LONGEST_RECHECK)
    pause = state.policy.stable * 2.0 ** min(state.flips, FLIPS_COUNTED)
    return max(state.healthy_since + pause, now + SHORTEST)


def expires_at(state: IncidentState) -> datetime | None:
    """When the quarantine gets too old by its policy, or ends as a person extended it, whichever is later.

    None where there is none, where it is only shown, and where a person has ended it one way or the other. That time is
    no release: the device is tried, or a person is asked.
    """
    if not state.admitted or state.phase not in _QUARANTINE or state.policy.mode not in ACTING:
        return None
    if state.ramped_at is not None or state.release is not ReleaseStage.NONE:
        return None
    orders = state.orders
    if orders.retiring or orders.disowned is not None:
        return None
    too_old = state.first_bad_at + state.policy.quarantine.expires
    return too_old if orders.kept_until is None else max(too_old, orders.kept_until)


def named(users: list[User]) -> str:
    """Name some users in a few words."""
    first = f"{users[0].namespace}/{users[0].name}"
    return first if len(users) == 1 else f"{first} and {len(users) - 1} more"
