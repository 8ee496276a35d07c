"""What the result of a step, or a word from outside, changes in an incident's facts. Pure, as the ladder."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from sickbay.model.contracts import (
    Activity,
    Admitted,
    Evicted,
    EvictionOutcome,
    Fenced,
    Observed,
    ProbeVerdict,
    Reading,
    Users,
)
from sickbay.model.device import UNKNOWN_HARDWARE
from sickbay.model.incident import Ask, IncidentState, ProbeStage, ReleaseStage, User, UserState, Verdict
from sickbay.model.observation import Health, Observation
from sickbay.model.record import Phase
from sickbay.policy import disowning
from sickbay.policy.proving import after_trial_reading, after_verdict, allotted
from sickbay.policy.standing import stable
from sickbay.policy.steps import Step, Verb
from sickbay.policy.story import extended, note
from sickbay.policy.whereabouts import located

RETRY_EVICTION: Final = timedelta(seconds=10)
"""Pause before an eviction that a disruption budget blocked is tried again: the API server names none when it is 0."""

LONGEST_RETRY: Final = timedelta(minutes=2)
"""Largest pause between two tries of a blocked eviction."""


def enter(state: IncidentState, step: Step, now: datetime) -> IncidentState:
    """Take the step's phase and ask, and the number of an effect that has none yet.

    Whatever changes here must be said in the record before the effect: it sets ``unsaid``.
    """
    changes: dict[str, object] = {}
    # A person is asked until the step that failed has worked, also while it is tried again; a release is always said.
    asking = state.fault is not None and step.phase is not Phase.RELEASING and not step.phase.final
    phase = Phase.NEEDS_OPERATOR if asking else step.phase
    if phase is not state.phase:
        changes |= {"phase": phase, **extended(state, phase, step.message, now)}
    # To read decides nothing: who is asked meanwhile stays asked.
    ask = step.ask or state.fault or (state.ask if step.verb is Verb.READ else None)
    if (ask and ask.reason) != (state.ask and state.ask.reason):
        changes["ask"] = None if ask is None else Ask(reason=ask.reason, remedy=ask.remedy, since=now)
    if step.verb is Verb.FENCE and not state.fence_allotted:
        changes |= {"fence_number": state.fence_number + 1, "fence_allotted": True}
    if step.verb is Verb.START_PROBE and state.probe is ProbeStage.NONE:
        changes |= allotted(state, step.trial)
    if step.verb is Verb.OPEN_RELEASE:
        changes |= {
            "release": ReleaseStage.OPENED,
            "release_number": state.release_number + 1,
            "outcome": step.outcome,
        }
    if step.verb is Verb.CLOSE and state.outcome is None:
        return state.model_copy(update={**changes, "outcome": step.phase})
    if not changes:
        return _scheduled(state, step, now)
    return _scheduled(state.model_copy(update={**changes, "unsaid": True}), step, now)


def _scheduled(state: IncidentState, step: Step, now: datetime) -> IncidentState:
    """Note what begins: the rest before the first probe, the removal of a trial, the deletion of the fence."""
    if step.verb is Verb.DELETE_FENCE:
        return state.model_copy(update={"deleting": True})
    if step.verb is Verb.STOP_PROBE and state.removing_since is None:
        return state.model_copy(update={"removing_since": now})
    if step.rests and state.next_probe_at is None:
        return state.model_copy(update={"next_probe_at": step.recheck_at})
    return state


def heard(state: IncidentState, observed: Observed, now: datetime) -> IncidentState:
    """Take a word of the watcher: it raises severity at once, and everything else is read live first."""
    changes: dict[str, object] = {"reread": True}
    if observed.health is not Health.HEALTHY:
        changes["healthy_since"] = None
    if observed.fence_lost and state.release is ReleaseStage.NONE:
        changes["fenced_at"] = None
    if observed.disowned:
        changes["orders"] = state.orders.model_copy(update={"summoned": True})
    if observed.health.severity > state.severity.severity:
        changes |= {
            "severity": observed.health,
            "reason": observed.reason,
            "message": observed.message,
            **extended(state, state.phase, f"now reported {observed.health}", now),
        }
    return state.model_copy(update=changes)


def called(state: IncidentState, word: Admitted) -> IncidentState:
    """Take the word that the record admits the incident: anybody can send it, so it is only a reason to look."""
    severity = max(state.severity, word.severity, key=lambda h: h.severity)
    return state.model_copy(update={"severity": severity, "reread": True})


def admitted(state: IncidentState, numbers: str, now: datetime) -> IncidentState:
    """Take the admission that was read in the record."""
    if state.admitted:
        return state
    text = f"admitted: {numbers}" if numbers else "admitted"
    return state.model_copy(
        update={
            "admitted": True,
            "admission_numbers": numbers,
            **extended(state, state.phase, text, now),
        }
    )


def after_read(state: IncidentState, reading: Reading, now: datetime) -> IncidentState:
    """Fold one live reading.

    Healthy counts from the first fresh reading on, and starts again when any of its sources was written in between: a
    device that flaps faster than it is read must not look steady.
    """
    moved = bool(reading.lease_version) and reading.lease_version != state.lease_version
    lease_moved_at = now if moved else state.lease_moved_at
    fresh = lease_moved_at is not None and now - lease_moved_at <= state.policy.staleness
    bad = reading.health is Health.UNHEALTHY
    healthy = reading.health is Health.HEALTHY and fresh and _published(state, reading)
    unchanged = state.healthy_since is not None and not _written(state.observations, reading.observations)
    healthy_since = (state.healthy_since if unchanged else now) if healthy else None
    changes: dict[str, object] = {
        "read_at": now,
        "reread": False,
        "readings": state.readings + 1,
        "health": reading.health,
        "healthy_since": healthy_since,
        "lease_version": reading.lease_version or state.lease_version,
        "lease_moved_at": lease_moved_at,
        "observations": reading.observations or state.observations,
        "overruled": _still_said(state.overruled, reading.observations),
        "flips": state.flips + _fell(state, reading),
    } | _hardware(state, reading, now)
    if reading.admitted:
        state = admitted(state, reading.admission_numbers, now)
    state = located(disowning.told(state, reading.disowned, now), reading, now)
    if bad:
        changes |= {"severity": Health.UNHEALTHY, "reason": reading.reason, "message": reading.message}
        # What a person or a Lease said is verified by the same word as any other: bad, read live.
        changes |= {} if state.verified else {"verified": True, "unsaid": True}
        changes["bad_since"] = state.bad_since or now
    state = state.model_copy(update=changes)
    if stable(state):
        state = state.model_copy(update={"bad_since": None})  # the next bad word begins anew
    return after_trial_reading(state, reading, now)


def _still_said(before: tuple[Observation, ...], now: tuple[Observation, ...]) -> tuple[Observation, ...]:
    """Keep what is said without a break: what was taken back and is said again is news."""
    said = {(o.source.uid, o.digest) for o in now}
    return tuple(o for o in before if (o.source.uid, o.digest) in said)


def _written(before: tuple[Observation, ...], after: tuple[Observation, ...]) -> bool:
    """Whether a source that was read before has been written since, or is gone."""
    versions = {o.source.uid: o.resource_version for o in after}
    return any(versions.get(o.source.uid) != o.resource_version for o in before)


def _fell(state: IncidentState, reading: Reading) -> bool:
    """Whether a Healthy did not last: bad again, or Healthy once more but written in between, which hides a bad half.

    A trial's own pod is written for other reasons.
    """
    if state.bad_since is None or state.health is not Health.HEALTHY or state.probe is not ProbeStage.NONE:
        return False
    healthy = reading.health is Health.HEALTHY
    return reading.health is Health.UNHEALTHY or (healthy and _written(state.observations, reading.observations))


def _published(state: IncidentState, reading: Reading) -> bool:
    """Whether the driver still answers for what a soak rests on: a status that nobody keeps up stays as it was."""
    return state.probe is not ProbeStage.SOAKING or reading.hardware_id == state.hardware_id


def _hardware(state: IncidentState, reading: Reading, now: datetime) -> dict[str, object]:
    """Keep the identity that failed; a slice that is away for a moment changes nothing."""
    if reading.hardware_id == UNKNOWN_HARDWARE:
        return {"addressable": False}
    if state.hardware_id == UNKNOWN_HARDWARE:
        return {"hardware_id": reading.hardware_id, "addressable": reading.hardware_unique}
    swapped = reading.hardware_id != state.hardware_id
    return {
        "addressable": reading.hardware_unique,
        "swapped": swapped,
        "swapped_since": (state.swapped_since or now) if swapped else None,
    }


def after_fenced(state: IncidentState, fenced: Fenced, now: datetime) -> IncidentState:
    """Note the fence that holds, or that someone took it away: then the next number is taken."""
    if fenced.lost:
        lost = state.model_copy(
            update={
                "fence_allotted": False,
                "fenced_at": None,
                "fence_uid": "",
                "hand_edits": state.hand_edits + 1,
                "hand_edited_at": now,
            }
        )
        return note(lost, f"fence {state.fence_number} was taken away by someone else; it is put back", now)
    fresh = fenced.uid != state.fence_uid
    return state.model_copy(
        update={"fence_uid": fenced.uid, "fenced_at": now, "ramped_at": None, "unsaid": state.unsaid or fresh}
        # The settle time starts with a fence that stands for the first time.
        | ({} if fresh else {"fenced_at": state.fenced_at or now})
    )


def after_users(state: IncidentState, users: Users, now: datetime) -> IncidentState:
    """Take the list of users."""
    before = {u.uid: u for u in state.users}
    told = state
    for user in users.users:
        known = before.get(user.uid)
        if known is None:
            told = note(told, f"{user.namespace}/{user.name} ({user.owner_kind}) holds the device", now)
        elif known.state is not user.state:
            told = note(told, f"{user.namespace}/{user.name}: {user.state}. {user.note}".strip(), now)
    return told.model_copy(update={"users": tuple(_dated(u, now) for u in users.users), "users_at": now})


def _dated(user: User, now: datetime) -> User:
    """Note when a user was found, and since when it has been leaving."""
    changes: dict[str, object] = {}
    if user.found_at is None:
        changes["found_at"] = now
    if user.terminating and user.leaving_since is None:
        changes["leaving_since"] = now
    return user.model_copy(update=changes) if changes else user


def after_evicted(state: IncidentState, evicted: Evicted, now: datetime) -> IncidentState:
    """Note what the API server said to an eviction."""
    user = next((u for u in state.users if u.uid == evicted.uid), None)
    if user is None:
        return state
    growing = min(RETRY_EVICTION * 1.5 ** min(user.tries, 16), LONGEST_RETRY)
    blocked = {
        "state": UserState.BLOCKED,
        "note": evicted.message,
        "retry_at": now + (evicted.retry_after or growing),
        "blocked_since": user.blocked_since or now,
        "tries": user.tries + 1,
    }
    changes: dict[EvictionOutcome, dict[str, object]] = {
        EvictionOutcome.ACCEPTED: {"state": UserState.EVICTED, "note": "", "evicted": True, "evicted_at": now},
        EvictionOutcome.GONE: {"state": UserState.EVICTED, "note": evicted.message},
        EvictionOutcome.BUDGET: blocked | {"stuck": False},
        EvictionOutcome.DENIED: blocked,
        EvictionOutcome.BUSY: blocked | {"stuck": False},
        EvictionOutcome.MANY_BUDGETS: blocked | {"stuck": True},
        EvictionOutcome.UNMOVABLE: {"state": UserState.FOUND, "may_move": False, "note": evicted.message},
    }
    after = user.model_copy(update=changes[evicted.outcome])
    users = tuple(after if u.uid == user.uid else u for u in state.users)
    told = state
    if after.state is not user.state or after.note != user.note:
        told = note(
            state, f"eviction of {user.namespace}/{user.name}: {evicted.outcome}. {evicted.message}".strip(), now
        )
    return told.model_copy(update={"users": users})


def failed(state: IncidentState, activity: str, reason: str, remedy: str, now: datetime) -> IncidentState:
    """Note a step that failed for good in its time, or an error of our own: a person is told, the fence stays."""
    fault = Ask(reason=reason, remedy=remedy, since=now)
    return state.model_copy(update={"fault": fault, "faulty": activity, "retrying": False, "deleting": False})


def worked(state: IncidentState, activity: Activity) -> IncidentState:
    """Note that an activity worked: nobody is asked about a fault any more.

    To read, and to say that something does not work, proves nothing but itself.
    """
    proves_little = activity in {Activity.READ_DEVICE, Activity.WRITE_STATUS} and activity != state.faulty
    if state.fault is None or proves_little:
        return state
    return state.model_copy(update={"fault": None, "faulty": "", "retrying": False})


def after_timeout(state: IncidentState, verb: Verb, now: datetime) -> IncidentState:
    """Read again when a wait has run out: whatever is decided then rests on the present."""
    if verb is Verb.AWAIT_PROBE:
        late = ProbeVerdict(verdict=Verdict.INCONCLUSIVE, cause="ProbeTimeout", message="no verdict in time")
        return after_verdict(state, late, now)
    if state.fault is not None and not state.retrying:
        return state.model_copy(update={"retrying": True, "reread": True})
    return state.model_copy(update={"reread": True})
