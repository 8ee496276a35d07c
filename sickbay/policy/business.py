"""The rung between soak and ramp: a word from your own metrics, if the policy asks for one. Pure.

Only an answer within the bounds lets a device come back. One out of bounds is a failed proof; anything else counts as
no answer: the device stays fenced, Prometheus is asked again, and a person is told after a time.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from sickbay.model.base import format_duration
from sickbay.model.business import Checking
from sickbay.model.contracts import BusinessVerdict, ProbeVerdict
from sickbay.model.incident import Ask, IncidentState, ProbeStage, Verdict
from sickbay.model.record import Phase
from sickbay.policy.proving import after_verdict, soaked
from sickbay.policy.standing import SHORTEST
from sickbay.policy.steps import Step, Verb
from sickbay.policy.story import note

FAILED: Final = "BusinessCheckFailed"
"""Cause: the device soaked, and a number of yours says that it is not good."""

UNSURE: Final = "BusinessCheckUnsure"
"""Reason of the ask."""


def check(state: IncidentState, now: datetime) -> Step:
    """Ask, or wait until it is time to ask again; the device has soaked, and its canary is still there."""
    settings, past = state.policy.business, state.checking
    ask = unsure(state, now)
    phase = Phase.SOAKING if ask is None else Phase.NEEDS_OPERATOR
    due = now if past.asked_at is None else past.asked_at + max(settings.check, SHORTEST)
    if now >= due:
        message = f"has soaked; asks Prometheus whether it is good: {settings.bounds}"
        return Step(verb=Verb.CHECK_BUSINESS, phase=phase, reason="BusinessCheck", message=message, ask=ask)
    return Step(
        verb=Verb.WAIT,
        phase=phase,
        reason="BusinessCheck",
        message=f"has soaked; no answer of the business check counts yet: {past.note}",
        recheck_at=max(min(due, now + state.policy.soak.check), now + SHORTEST),
        ask=ask,
    )


def unsure(state: IncidentState, now: datetime) -> Ask | None:
    """Say what a person is asked when no answer has counted for too long."""
    settings, past = state.policy.business, state.checking
    if past.unsure_since is None or now < past.unsure_since + settings.tolerance:
        return None
    return Ask(
        reason=UNSURE,
        remedy=f"no answer of {settings.prometheus} has counted for {format_duration(settings.tolerance)} "
        f"({past.cause}: {past.note}); see that business.query gives one number for the device: it stays fenced, and "
        "the question is asked again",
    )


def after_business(state: IncidentState, answer: BusinessVerdict, now: datetime) -> IncidentState:
    """Note the answer: it ends the soak, well or badly, or does not count."""
    if state.probe is not ProbeStage.SOAKING:
        return state  # a person's word came in between
    if answer.verdict is Verdict.PASS:
        told = state.model_copy(update={"checking": Checking(asked_at=now, note=answer.message)})
        return soaked(told, f"soaked, and the business check passed: {answer.message}", now)
    if answer.verdict is Verdict.FAIL:
        failed = ProbeVerdict(verdict=Verdict.FAIL, cause=FAILED, message=answer.message)
        return after_verdict(state, failed, now)
    past = state.checking
    if answer.cause != past.cause:  # it may go on for long: the same again is no news
        state = note(state, f"business check: no answer that counts. {answer.cause}: {answer.message}", now)
    unsure_since = past.unsure_since or now
    checking = Checking(asked_at=now, unsure_since=unsure_since, cause=answer.cause, note=answer.message)
    return state.model_copy(update={"checking": checking})
