"""What ``explain`` and ``describe`` say, as pure functions of what was read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final, NamedTuple

from k8s.control import Control
from k8s.fences import Fence
from sickbay.cli.look import pausing
from sickbay.cli.look.entry import APPROVE, Entry
from sickbay.cli.look.rows import FENCED, IN_SERVICE, RETIRED, TAINTED
from sickbay.cli.look.subject import Subject
from sickbay.cli.look.table import age, clock
from sickbay.cli.look.told import Told
from sickbay.model.base import tamed
from sickbay.model.device import UNKNOWN_HARDWARE
from sickbay.model.incident import IncidentState, User
from sickbay.model.observation import Reason
from sickbay.model.record import AdmissionState, Condition, PastIncident, Phase, Record

REMEDY_LENGTH: Final = 400
"""Characters kept of what a person is asked."""


class Fact(NamedTuple):
    """One thing that is so: a label, and lines; without lines it is left out."""

    label: str
    lines: tuple[str, ...]


def lay_out(facts: Iterable[Fact]) -> list[str]:
    """Write facts as lines: labels to the left, further lines of a fact below its first."""
    told = [fact for fact in facts if fact.lines]
    width = max((len(fact.label) for fact in told), default=0) + 3
    return [
        f"{label:<{width}}{line}".rstrip()
        for fact in told
        for label, line in zip((fact.label, *[""] * len(fact.lines)), fact.lines, strict=False)
    ]


def explanation(subject: Subject, control: Control | None, told: Told, now: datetime) -> list[Fact]:
    """Say why a device is where it is, what it waits for and until when."""
    driver, pool, device = subject.place
    entry, record = subject.entry, subject.record
    facts = [
        Fact(
            "Device",
            (f"{device} of pool {pool}, driver {driver}{f', on node {subject.node}' if subject.node else ''}",),
        ),
        Fact("State", (_state(subject, told, now),)),
    ]
    if record is not None and entry is not None and not entry.closed:
        facts += [*_open(entry, record, told, now), *_pause(control, now)]
    if record is not None and entry is not None:
        facts += [
            Fact("Fence", tuple(map(_fence, entry.fences)) or ("none",)),
            Fact("Conditions", tuple(_condition(c) for c in record.status.conditions if c.status != "False")),
            Fact("History", tuple(_past(past) for past in reversed(record.status.history))),
            Fact("Quarantine", (entry.name,)),
            Fact("Incident", (f"{record.spec.incident}, run {record.spec.run}",)),
        ]
    published = () if subject.device is not None else ("no complete slice pool of its driver has it",)
    return [
        *facts,
        Fact("Taints", tuple(map(tamed, subject.taints))),
        Fact("Published", published),
        Fact("Temporal", _one(told.problem)),
    ]


def incident(record: Record, told: Told) -> Iterator[Fact]:
    """Say what else is known of a device's current incident."""
    spec, state = record.spec, told.state
    yield Fact("Hardware", (tamed(record.hardware_id),))
    yield Fact("Policy", _one(_policy(record, state)))
    yield Fact(
        "Sources", tuple(f"{s.kind} {_named(s.namespace, s.name)} at {s.resource_version}" for s in spec.sources)
    )
    yield Fact("Last reading", _one(_reading(state) if state else ""))
    yield Fact("Users", tuple(map(_user, state.users)) if state else ())
    yield Fact("Probes", _one(_probes(state) if state else ""))
    yield Fact("Business check", _one(_business(state) if state else ""))
    yield from _reported(told)


def past_incident(subject: Subject, past: PastIncident, told: Told) -> Iterator[Fact]:
    """Say what is still known of an incident before the last one."""
    driver, pool, device = subject.place
    yield Fact("Device", (f"{device} of pool {pool}, driver {driver}",))
    yield Fact("Incident", (f"{past.incident}, run {past.run}",))
    yield Fact("Opened", (f"{clock(past.opened_at)} ({past.reason})",))
    yield Fact("Closed", (f"{clock(past.closed_at)} {past.outcome}",))
    yield from _reported(told)
    yield Fact("Temporal", _one(told.problem))


def quarantine(entry: Entry) -> Iterator[Fact]:
    """Say what a record holds, all of it."""
    yield Fact("Name", (entry.name,))
    yield Fact("Created", _one(clock(entry.created)))
    record = entry.record
    if record is None:
        yield Fact("Problem", (tamed(entry.problem, REMEDY_LENGTH),))
        return
    spec, status = record.spec, record.status
    yield Fact("Device", (str(spec.key),))
    yield Fact("Node", _one(spec.node))
    yield Fact("Hardware", (tamed(record.hardware_id),))
    yield Fact("Phase", (entry.phase,))
    yield _said(record)
    yield Fact("First bad", (clock(spec.first_bad_at),))
    yield Fact(
        "Sources", tuple(f"{s.kind} {_named(s.namespace, s.name)} at {s.resource_version}" for s in spec.sources)
    )
    yield Fact("Admission", (_admission(record),))
    yield Fact("Incident", (f"{spec.incident}, run {spec.run}, term {spec.term}",))
    yield Fact("Scope", (spec.scope,))
    yield Fact("Policy", _one(spec.policy_hash))
    yield Fact("Written by", _one(tamed(spec.actor)))
    yield Fact("Verified", ("yes" if status.verified else "no",))
    yield Fact("Fence", tuple(map(_fence, entry.fences)) or ("none",))
    yield Fact("Expires", _one(clock(status.expires_at)))
    counters = status.counters
    yield Fact("Counters", (f"fence {counters.fence}, probe {counters.probe}, release {counters.release}",))
    yield Fact("Conditions", tuple(map(_condition, status.conditions)))
    if status.closed is not None:
        yield Fact("Closed", (f"{clock(status.closed.at)} {status.closed.outcome}",))
    yield Fact("History", tuple(_past(past) for past in reversed(status.history)))
    yield Fact("Finalizers", record.finalizers)


def _reported(told: Told) -> Iterator[Fact]:
    if told.report is not None:
        yield Fact("Moved", told.report.moved)
        yield Fact("Fences", (str(told.report.fences),))
    yield Fact("Events", tuple(f"{clock(e.at)}  {e.phase:<13} {tamed(e.text)}" for e in told.timeline))
    yield Fact("Left out", _one(told.left_out))


def _open(entry: Entry, record: Record, told: Told, now: datetime) -> Iterator[Fact]:
    spec, asks = record.spec, entry.asks
    yield Fact("First bad", (f"{clock(spec.first_bad_at)} ({age(spec.first_bad_at, now)} ago)",))
    yield _said(record)
    yield Fact("Waits for", _one(_waits(entry, record, told)))
    if asks is not None:
        yield Fact("Asks", (f"a person ({asks.reason}): {tamed(asks.message, REMEDY_LENGTH)}",))
    yield Fact("Admission", (_admission(record),))
    if record.disowned is not None:
        yield Fact("Given up", (tamed(f"by {record.disowned.by}: {record.disowned.reason}", REMEDY_LENGTH),))


def _state(subject: Subject, told: Told, now: datetime) -> str:
    entry, record = subject.entry, subject.record
    if entry is not None and record is None:
        return f"{entry.phase}: {tamed(entry.problem, REMEDY_LENGTH)}; a person has to mend its record"
    if entry is None or record is None:
        if subject.kept:
            return f"{TAINTED}: it has no incident; others keep it from being allocated"
        return f"{IN_SERVICE}: it has no incident; what its health is, the statuses of its pods say"
    if not entry.closed:
        return tamed(told.headline, REMEDY_LENGTH) or entry.phase
    return _rest(entry, record, now, kept=subject.kept)


def _rest(entry: Entry, record: Record, now: datetime, *, kept: bool) -> str:
    """Say how a device is whose incident has ended."""
    closed = record.status.closed
    ended = f"{age(closed.at, now)} ago as {closed.outcome}" if closed else f"as {entry.phase}"
    if entry.fence and entry.phase == RETIRED:
        since = age(closed.at if closed else None, now)
        if record.hardware_id == UNKNOWN_HARDWARE:
            return (
                f"{RETIRED} {since} ago; nobody knows which hardware that was, so the fence stays until a member of "
                f"sickbay:break-glass deletes the record"
            )
        return f"{RETIRED} {since} ago; the fence stays until other hardware is in the slot"
    if entry.fence:
        return f"{FENCED}: its last incident ended {ended}, but a fence is there; the leader opens an incident for it"
    if kept:
        return f"{TAINTED}: its last incident ended {ended}, but others keep it from being allocated"
    return f"{IN_SERVICE}: its last incident ended {ended}"


def _waits(entry: Entry, record: Record, told: Told) -> str:
    """Say what the record alone knows of it; the headline says more when there is one."""
    if told.headline or (entry.asks is not None and entry.asks.reason == APPROVE):
        return ""
    if entry.phase == Phase.HELD or record.spec.admission.state is AdmissionState.HELD:
        return "the guard, which admits it when there is room, or a person's approval"
    return ""


def _pause(control: Control | None, now: datetime) -> Iterator[Fact]:
    if control is not None and control.paused_at(now):
        who, end = control.who or "nobody named", pausing.until(control)
        yield Fact("Paused", (tamed(f"the whole installation, by {who}, {end}: {control.why}"),))


def _admission(record: Record) -> str:
    admission = record.spec.admission
    by = f" by {tamed(admission.by)}" if admission.by else ""
    at = f" at {clock(admission.at)}" if admission.at else ""
    numbers = f": {tamed(admission.numbers, REMEDY_LENGTH)}" if admission.numbers else ""
    return f"{admission.state}{by}{at}{numbers}"


def _said(record: Record) -> Fact:
    """Say what was said of the device, or who took it out of service though nothing was."""
    spec = record.spec
    why = f": {tamed(spec.message)}" if spec.message else ""
    if spec.reason is Reason.PERSON:
        return Fact("Taken out", (f"by {tamed(spec.actor) or 'a person'}{why}",))
    return Fact("Said", (f"{spec.severity} ({spec.reason}){why}",))


def _fence(fence: Fence) -> str:
    leaving = ", being deleted" if fence.terminating else ""
    return f"DeviceTaintRule {fence.name}, {fence.taint_key}:{fence.effect}{leaving}"


def _condition(condition: Condition) -> str:
    since = f" since {clock(condition.last_transition_time)}" if condition.last_transition_time else ""
    text = ": ".join(part for part in (condition.reason, tamed(condition.message, REMEDY_LENGTH)) if part)
    return f"{condition.type}={condition.status}{since}{f' {text}' if text else ''}"


def _past(past: PastIncident) -> str:
    by = f" by {tamed(past.by)}: {tamed(past.why, REMEDY_LENGTH)}" if past.by else ""
    return f"{clock(past.opened_at)} to {clock(past.closed_at)}  {past.outcome} ({past.reason})  {past.incident}{by}"


def _policy(record: Record, state: IncidentState | None) -> str:
    if state is not None:
        return f"{state.policy.mode}, content {state.policy.digest}"
    return f"content {record.spec.policy_hash}" if record.spec.policy_hash else ""


def _reading(state: IncidentState) -> str:
    at = f" at {clock(state.read_at)}" if state.read_at else ""
    return f"{state.health or 'nobody reports'}{at}; {state.readings} readings so far"


def _user(user: User) -> str:
    owner = f" of {user.owner_kind} {user.owner_name}" if user.owner_name else ""
    return f"{user.state} {_named(user.namespace, user.name)}{owner}{f': {tamed(user.note)}' if user.note else ''}"


def _probes(state: IncidentState) -> str:
    following = f", next at {clock(state.next_probe_at)}" if state.next_probe_at else ""
    verdict = f", last verdict {state.verdict}: {tamed(state.verdict_note)}" if state.verdict else ""
    return f"{state.attempts} of {state.policy.probe.attempts} attempts failed{following}{verdict}"


def _business(state: IncidentState) -> str:
    """Say what Prometheus said last; nothing where the policy asks none."""
    if not state.policy.business.wanted:
        return ""
    past = state.checking
    at = f" at {clock(past.asked_at)}" if past.asked_at else ""
    return f"{tamed(': '.join(part for part in (past.cause, past.note) if part)) or 'not asked yet'}{at}"


def _named(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def _one(line: str) -> tuple[str, ...]:
    return (line,) if line else ()
