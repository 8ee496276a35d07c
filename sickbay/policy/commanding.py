"""What a command of a person changes in an incident's facts, and what the person is answered. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sickbay.model.base import format_duration, format_time, tamed
from sickbay.model.business import Checking
from sickbay.model.command import REMEMBERED, Answer, Command, CommandVerb, Halt, Outcome, Pause
from sickbay.model.device import UNKNOWN_HARDWARE
from sickbay.model.incident import IncidentState, ProbeStage, Teller, UserState
from sickbay.model.policy import Mode
from sickbay.policy.restraint import bound
from sickbay.policy.standing import IRREVOCABLE
from sickbay.policy.story import note

SKEW: Final = timedelta(minutes=1)
"""By how much a sender's clock may be behind ours before its commands read as given to an earlier run."""

OPEN_TO_ALL: Final = frozenset({CommandVerb.PAUSE, CommandVerb.EXTEND_QUARANTINE})
"""What a sender may whom nobody asked who it is: both only keep things as they are."""

RESTRAINING: Final = frozenset(
    {CommandVerb.PAUSE, CommandVerb.EXTEND_QUARANTINE, CommandVerb.RETIRE, CommandVerb.PROBE_NOW}
)
"""What is of no use any more once the device was given up."""


@dataclass(frozen=True)
class _Effect:
    """What a command comes to.

    Attributes:
        why_not: set: it is refused.
        told: what now holds, for the sender.
        changes: of the state; ``orders`` apart.
        orders: of the orders.
    """

    why_not: str = ""
    told: str = ""
    changes: dict[str, object] | None = None
    orders: dict[str, object] | None = None


def obey(
    state: IncidentState, command: Command, now: datetime, *, verified: bool = True
) -> tuple[IncidentState, Answer]:
    """Apply a command once.

    Args:
        state: of the incident.
        command: that was sent.
        now: the workflow's time.
        verified: whether the sender was asked who it is.

    Returns:
        The state after, with a line in its story for whatever is new, and the answer.
    """
    if command.id in state.orders.applied:
        return state, Answer(outcome=Outcome.ALREADY_APPLIED, message=f"command {command.id} was applied before")
    effect = _effect(state, command, now, verified=verified)
    said, teller = f"{command.verb} by {command.actor}", Teller.PERSON if verified else Teller.ANYBODY
    if effect.why_not:
        return refused(state, f"{said} refused: {effect.why_not}", now, teller), _refused(effect.why_not)
    applied = (*state.orders.applied, command.id)[-REMEMBERED:]
    orders = state.orders.model_copy(update={"applied": applied, **(effect.orders or {})})
    reason = f": {command.reason}" if command.reason else ""
    after = note(state, tamed(f"{said}{reason}. {effect.told}", 400), now, teller)
    after = after.model_copy(update={"reread": True, "unsaid": True, **(effect.changes or {}), "orders": orders})
    return after, Answer(outcome=Outcome.APPLIED, message=effect.told)


def refused(state: IncidentState, text: str, now: datetime, teller: Teller = Teller.ANYBODY) -> IncidentState:
    """Write a refusal into the story; the same one again only counts up, so that a flood leaves the rest readable."""
    text = tamed(text, 300)
    last = state.timeline[-1] if state.timeline else None
    if last is None or last.text.partition(" (times ")[0] != text:
        return note(state, text, now, teller)
    times = last.text.partition(" (times ")[2].rstrip(")") or "1"
    again = last.model_copy(update={"at": now, "text": f"{text} (times {int(times) + 1})"})
    return state.model_copy(update={"timeline": (*state.timeline[:-1], again)})


def halted(state: IncidentState, halt: Halt, now: datetime) -> IncidentState:
    """Note that a step was not carried out for a word from outside."""
    told = note(state, f"held back: {halt.message}", now)
    orders = state.orders.model_copy(update={"halt": halt})
    return told.model_copy(update={"orders": orders, "deleting": False})


def after_go(state: IncidentState, now: datetime) -> IncidentState:
    """Note that nothing from outside keeps the incident back any more: what was known of the device is old."""
    told = note(state, "goes on", now)
    orders = state.orders.model_copy(update={"halt": None})
    return told.model_copy(update={"orders": orders, "reread": True, "users_at": None})


def begun(state: IncidentState, now: datetime) -> IncidentState:
    """Note when this run began, unless it only continues."""
    if state.orders.begun_at is not None:
        return state
    return state.model_copy(update={"orders": state.orders.model_copy(update={"begun_at": now})})


def _refused(why: str) -> Answer:
    return Answer(outcome=Outcome.REFUSED, message=why)


def _effect(state: IncidentState, command: Command, now: datetime, *, verified: bool) -> _Effect:
    if state.closed:
        return _Effect(f"already closed: the incident ended as {state.phase}")
    begun_at = state.orders.begun_at
    if command.at is not None and begun_at is not None and command.at < begun_at - SKEW:
        return _Effect("it was given before this run of the incident began; give it again")
    if not verified and command.verb not in OPEN_TO_ALL:
        return _Effect(f"a signal may only pause or extend; use the command line: sickbay {_word(command.verb)}")
    if state.release in IRREVOCABLE or state.deleting:
        return _Effect("too late: its fence is being deleted")
    if state.orders.disowned is not None and command.verb in RESTRAINING:
        return _Effect(f"too late: {state.orders.disowned.by} has given the device up")
    return _EFFECTS[command.verb](state, command, now)


def _word(verb: CommandVerb) -> str:
    return verb.replace("_quarantine", "").replace("_", "-")


def _pause(_: IncidentState, command: Command, now: datetime) -> _Effect:
    until = command.until
    if until is not None and until <= now:
        return _Effect(f"until: {format_time(until)} has passed; name a time that is to come")
    pause = Pause(actor=command.actor, reason=command.reason, since=now, until=until)
    end = "until somebody resumes" if until is None else f"until {format_time(until)}"
    return _Effect(told=f"paused {end}; the fence stays", orders={"pause": pause})


def _resume(state: IncidentState, _: Command, __: datetime) -> _Effect:
    if state.orders.pause is None:
        return _Effect("it is not paused; a pause of the whole installation is ended elsewhere")
    return _Effect(told="goes on", orders={"pause": None}, changes={"users_at": None})


def _extend(state: IncidentState, command: Command, now: datetime) -> _Effect:
    until, orders, longest = command.until, state.orders, state.policy.quarantine.longest
    if until is None:
        return _Effect("until: missing; name the time until which the device is to stay out of service")
    if until <= now:
        return _Effect(f"until: {format_time(until)} has passed; name a time that is to come")
    if not state.admitted:
        return _Effect("the device is not quarantined: the incident is not admitted")
    since = orders.kept_from or now
    end = min(until, since + longest)
    if orders.kept_until is not None and end <= orders.kept_until:
        bound_ = f", and the policy's quarantine.longest is {format_duration(longest)}" if end < until else ""
        return _Effect(f"it is kept until {format_time(orders.kept_until)} already{bound_}; this only lengthens")
    cut = f"; {format_time(until)} is beyond the policy's quarantine.longest" if end < until else ""
    told = f"out of service until {format_time(end)} at least{cut}"
    return _Effect(told=told, orders={"kept_until": end, "kept_from": since})


def _approve(state: IncidentState, _: Command, now: datetime) -> _Effect:
    """Try again now what a person was asked about; it proves nothing and skips nothing."""
    if state.ask is None:
        return _Effect("nobody is asked for anything; an incident that is Held is approved in its record")
    users = tuple(
        u.model_copy(update={"stuck": False, "blocked_since": None, "retry_at": now})
        if u.state is UserState.BLOCKED
        else u
        for u in state.users
    )
    changes: dict[str, object] = {"users": users, "hand_edits": 0, "inconclusive": 0, "refused": 0}
    changes["checking"] = Checking()
    if state.next_probe_at is not None:
        changes["next_probe_at"] = now
    if state.fault is not None:
        changes["retrying"] = True
    return _Effect(told=f"{state.ask.reason}: tries again now", changes=changes)


def _retire(state: IncidentState, command: Command, _: datetime) -> _Effect:
    if not command.reason:
        return _Effect("reason: missing; say why the device is not to come back")
    if not state.admitted or state.fence_number == 0:
        return _Effect("no fence stands: there is nothing to leave behind")
    if state.policy.mode is Mode.SHADOW:
        return _Effect("the incident is one of mode shadow: its fence keeps nobody away")
    who = tamed(f"{command.actor}: {command.reason}")
    told = "stays fenced until other hardware is in the slot; the incident ends when nobody holds the device"
    if state.hardware_id == UNKNOWN_HARDWARE:
        told = (
            "stays fenced until a member of sickbay:break-glass deletes its record: which hardware it is nobody knows, "
            "so none that comes can be told from it; the incident ends when nobody holds the device"
        )
    return _Effect(told=told, orders={"retiring": who})


def _probe_now(state: IncidentState, _: Command, now: datetime) -> _Effect:
    if state.orders.pause is not None:
        return _Effect("it is paused; resume it first")
    if bound(state, now):
        return _Effect("a person keeps the device out of service")
    if state.probe is not ProbeStage.NONE:
        return _Effect(f"probe {state.probe_number} is under way")
    if state.fenced_at is None or any(u.state.holds for u in state.users):
        return _Effect("somebody holds the device, or its fence does not stand yet: no probe can be sent")
    return _Effect(told="the next probe is sent as soon as the device is free", changes={"next_probe_at": now})


_EFFECTS: Final[dict[CommandVerb, Callable[[IncidentState, Command, datetime], _Effect]]] = {
    CommandVerb.PAUSE: _pause,
    CommandVerb.RESUME: _resume,
    CommandVerb.EXTEND_QUARANTINE: _extend,
    CommandVerb.APPROVE: _approve,
    CommandVerb.RETIRE: _retire,
    CommandVerb.PROBE_NOW: _probe_now,
}
