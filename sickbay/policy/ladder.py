"""The ladder: the next step of an incident, from its facts, its policy and now.

Pure. Each rung is a guard clause that says why it comes before the next; those of an evacuation are in ``evacuate.py``,
those of probe and release in ``prove.py``. What a step's result changes is in ``progress.py``.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from sickbay.model.incident import Ask, IncidentState, ProbeStage, ReleaseStage
from sickbay.model.observation import Health, Reason
from sickbay.model.policy import Mode
from sickbay.model.record import Phase
from sickbay.policy.disowning import give_up
from sickbay.policy.evacuate import evacuate
from sickbay.policy.prove import probe_ask, ramp, recover, release, remove
from sickbay.policy.restraint import bound, held_back, keep, rest
from sickbay.policy.standing import ACTING, LONGEST_RECHECK, REMINDER, free, healthy_recheck, stable
from sickbay.policy.steps import Step, Verb

RETRY: Final = timedelta(minutes=1)
"""Pause after a step that failed for good in its time."""

HOURLY: Final = timedelta(hours=1)
"""A Held incident is told when it is admitted, and reads its record all the same."""

PATIENCE: Final = 3
"""Fences that may be taken away before the next one waits."""

ON_ITS_WORD: Final = frozenset({Reason.PERSON, Reason.ORPHAN, Reason.SWAPPED})
"""Reasons that no source object repeats: a fence for one of these is never provisional."""


def next_step(state: IncidentState, now: datetime) -> Step:
    """Decide what the incident does next.

    Args:
        state: all facts of the incident, among them the policy it began with.
        now: the workflow's time, timezone-aware.
    """
    return held_back(state, _unhindered(state, now), now)


def _unhindered(state: IncidentState, now: datetime) -> Step:
    if state.closed:
        return Step(
            verb=Verb.END, phase=state.outcome or Phase.SUPERSEDED, reason="Closed", message="the record is closed"
        )
    # A person's pause comes before everything but the fence.
    resting = rest(state, now)
    if resting is not None:
        return resting
    # A step that failed for long is a reason to tell a person, and to try again.
    if state.fault is not None and not state.retrying:
        return Step(
            verb=Verb.WAIT,
            phase=Phase.NEEDS_OPERATOR,
            reason=state.fault.reason,
            message=state.fault.remedy,
            recheck_at=(state.fault.since or now) + RETRY,
            ask=state.fault,
        )
    # Nothing is decided on what was said: it is read first. Who was asked for something stays asked meanwhile.
    if state.read_at is None or state.reread:
        message = "reads the device live"
        return Step(verb=Verb.READ, phase=state.phase, reason="Verify", message=message, ask=state.ask)
    # A release is not interrupted by anything but bad news, which has already called it off.
    if state.release is not ReleaseStage.NONE:
        return release(state, now)
    if not state.admitted:
        return give_up(state, now) or _unadmitted(state, now)
    # Somebody takes every fence away, or changes it: putting back the next one at once would only go round and round.
    if state.hand_edits >= PATIENCE and state.fenced_at is None and now < _edited_at(state, now) + RETRY:
        return _hand_edited(state, _edited_at(state, now) + RETRY)
    # A fence first: it only turns new allocations away, and everything else takes longer.
    if state.fenced_at is None:
        return Step(
            verb=Verb.FENCE,
            phase=Phase.QUARANTINED,
            reason="Fence",
            message="keeps new allocations off the device",
        )
    return _fenced(state, now)


def _fenced(state: IncidentState, now: datetime) -> Step:
    # The one way around all proof: a person's word, which the API server has checked. The fence was made sure of
    # before, so that none is left behind.
    given_up = give_up(state, now)
    if given_up is not None:
        return given_up
    # Nothing bad was ever read live, and Healthy lasts: the fence was provisional, nobody was moved.
    untried = state.probe is ProbeStage.NONE and state.verdict is None
    provisional = not state.verified and state.reason not in ON_ITS_WORD and untried
    kept = bound(state, now)
    if not kept and stable(state) and (provisional or state.policy.mode is Mode.SHADOW):
        return _cleared(state, "never bad in a live reading, and fresh Healthy lasts")
    # Without the word to enforce, nobody is moved and nothing is tried: the fence shows what would be.
    if state.policy.mode not in ACTING:
        return keep(state, now) if kept else _look_on(state, now)
    # Twice by hand is no slip: a fence is put back every time, and nothing else is done for a day.
    if state.hand_edits > 1 and now < _edited_at(state, now) + REMINDER:
        return _hand_edited(state, _edited_at(state, now) + REMINDER)
    # What has been judged gives the device back at once, whoever else has come to hold it.
    if state.probe is ProbeStage.JUDGED:
        return remove(state, now, probe_ask(state, now))
    # Who holds it now was let in on purpose.
    if state.ramped_at is not None:
        return ramp(state, now)
    if not free(state, now):
        return evacuate(state, now)
    # A person keeps the device for longer: its users leave, but nothing is tried.
    return keep(state, now) if kept else recover(state, now)


def _edited_at(state: IncidentState, now: datetime) -> datetime:
    return state.hand_edited_at or now


def _hand_edited(state: IncidentState, recheck_at: datetime) -> Step:
    ask = Ask(
        reason="HandEdited",
        remedy=f"the fence was taken away or changed {state.hand_edits} times by somebody else; find out who, and "
        "leave it alone: the incident goes on by itself",
    )
    return Step(
        verb=Verb.WAIT,
        phase=Phase.NEEDS_OPERATOR,
        reason=ask.reason,
        message=ask.remedy,
        recheck_at=recheck_at,
        ask=ask,
    )


def _look_on(state: IncidentState, now: datetime) -> Step:
    if state.users_at is None:
        return Step(
            verb=Verb.LIST_USERS, phase=Phase.QUARANTINED, reason="ListUsers", message="finds out who holds the device"
        )
    return Step(
        verb=Verb.WAIT,
        phase=Phase.QUARANTINED,
        reason="OnlyShows",
        message=f"mode {state.policy.mode}: nobody is moved, nothing is probed; ends when Healthy lasts",
        recheck_at=healthy_recheck(state, now) or now + HOURLY,
    )


def _unadmitted(state: IncidentState, now: datetime) -> Step:
    # Doubt that resolves itself, or a Held device that recovered: nothing was done, nothing is left.
    if stable(state) and state.reason not in ON_ITS_WORD:
        return _cleared(state, "fresh Healthy lasts, and nothing had been fenced")
    # With its node, everybody has gone who spoke of the device: should it come back, it is judged anew.
    if state.node_gone and state.health is None and state.reason not in ON_ITS_WORD:
        return _cleared(state, f"node {state.node} is gone, nobody reports on the device, and nothing had been fenced")
    healthy_at = healthy_recheck(state, now)
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
