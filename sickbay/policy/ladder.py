"""The ladder: the next step of an incident, from its facts, its policy and now.

Pure. Each rung is a guard clause that says why it comes before the next. What a step's result changes is in
``progress.py``.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from sickbay.model.incident import Ask, IncidentState, ProbeStage, ReleaseStage, User, UserState, Verdict
from sickbay.model.observation import Health, Reason
from sickbay.model.record import Phase
from sickbay.policy.steps import Step, Verb

RENEWAL: Final = timedelta(seconds=10)
"""A kubelet renews its Lease every 10 s: the soonest that a second reading can prove the first one fresh."""

FRESH_ENOUGH: Final = timedelta(seconds=5)
"""Age of the live reading that a destructive step may rest on."""

RETRY: Final = timedelta(minutes=1)
"""Pause after a step that failed for good in its time."""

HOURLY: Final = timedelta(hours=1)
"""A Held incident is told when it is admitted, and reads its record all the same."""

ON_ITS_WORD: Final = frozenset({Reason.PERSON, Reason.ORPHAN})
"""Reasons that no source object repeats: a fence for one of these is never provisional."""

REMINDER: Final = timedelta(days=1)
"""How often a person who is waited for is reminded."""

LONGEST_RECHECK: Final = timedelta(minutes=10)
"""Bound of the growing pause between live reads of a device in doubt."""


def next_step(state: IncidentState, now: datetime) -> Step:
    """Decide what the incident does next.

    Args:
        state: all facts of the incident, among them the policy it began with.
        now: the workflow's time, timezone-aware.
    """
    if state.closed:
        return Step(
            verb=Verb.END, phase=state.outcome or Phase.SUPERSEDED, reason="Closed", message="the record is closed"
        )
    # A step that failed for long is a reason to tell a person, and to try again.
    if state.fault is not None:
        return Step(
            verb=Verb.WAIT,
            phase=Phase.NEEDS_OPERATOR,
            reason=state.fault.reason,
            message=state.fault.remedy,
            recheck_at=(state.fault.since or now) + RETRY,
            ask=state.fault,
        )
    # Nothing is decided on what was said: it is read first.
    if state.read_at is None or state.reread:
        return Step(verb=Verb.READ, phase=state.phase, reason="Verify", message="reads the device live")
    # A release is not interrupted by anything but bad news, which has already called it off.
    if state.release is not ReleaseStage.NONE:
        return _release(state, now)
    if not state.admitted:
        return _unadmitted(state, now)
    # A fence first: it only turns new allocations away, and everything else takes longer.
    if state.fenced_at is None:
        return Step(
            verb=Verb.FENCE,
            phase=Phase.QUARANTINED,
            reason="Fence",
            message="keeps new allocations off the device",
        )
    # Nothing bad was ever read live, and Healthy lasts: the fence was provisional, nobody was moved.
    if not state.verified and state.reason not in ON_ITS_WORD and _stable(state, now):
        return _cleared(state, "never bad in a live reading, and fresh Healthy lasts")
    if not _free(state, now):
        return _evacuate(state, now)
    return _recover(state, now)


def _stable(state: IncidentState, now: datetime) -> bool:
    """Healthy counts only fresh, and only when it has lasted."""
    return state.healthy_since is not None and now - state.healthy_since >= state.policy.stable


def _free(state: IncidentState, now: datetime) -> bool:
    """Nobody holds the device, and the time in which the scheduler could still have bound someone is over."""
    if state.users_at is None or state.fenced_at is None:
        return False
    settled = now >= state.fenced_at + state.policy.settle
    return settled and not any(u.state.holds for u in state.users)


def _healthy_recheck(state: IncidentState, now: datetime) -> datetime | None:
    """When Healthy, if it is said now, will have lasted; sooner if the reading was not proved fresh."""
    if state.health is not Health.HEALTHY:
        return None
    if state.healthy_since is None:
        return now + RENEWAL
    return max(state.healthy_since + state.policy.stable, now + timedelta(seconds=1))


def _unadmitted(state: IncidentState, now: datetime) -> Step:
    # Doubt that resolves itself, or a Held device that recovered: nothing was done, nothing is left.
    if _stable(state, now):
        return _cleared(state, "fresh Healthy lasts, and nothing had been fenced")
    healthy_at = _healthy_recheck(state, now)
    if state.severity is Health.UNHEALTHY:
        return Step(
            verb=Verb.WAIT,
            phase=Phase.HELD,
            reason="Held",
            message=state.admission_numbers or "waits for the guard to admit it",
            recheck_at=healthy_at or now + HOURLY,
        )
    tolerated_until = state.first_bad_at + state.policy.unknown.tolerance
    pause = min(state.policy.unknown.recheck * 2 ** min(max(state.readings - 1, 0), 16), LONGEST_RECHECK)
    # Not knowing is never by itself a reason to act: past the window a person is asked.
    if now >= tolerated_until:
        return Step(
            verb=Verb.WAIT,
            phase=Phase.NEEDS_OPERATOR,
            reason="UnknownTooLong",
            message="nobody has known the device's health for longer than the policy tolerates",
            recheck_at=healthy_at or now + LONGEST_RECHECK,
            ask=Ask(
                reason="UnknownTooLong",
                remedy=f"look at node {state.node or 'of the device'} and its driver; the incident ends by itself when "
                "Healthy lasts",
            ),
        )
    return Step(
        verb=Verb.WAIT,
        phase=Phase.SUSPECT,
        reason="Tolerate",
        message="health is not known; waits before it asks a person",
        recheck_at=healthy_at or min(now + pause, tolerated_until),
    )


def _cleared(state: IncidentState, message: str) -> Step:
    if state.fenced_at is None:
        return Step(verb=Verb.CLOSE, phase=Phase.CLEARED, reason="Cleared", message=message)
    return Step(verb=Verb.OPEN_RELEASE, phase=Phase.RELEASING, reason="Cleared", message=message, outcome=Phase.CLEARED)


def _evacuate(state: IncidentState, now: datetime) -> Step:
    if state.users_at is None:
        return Step(
            verb=Verb.LIST_USERS, phase=Phase.QUARANTINED, reason="ListUsers", message="finds out who holds the device"
        )
    holding = [u for u in state.users if u.state.holds]
    healthy_at = _healthy_recheck(state, now)
    if not holding:
        settled_at = (state.fenced_at or now) + state.policy.settle
        return _await_users(Phase.QUARANTINED, "Settle", "looks for users bound at the last moment", settled_at)
    # Healthy for long enough: nobody is moved for a device that is well; the probe waits until it is free.
    if _stable(state, now):
        return _await_users(
            Phase.QUARANTINED,
            "HealthyInUse",
            f"the device reports Healthy again; the probe waits for {_named(holding)} to end",
            now + REMINDER,
        )
    # Never bad in a live reading, and Healthy in this one: nobody is moved on hearsay.
    if not state.verified and healthy_at is not None:
        return _await_users(
            Phase.QUARANTINED, "Verify", "a live reading says Healthy; waits to see whether it lasts", healthy_at
        )
    # What cannot be undone waits for `confirm`, from the first bad sample.
    confirmed_at = state.first_bad_at + state.policy.confirm
    if now < confirmed_at:
        return _await_users(
            Phase.QUARANTINED,
            "Confirm",
            f"{_named(holding)} may have to move; waits to be sure",
            min(confirmed_at, healthy_at) if healthy_at else confirmed_at,
        )
    ready = next((u for u in holding if _may_be_evicted(u, state, now)), None)
    if ready is not None:
        if state.read_at is None or now - state.read_at > FRESH_ENOUGH:
            return Step(
                verb=Verb.READ,
                phase=Phase.EVACUATING,
                reason="StillBad",
                message="reads the device once more before it moves anybody",
            )
        return Step(
            verb=Verb.EVICT,
            phase=Phase.EVACUATING,
            reason="Evict",
            message=f"moves {ready.namespace}/{ready.name} ({ready.owner_kind} {ready.owner_name})",
            user=ready,
        )
    return _await_movement(state, holding, healthy_at, now)


def _may_be_evicted(user: User, state: IncidentState, now: datetime) -> bool:
    if not (user.may_move and state.policy.migration.enabled) or user.terminating:
        return False
    due = user.retry_at is None or now >= user.retry_at
    return user.state is UserState.FOUND or (user.state is UserState.BLOCKED and due)


def _await_movement(state: IncidentState, holding: list[User], healthy_at: datetime | None, now: datetime) -> Step:
    """Everything that could be asked for has been; wait for users to go, and ask a person where one is needed."""
    ask = _evacuation_ask(state, holding, now)
    retries = [u.retry_at for u in holding if u.state is UserState.BLOCKED and u.retry_at is not None]
    recheck = min([*retries, *([healthy_at] if healthy_at else []), now + REMINDER])
    if ask is None:
        blocked = next((u for u in holding if u.state is UserState.BLOCKED and u.note), None)
        if blocked is not None:
            return _await_users(Phase.EVACUATING, "EvictionBlocked", blocked.note, recheck)
        return _await_users(Phase.EVACUATING, "AwaitGone", f"waits for {_named(holding)} to go", recheck)
    return _await_users(Phase.NEEDS_OPERATOR, ask.reason, ask.remedy, recheck, ask)


def _evacuation_ask(state: IncidentState, holding: list[User], now: datetime) -> Ask | None:
    for user in holding:
        if user.terminating or user.state is UserState.EVICTED:
            continue
        name = f"{user.namespace}/{user.name}"
        if not state.policy.migration.enabled:
            return Ask(
                reason="MigrationDisabled", remedy=f"move {name} yourself: the policy's migration.enabled is false"
            )
        if not user.may_move:
            return Ask(reason="WillNotMove", remedy=user.note or f"move {name} yourself")
        blocked = user.state is UserState.BLOCKED and user.blocked_since is not None
        if blocked and (user.stuck or now - (user.blocked_since or now) >= state.policy.migration.blocked_after):
            return Ask(reason="EvictionBlocked", remedy=user.note or f"make room for the eviction of {name}")
    return None


def _await_users(phase: Phase, reason: str, message: str, recheck_at: datetime, ask: Ask | None = None) -> Step:
    return Step(verb=Verb.AWAIT_USERS, phase=phase, reason=reason, message=message, recheck_at=recheck_at, ask=ask)


def _named(users: list[User]) -> str:
    first = f"{users[0].namespace}/{users[0].name}"
    return first if len(users) == 1 else f"{first} and {len(users) - 1} more"


def _recover(state: IncidentState, now: datetime) -> Step:
    if state.probe is ProbeStage.STARTED:
        return Step(
            verb=Verb.AWAIT_PROBE,
            phase=Phase.PROBING,
            reason="Probe",
            message=f"probe {state.probe_number} runs on it",
            recheck_at=(state.probe_sent_at or now) + state.policy.probe.timeout,
        )
    if state.probe is ProbeStage.JUDGED:
        return Step(
            verb=Verb.STOP_PROBE,
            phase=Phase.PROBING,
            reason="ProbeJudged",
            message=f"removes probe {state.probe_number} ({state.verdict_note or 'of an earlier run'})",
        )
    # The jobs that were moved are watched until they run again, as long as the policy says; then the device goes on,
    # because it may be the very one they wait for.
    waiting = [u for u in state.users if u.state is UserState.GONE and u.evicted and u.gone_at is not None]
    late = [u.gone_at + state.policy.migration.replacement for u in waiting if u.gone_at is not None]
    if late and now < max(late):
        return _await_users(
            Phase.EVACUATING, "AwaitReplacement", f"waits for {_named(waiting)} to run elsewhere", max(late)
        )
    if state.verdict is Verdict.PASS:
        return _passed(state, now)
    ask = _probe_ask(state)
    if ask is not None:
        return Step(
            verb=Verb.WAIT,
            phase=Phase.NEEDS_OPERATOR,
            reason=ask.reason,
            message=ask.remedy,
            recheck_at=now + (LONGEST_RECHECK if ask.reason == "NotAddressable" else REMINDER),
            ask=ask,
        )
    due = state.next_probe_at or now + state.policy.probe.first
    # Fresh Healthy that lasts brings the next attempt forward; it never replaces it.
    if now < due and not _stable(state, now):
        return Step(
            verb=Verb.WAIT,
            phase=Phase.RECOVERING,
            reason="Recover",
            message=f"tries the device again after attempt {state.attempts}"
            if state.attempts
            else "lets the device rest",
            recheck_at=due,
        )
    number = state.probe_number + (state.probe is ProbeStage.NONE)
    return Step(verb=Verb.START_PROBE, phase=Phase.PROBING, reason="Probe", message=f"sends probe {number} to it")


def _passed(state: IncidentState, now: datetime) -> Step:
    """Release what has passed, unless it may be another piece of hardware than the one that failed."""
    if state.swapped:
        ask = Ask(
            reason="HardwareChanged",
            remedy=f"slot {state.target.device.device} holds other hardware than the one that "
            "failed; delete the record as a break-glass operator if that is intended",
        )
        return Step(
            verb=Verb.WAIT,
            phase=Phase.NEEDS_OPERATOR,
            reason=ask.reason,
            message=ask.remedy,
            recheck_at=now + REMINDER,
            ask=ask,
        )
    return Step(
        verb=Verb.OPEN_RELEASE,
        phase=Phase.RELEASING,
        reason="Passed",
        message=f"probe {state.probe_number} passed; releases the device",
        outcome=Phase.RELEASED,
    )


def _probe_ask(state: IncidentState) -> Ask | None:
    if state.attempts >= state.policy.probe.attempts:
        return Ask(
            reason="ProbesFailed",
            remedy=f"{state.attempts} probes failed; repair or replace the device, it stays fenced until then",
        )
    if state.inconclusive > state.policy.probe.inconclusive:
        return Ask(
            reason="ProbesInconclusive",
            remedy=f"{state.inconclusive} probes in a row proved nothing ({state.verdict_note}); see why",
        )
    if not state.addressable:
        attribute = state.policy.probe.identity_attribute(state.target.device.driver)
        return Ask(
            reason="NotAddressable",
            remedy=f"the driver publishes no unique attribute {attribute!r} for this device; name another in the "
            "policy's probe.identity, or have the driver publish it: no device of unknown identity is released",
        )
    return None


def _release(state: IncidentState, now: datetime) -> Step:
    """Run the order of a release; every stage is one request and may be repeated."""
    stage, outcome = state.release, state.outcome or Phase.RELEASED
    if stage is ReleaseStage.OPENED:
        return Step(verb=Verb.READ, phase=Phase.RELEASING, reason="LastReading", message="reads the device once more")
    if stage is ReleaseStage.READ:
        return Step(
            verb=Verb.UNLATCH, phase=Phase.RELEASING, reason="Release", message="takes its finalizer off the fence"
        )
    if stage is ReleaseStage.UNLATCHED:
        return Step(verb=Verb.DELETE_FENCE, phase=Phase.RELEASING, reason="Release", message="deletes the fence")
    if stage is ReleaseStage.DELETED:
        return Step(
            verb=Verb.AWAIT_FENCE_GONE,
            phase=Phase.RELEASING,
            reason="Release",
            message="waits until the fence is gone",
            recheck_at=now + REMINDER,
        )
    return Step(verb=Verb.CLOSE, phase=outcome, reason=str(outcome), message="closes the record")
