"""What people's words keep an incident from: a pause, a longer quarantine, a retirement, a halt from outside. Pure.

The fence is never touched by any of them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from sickbay.model.base import format_duration, format_time, tamed
from sickbay.model.command import Hindrance, Pause
from sickbay.model.incident import Ask, IncidentState, ProbeStage, Proof, ReleaseStage, Verdict
from sickbay.model.observation import Health
from sickbay.model.record import Phase
from sickbay.policy import disowning
from sickbay.policy.prove import remove
from sickbay.policy.standing import CALLED_BACK, IRREVOCABLE, REMINDER
from sickbay.policy.steps import Step, Verb
from sickbay.policy.story import note

_AT_REST: Final = frozenset({ProbeStage.NONE, ProbeStage.ALLOTTED, ProbeStage.JUDGED})
"""Stages in which no probe runs."""

_NOT_YET: Final = frozenset(
    {Verb.EVICT, Verb.START_PROBE, Verb.RAMP, Verb.OPEN_RELEASE, Verb.UNLATCH, Verb.DELETE_FENCE}
)
"""What cannot be undone, and the decision that leads to it."""


def bound(state: IncidentState, now: datetime) -> bool:
    """Whether a person wants the device to stay out of service for longer, or for good; none does who gave it up."""
    until = state.orders.kept_until
    if state.orders.disowned is not None:
        return False
    return bool(state.orders.retiring) or (until is not None and now < until)


def settle(state: IncidentState, now: datetime) -> IncidentState:
    """Let a pause end or be called to mind; call back what a restraint has no room for.

    A ramp or a release that is not past its last stage is called back, the fence is made sure of, and a trial that runs
    is given up without an attempt. What was proved before does not count afterwards: the device is probed anew.
    """
    if state.orders.disowned is not None:
        return disowning.settled(state)
    state = _timed(state, now)
    orders = state.orders
    if orders.pause is None and orders.halt is None and not bound(state, now):
        return state
    if state.release in IRREVOCABLE:
        return state
    changes: dict[str, object] = {}
    if state.release is not ReleaseStage.NONE or state.ramped_at is not None:
        changes |= CALLED_BACK
    runs = state.probe not in _AT_REST
    if orders.halt is not None and runs:
        return state.model_copy(update=changes) if changes else state
    if state.proof is not Proof.NONE or state.verdict is Verdict.PASS:
        changes |= {"proof": Proof.NONE, "verdict": None}
        if state.probe is ProbeStage.ALLOTTED:
            changes["probe"] = ProbeStage.JUDGED  # a canary, of which half may be there: a probe comes before the next
    if runs:
        changes |= {
            "probe": ProbeStage.JUDGED,
            "verdict": Verdict.WAITING,
            "verdict_note": "a person stopped it",
            # It is not one of those that could not run, of which too many in a row are a reason to ask.
            "refused": max(state.refused - 1, -1),
        }
    return state.model_copy(update=changes) if changes else state


def _timed(state: IncidentState, now: datetime) -> IncidentState:
    pause = state.orders.pause
    if pause is None:
        return state
    if pause.until is not None and now >= pause.until:
        over = note(state, f"the pause of {pause.actor} has ended", now)
        orders = state.orders.model_copy(update={"pause": None})
        return over.model_copy(update={"orders": orders, "reread": True, "users_at": None, "unsaid": True})
    days = (now - pause.since) // REMINDER
    if days <= pause.reminded:
        return state
    told = note(state, f"still paused, for {format_duration(REMINDER * days)}: {_said(pause)}", now)
    orders = state.orders.model_copy(update={"pause": pause.model_copy(update={"reminded": days})})
    return told.model_copy(update={"orders": orders})


def rest(state: IncidentState, now: datetime) -> Step | None:
    """Stand still during a pause; None while something has to be done all the same: look once, keep the fence.

    What the watcher says meanwhile is read at the end of the pause: a device that flaps must not fill the history.
    """
    pause = state.orders.pause
    if pause is None or state.release is not ReleaseStage.NONE or state.read_at is None:
        return None
    if state.orders.summoned or state.orders.disowned is not None:
        return None
    if state.fenced_at is None and (state.admitted or state.reread):
        return None
    if state.probe is ProbeStage.JUDGED:
        return remove(state, now)
    unadmitted = Phase.HELD if state.severity is Health.UNHEALTHY else Phase.SUSPECT
    phase = Phase.QUARANTINED if state.admitted else unadmitted
    ask = None
    if pause.until is None and pause.reminded:
        # Nobody has to be told of a pause that was just made, or that ends by itself.
        remedy = f"paused for more than a day and without an end: {_said(pause)}; resume it, or give it an end"
        ask, phase = Ask(reason="StillPaused", remedy=remedy), Phase.NEEDS_OPERATOR
    reminder = pause.since + REMINDER * (pause.reminded + 1)
    recheck_at = reminder if pause.until is None else min(reminder, pause.until)
    message = f"paused {_said(pause)}"
    return Step(verb=Verb.WAIT, phase=phase, reason="Paused", message=message, recheck_at=recheck_at, ask=ask)


def keep(state: IncidentState, now: datetime) -> Step:
    """Keep a device out of service that nobody holds any more: until a time, or for good."""
    orders = state.orders
    if orders.retiring:
        message = f"retired by {orders.retiring}"
        return Step(verb=Verb.CLOSE, phase=Phase.RETIRED, reason="Retired", message=message)
    until = orders.kept_until or now
    message = "a person keeps it out of service for longer"
    return Step(verb=Verb.WAIT, phase=Phase.RECOVERING, reason="Extended", message=message, recheck_at=until)


def held_back(state: IncidentState, step: Step, now: datetime) -> Step:
    """Put the wait for a word from outside in place of a step that must not be taken without it."""
    halt = state.orders.halt
    if halt is None or step.verb not in _NOT_YET:
        return step
    phase, ask = Phase.EVACUATING if step.verb is Verb.EVICT else Phase.RECOVERING, step.ask
    if halt.reason is Hindrance.HANDS_OFF:
        ask = Ask(reason=str(halt.reason), remedy=halt.message)
    if ask is not None:
        phase = Phase.NEEDS_OPERATOR
    return Step(
        verb=Verb.AWAIT_GO,
        phase=phase,
        reason=str(halt.reason),
        message=halt.message,
        recheck_at=now + REMINDER,
        ask=ask,
    )


def _said(pause: Pause) -> str:
    end = "until somebody resumes" if pause.until is None else f"until {format_time(pause.until)}"
    return tamed(f"by {pause.actor} {end}: {pause.reason or 'no reason given'}")
