"""What the ladder asks of an incident's facts at a moment. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from sickbay.model.incident import IncidentState, ReleaseStage, User
from sickbay.model.observation import Health

RENEWAL: Final = timedelta(seconds=10)
"""A kubelet renews its Lease every 10 s: the soonest that a second reading can prove the first one fresh."""

REMINDER: Final = timedelta(days=1)
"""How often a person who is waited for is reminded."""

LONGEST_RECHECK: Final = timedelta(minutes=10)
"""Bound of the growing pause between live reads of a device in doubt."""

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
    """When Healthy, if it is said now, will have lasted; sooner if the reading was not proved fresh."""
    if state.health is not Health.HEALTHY:
        return None
    if state.healthy_since is None:
        return now + min(RENEWAL * 2.0 ** min(max(state.readings - 2, 0), 8), LONGEST_RECHECK)
    return max(state.healthy_since + state.policy.stable, now + timedelta(seconds=1))


def named(users: list[User]) -> str:
    """Name some users in a few words."""
    first = f"{users[0].namespace}/{users[0].name}"
    return first if len(users) == 1 else f"{first} and {len(users) - 1} more"
