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
from sickbay.model.incident import (
    TIMELINE_LENGTH,
    Ask,
    IncidentState,
    ProbeStage,
    ReleaseStage,
    TimelineEntry,
    User,
    UserState,
    Verdict,
)
from sickbay.model.observation import Health, Observation
from sickbay.model.record import Phase
from sickbay.policy.standing import REMINDER, stable
from sickbay.policy.steps import Step, Verb

RETRY_EVICTION: Final = timedelta(seconds=10)
"""Pause before an eviction that a disruption budget blocked is tried again: the API server names none when it is 0."""

LONGEST_RETRY: Final = timedelta(minutes=2)
"""Largest pause between two tries of a blocked eviction."""

RETRY_PROBE: Final = timedelta(seconds=30)
"""Pause before a probe that could not start, or that proved nothing, is tried again."""


def enter(state: IncidentState, step: Step, now: datetime) -> IncidentState:
    """Take the step's phase and ask, and the number of an effect that has none yet.

    Whatever changes here must be said in the record before the effect: it sets ``unsaid``.
    """
    changes: dict[str, object] = {}
    # A person is asked until the step that failed has worked, also while it is tried again; a release is always said.
    asking = state.fault is not None and step.phase is not Phase.RELEASING and not step.phase.final
    phase = Phase.NEEDS_OPERATOR if asking else step.phase
    if phase is not state.phase:
        changes |= {"phase": phase, "timeline": _told(state, phase, step.message, now)}
    ask = step.ask or state.fault
    if (ask and ask.reason) != (state.ask and state.ask.reason):
        changes["ask"] = None if ask is None else Ask(reason=ask.reason, remedy=ask.remedy, since=now)
    if step.verb is Verb.FENCE and not state.fence_allotted:
        changes |= {"fence_number": state.fence_number + 1, "fence_allotted": True}
    if step.verb is Verb.START_PROBE and state.probe is ProbeStage.NONE:
        still_said = tuple(o for o in state.observations if o.health is not Health.HEALTHY)
        changes |= {
            "probe_number": state.probe_number + 1,
            "probe": ProbeStage.ALLOTTED,
            "verdict": None,
            "overruled": still_said,
        }
    if step.verb is Verb.OPEN_RELEASE:
        changes |= {
            "release": ReleaseStage.OPENED,
            "release_number": state.release_number + 1,
            "outcome": step.outcome,
        }
    if step.verb is Verb.CLOSE and state.outcome is None:
        return state.model_copy(update={**changes, "outcome": step.phase})
    if not changes:
        return _scheduled(state, step)
    return _scheduled(state.model_copy(update={**changes, "unsaid": True}), step)


def _scheduled(state: IncidentState, step: Step) -> IncidentState:
    """Fix the time of the first probe when the rest before it begins."""
    if step.reason == "Recover" and state.next_probe_at is None:
        return state.model_copy(update={"next_probe_at": step.recheck_at})
    return state


def _told(state: IncidentState, phase: Phase, text: str, now: datetime) -> tuple[TimelineEntry, ...]:
    return (*state.timeline, TimelineEntry(at=now, phase=phase, text=text))[-TIMELINE_LENGTH:]


def note(state: IncidentState, text: str, now: datetime) -> IncidentState:
    """Add a line to the story without a change of phase."""
    return state.model_copy(update={"timeline": _told(state, state.phase, text, now)})


def heard(state: IncidentState, observed: Observed, now: datetime) -> IncidentState:
    """Take a word of the watcher: it raises severity at once, and everything else is read live first."""
    changes: dict[str, object] = {"reread": True}
    if observed.health is not Health.HEALTHY:
        changes["healthy_since"] = None
    if observed.fence_lost and state.release is ReleaseStage.NONE:
        changes["fenced_at"] = None
    if observed.health.severity > state.severity.severity:
        changes |= {
            "severity": observed.health,
            "reason": observed.reason,
            "message": observed.message,
            "timeline": _told(state, state.phase, f"now reported {observed.health}", now),
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
            "timeline": _told(state, state.phase, text, now),
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
    healthy = reading.health is Health.HEALTHY and fresh
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
        "node_gone": reading.node_gone,
    } | _hardware(state, reading)
    if reading.admitted:
        state = admitted(state, reading.admission_numbers, now)
    if bad:
        changes |= {"severity": Health.UNHEALTHY, "reason": reading.reason, "message": reading.message}
        # What a person or a Lease said is verified by the same word as any other: bad, read live.
        changes |= {} if state.verified else {"verified": True, "unsaid": True}
        changes["bad_since"] = state.bad_since or now
    state = state.model_copy(update=changes)
    if stable(state):
        state = state.model_copy(update={"bad_since": None})  # the next bad word begins anew
    return _after_pass(state, reading, now)


def _still_said(before: tuple[Observation, ...], now: tuple[Observation, ...]) -> tuple[Observation, ...]:
    """Keep what is said without a break: what was taken back and is said again is news."""
    said = {(o.source.uid, o.digest) for o in now}
    return tuple(o for o in before if (o.source.uid, o.digest) in said)


def _written(before: tuple[Observation, ...], after: tuple[Observation, ...]) -> bool:
    """Whether a source that was read before has been written since, or is gone."""
    versions = {o.source.uid: o.resource_version for o in after}
    return any(versions.get(o.source.uid) != o.resource_version for o in before)


def _hardware(state: IncidentState, reading: Reading) -> dict[str, object]:
    """Keep the identity that failed; a slice that is away for a moment changes nothing."""
    if reading.hardware_id == UNKNOWN_HARDWARE:
        return {"addressable": False}
    if state.hardware_id == UNKNOWN_HARDWARE:
        return {"hardware_id": reading.hardware_id, "addressable": reading.hardware_unique}
    return {"addressable": reading.hardware_unique, "swapped": reading.hardware_id != state.hardware_id}


def _after_pass(state: IncidentState, reading: Reading, now: datetime) -> IncidentState:
    """Let a reading after a passed probe, or during a release, confirm it or call it off.

    What was still said when the probe was sent is outvoted by its pass; anything else is news.
    """
    if state.release is ReleaseStage.NONE and state.verdict is not Verdict.PASS:
        return state
    outvoted = {(o.source.uid, o.digest) for o in state.overruled}
    news = any(o.health is Health.UNHEALTHY and (o.source.uid, o.digest) not in outvoted for o in reading.observations)
    if news or (state.swapped and state.release is not ReleaseStage.NONE):
        return _called_off(state, now, news=news)
    if state.release is not ReleaseStage.OPENED:
        return state
    if state.outcome is Phase.RELEASED and not state.addressable:
        # Its identity cannot be read just now: the pass stands, the release waits.
        return state.model_copy(update={"release": ReleaseStage.NONE, "outcome": None})
    return state.model_copy(update={"release": ReleaseStage.READ})


def _called_off(state: IncidentState, now: datetime, *, news: bool) -> IncidentState:
    """Go back to Quarantined with a longer pause."""
    attempts = state.attempts + 1
    changes: dict[str, object] = {
        "release": ReleaseStage.NONE,
        "outcome": None,
        "verdict": None if news else state.verdict,
        "verified": state.verified or news,
        "attempts": attempts,
        "next_probe_at": now + pause_after(state, attempts),
        "users_at": None,
        "unsaid": True,
        "timeline": _told(state, state.phase, "bad news after the probe passed: no release", now),
    }
    if state.release is not ReleaseStage.NONE:
        # A fence that is gone is put back under the next number; one that still stands is made sure of again.
        gone = state.release in {ReleaseStage.DELETED, ReleaseStage.GONE}
        changes |= {"fence_allotted": not gone, "fenced_at": None}
    return state.model_copy(update=changes)


def _refused_pause(state: IncidentState) -> timedelta:
    """Pause before a probe that could not run is tried again: it grows."""
    return min(RETRY_PROBE * 2.0 ** min(state.refused, 16), max(state.policy.probe.longest, RETRY_PROBE))


def pause_after(state: IncidentState, attempts: int) -> timedelta:
    """Pause before the next probe after so many failed ones: exponential, bounded; a day when all are spent."""
    probe = state.policy.probe
    if attempts >= probe.attempts:
        return REMINDER
    pause, longest = probe.first.total_seconds(), probe.longest.total_seconds()
    for _ in range(attempts):
        if pause >= longest:
            break  # before the numbers run out
        pause *= probe.factor
    return timedelta(seconds=min(pause, longest))


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
        update={"fence_uid": fenced.uid, "fenced_at": now, "unsaid": state.unsaid or fresh}
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


def after_probe_started(state: IncidentState, waiting: str, now: datetime) -> IncidentState:
    """Note that the probe is there, or why it has to wait; waiting uses no attempt."""
    if waiting:
        return state.model_copy(
            update={
                "next_probe_at": now + _refused_pause(state),
                "refused": state.refused + 1,
                "verdict_note": waiting,
                "users_at": None,
            }
        )
    sent = state.model_copy(update={"probe": ProbeStage.STARTED, "probe_sent_at": now})
    return note(sent, f"probe {state.probe_number} was sent", now)


def after_verdict(state: IncidentState, verdict: ProbeVerdict, now: datetime) -> IncidentState:
    """Note a verdict; its pod is removed next."""
    text = ": ".join(part for part in (verdict.cause, verdict.message) if part) or str(verdict.verdict)
    judged: dict[str, object] = {
        "probe": ProbeStage.JUDGED,
        "verdict": verdict.verdict,
        "verdict_note": text,
        "probed_version": verdict.resource_version,
    }
    if verdict.verdict is not Verdict.PASS:
        judged["healthy_since"] = None
    return note(state.model_copy(update=judged), f"probe {state.probe_number}: {verdict.verdict}. {text}", now)


def after_probe_stopped(state: IncidentState, now: datetime) -> IncidentState:
    """Count the attempt and set the time of the next."""
    changes: dict[str, object] = {"probe": ProbeStage.NONE}
    if state.verdict is Verdict.FAIL:
        attempts = state.attempts + 1
        changes |= {
            "attempts": attempts,
            "inconclusive": 0,
            "refused": 0,
            "verified": True,
            "next_probe_at": now + pause_after(state, attempts),
        }
    elif state.verdict is Verdict.INCONCLUSIVE:
        spent = state.inconclusive >= state.policy.probe.inconclusive
        pause = state.policy.probe.longest if spent else RETRY_PROBE
        changes |= {"inconclusive": state.inconclusive + 1, "refused": 0, "next_probe_at": now + pause}
    elif state.verdict is Verdict.WAITING:
        changes |= {"refused": state.refused + 1, "next_probe_at": now + _refused_pause(state)}
    elif state.verdict is Verdict.PASS:
        changes |= {"inconclusive": 0, "refused": 0}
    return state.model_copy(update=changes)


def failed(state: IncidentState, activity: str, reason: str, remedy: str, now: datetime) -> IncidentState:
    """Note a step that failed for good in its time, or an error of our own: a person is told, the fence stays."""
    fault = Ask(reason=reason, remedy=remedy, since=now)
    return state.model_copy(update={"fault": fault, "faulty": activity, "retrying": False})


def worked(state: IncidentState, activity: Activity) -> IncidentState:
    """Note that an activity worked: nobody is asked about a fault any more.

    To read, and to say that something does not work, proves nothing but itself.
    """
    proves_little = activity in {Activity.READ_DEVICE, Activity.WRITE_STATUS} and activity != state.faulty
    if state.fault is None or proves_little:
        return state
    return state.model_copy(update={"fault": None, "faulty": "", "retrying": False})


def after_release_step(state: IncidentState, verb: Verb) -> IncidentState:
    """Move a release on by one stage."""
    stages = {
        Verb.UNLATCH: ReleaseStage.UNLATCHED,
        Verb.DELETE_FENCE: ReleaseStage.DELETED,
        Verb.AWAIT_FENCE_GONE: ReleaseStage.GONE,
    }
    return state.model_copy(update={"release": stages[verb]})


def after_timeout(state: IncidentState, verb: Verb, now: datetime) -> IncidentState:
    """Read again when a wait has run out: whatever is decided then rests on the present."""
    if verb is Verb.AWAIT_PROBE:
        late = ProbeVerdict(verdict=Verdict.INCONCLUSIVE, cause="ProbeTimeout", message="no verdict in time")
        return after_verdict(state, late, now)
    if state.fault is not None and not state.retrying:
        return state.model_copy(update={"retrying": True, "reread": True})
    return state.model_copy(update={"reread": True})
