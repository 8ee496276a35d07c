"""The rungs of the ladder that get users off a fenced device. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from sickbay.model.incident import Ask, IncidentState, User, UserState
from sickbay.model.record import Phase
from sickbay.policy.standing import REMINDER, healthy_recheck, named, stable
from sickbay.policy.steps import Step, Verb

FRESH_ENOUGH: Final = timedelta(seconds=5)
"""Age of the live reading that a destructive step may rest on."""

CLOSE_LOOK: Final = timedelta(seconds=10)
"""How long past `confirm` a device that was bad and says Healthy is looked at closely: nobody is moved on a Healthy,
and one that flaps must not be left with its job because it was met in its good halves."""

LOOK_AGAIN: Final = timedelta(seconds=3)
"""Between two of those looks: a bad half of so long, or longer, is not missed."""


def evacuate(state: IncidentState, now: datetime) -> Step:
    """Decide for a fenced device that somebody holds, or may still come to hold."""
    if state.users_at is None:
        return Step(
            verb=Verb.LIST_USERS, phase=Phase.QUARANTINED, reason="ListUsers", message="finds out who holds the device"
        )
    holding = [u for u in state.users if u.state.holds]
    healthy_at = healthy_recheck(state, now)
    if not holding:
        settled_at = (state.fenced_at or now) + state.policy.settle
        return await_users(Phase.QUARANTINED, "Settle", "looks for users bound at the last moment", settled_at)
    # Healthy for long enough: nobody is moved for a device that is well; the probe waits until it is free.
    if stable(state):
        return await_users(
            Phase.QUARANTINED,
            "HealthyInUse",
            f"the device reports Healthy again; the probe waits for {named(holding)} to end",
            now + REMINDER,
        )
    # What cannot be undone waits for `confirm` from the first bad reading, or from the first since Healthy has lasted.
    bad_since = state.bad_since or (now if state.verified else state.first_bad_at)
    confirmed_at = bad_since + state.policy.confirm
    # Healthy in the reading that an eviction would rest on: nobody is moved for what was said before.
    if healthy_at is not None:
        message = "a live reading says Healthy; waits to see whether it lasts"
        look_at = healthy_at if state.bad_since is None else _look_at(healthy_at, confirmed_at, now)
        return await_users(Phase.QUARANTINED, "Verify", message, look_at)
    if now < confirmed_at:
        message = f"{named(holding)} may have to move; waits to be sure"
        return await_users(Phase.QUARANTINED, "Confirm", message, confirmed_at)
    # A person stays asked while something else is done: what is asked for is not settled by it.
    ask = _evacuation_ask(state, holding, now)
    phase = Phase.EVACUATING if ask is None else Phase.NEEDS_OPERATOR
    ready = next((u for u in holding if _may_be_evicted(u, state, now)), None)
    if ready is None:
        return _await_movement(state, holding, ask, now)
    if state.read_at is None or now - state.read_at > FRESH_ENOUGH:
        message = "reads the device once more before it moves anybody"
        return Step(verb=Verb.READ, phase=phase, reason="StillBad", message=message, ask=ask)
    message = f"moves {ready.namespace}/{ready.name} ({ready.owner_kind} {ready.owner_name})"
    return Step(verb=Verb.EVICT, phase=phase, reason="Evict", message=message, user=ready, ask=ask)


def _look_at(healthy_at: datetime, confirmed_at: datetime, now: datetime) -> datetime:
    """When to look again at a device that was bad and says Healthy: it may be well, or flap."""
    if now < confirmed_at:
        return min(healthy_at, confirmed_at)
    return min(healthy_at, now + LOOK_AGAIN) if now < confirmed_at + CLOSE_LOOK else healthy_at


def _may_be_evicted(user: User, state: IncidentState, now: datetime) -> bool:
    if not _evictable(user, state):
        return False
    due = user.retry_at is None or now >= user.retry_at
    return user.state is UserState.FOUND or (user.state is UserState.BLOCKED and due)


def _evictable(user: User, state: IncidentState) -> bool:
    wanted = user.may_move and state.policy.migration.enabled
    return wanted and not user.terminating and not _came_back(user, state)


def _came_back(user: User, state: IncidentState) -> bool:
    """Whether its job has already been moved off this device by this incident, and sent another pod to it."""
    moved = [u for u in state.users if u.evicted_at is not None and u.uid != user.uid and u.owner_uid == user.owner_uid]
    if not user.owner_uid or user.found_at is None:
        return False
    return any(u.evicted_at is not None and u.evicted_at <= user.found_at for u in moved)


def _await_movement(state: IncidentState, holding: list[User], ask: Ask | None, now: datetime) -> Step:
    """Everything that could be done has been; wait for users to go, and ask a person where one is needed."""
    blocked_until = [u.retry_at for u in holding if u.state is UserState.BLOCKED and _evictable(u, state)]
    patience = now + state.policy.migration.blocked_after
    recheck = min([*(t for t in blocked_until if t is not None), patience])
    if ask is None:
        blocked = next((u for u in holding if u.state is UserState.BLOCKED and u.note), None)
        if blocked is not None:
            return await_users(Phase.EVACUATING, "EvictionBlocked", blocked.note, recheck)
        return await_users(Phase.EVACUATING, "AwaitGone", f"waits for {named(holding)} to go", recheck)
    return await_users(Phase.NEEDS_OPERATOR, ask.reason, ask.remedy, recheck, ask)


def _evacuation_ask(state: IncidentState, holding: list[User], now: datetime) -> Ask | None:
    patience = state.policy.migration.blocked_after
    for user in holding:
        name = f"{user.namespace}/{user.name}"
        leaving_since = user.leaving_since or user.evicted_at
        if leaving_since is not None and now - leaving_since >= patience:
            return Ask(
                reason="StuckTerminating",
                remedy=f"{name} has been terminating for long; see whether node {state.node or 'of the device'} and "
                "its driver are alive. It is never deleted by force",
            )
        if user.terminating or user.state is UserState.EVICTED:
            continue
        if _came_back(user, state):
            return Ask(
                reason="CameBack",
                remedy=f"{user.owner_kind} {user.owner_name} was moved off this device and came back as {name}, as "
                "happens with a claim that its pods share; stop it, or give its pods claims of their own",
            )
        if not state.policy.migration.enabled:
            return Ask(
                reason="MigrationDisabled", remedy=f"move {name} yourself: the policy's migration.enabled is false"
            )
        if not user.may_move:
            return Ask(reason="WillNotMove", remedy=user.note or f"move {name} yourself")
        blocked = user.state is UserState.BLOCKED and user.blocked_since is not None
        if blocked and (user.stuck or now - (user.blocked_since or now) >= patience):
            return Ask(reason="EvictionBlocked", remedy=user.note or f"make room for the eviction of {name}")
    return None


def await_users(phase: Phase, reason: str, message: str, recheck_at: datetime, ask: Ask | None = None) -> Step:
    """Wait until something changes among the users, or until a time."""
    return Step(verb=Verb.AWAIT_USERS, phase=phase, reason=reason, message=message, recheck_at=recheck_at, ask=ask)
