"""What an operator sees of an incident in the Temporal UI: its current details in Markdown, and its report."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from sickbay.model.base import UNTRUSTED_LENGTH, format_duration, format_time, tamed
from sickbay.model.incident import IncidentReport, IncidentState, User
from sickbay.model.observation import Reason
from sickbay.model.record import Phase
from sickbay.model.trace import trace_id
from sickbay.policy.steps import Step
from sickbay.policy.story import left_out, recent

LINES: Final = 15
"""Lines of the story shown."""

SOURCES: Final = 8
"""Of the evidence that are shown."""

USERS: Final = 8

RUNBOOK: Final = "docs/incident.md of Sickbay's repository"
"""Where to look when the policy names no runbook."""


def details(state: IncidentState, step: Step, now: datetime) -> str:
    """Say in Markdown where the incident stands, what it waits for and until when, and what happened so far."""
    check = "" if step.recheck_at is None else f" (looks again by {format_time(step.recheck_at)})"
    return "\n".join(
        (
            f"## {state.phase}: {_safe(step.message)}{check}",
            "",
            *([f"**A person is asked ({state.ask.reason}):** {_safe(state.ask.remedy, 400)}", ""] if state.ask else []),
            "| | |",
            "|---|---|",
            *_facts(state),
            "",
            *_evidence(state),
            "| phase | since | took |",
            "|---|---|---|",
            *_phases(state),
            "",
            "| time | phase | what |",
            "|---|---|---|",
            *(f"| {format_time(e.at)} | {e.phase} | {_safe(e.text)} |" for e in recent(state.timeline, LINES)),
            "",
            *_left_out(state),
            f"as of {format_time(now)}",
        )
    )


def report(state: IncidentState, now: datetime) -> IncidentReport:
    """Sum the incident up, for its result and the log."""
    return IncidentReport(
        incident=state.target.incident,
        device=str(state.target.device),
        run=state.target.run,
        outcome=(state.outcome if state.closed else None) or Phase.SUPERSEDED,
        reason=state.reason,
        message=state.message,
        policy=state.policy.digest,
        opened_at=state.first_bad_at,
        ended_at=now,
        fences=state.fence_number,
        attempts=state.attempts,
        moved=tuple(f"{u.namespace}/{u.name}" for u in state.users if u.evicted),
        timeline=state.timeline,
        left_out=state.left_out,
    )


def _left_out(state: IncidentState) -> Iterator[str]:
    """Say how much more there was: `sickbay events` tells what is kept of it."""
    counts = Counter(state.left_out) + Counter(line.teller for line in state.timeline)
    counts -= Counter(line.teller for line in recent(state.timeline, LINES))
    if more := left_out(counts):
        yield f"Left out here: {more}."
        yield ""


def _facts(state: IncidentState) -> Iterator[str]:
    probe, runbook = state.policy.probe, state.policy.runbook
    facts = {
        "device": f"`{state.target.device}`",
        "hardware": _safe(state.hardware_id),
        "node": _safe(state.node) + (", gone from the cluster" if state.node_gone else ""),
        **_said(state),
        "read live": f"{state.health or 'nobody reports'}{_at(state.read_at)}{_flips(state)}",
        "admission": _safe(state.admission_numbers) or ("admitted" if state.admitted else "not yet"),
        "fence": _fence(state),
        "users": _users(state),
        "people": _people(state),
        "probes": f"{state.attempts} of {probe.attempts} attempts failed{_next(state)}{_last(state)}",
        **({"business check": _business(state)} if state.policy.business.wanted else {}),
        "record": f"`kubectl get dq {state.target.device.record_name} -o yaml`",
        "trace": _trace(state),
        "runbook": f"[open]({runbook})" if runbook else RUNBOOK,
        "policy": f"{state.policy.mode}, {state.policy.digest}",
        "run": str(state.target.run),
    }
    return (f"| {name} | {value} |" for name, value in facts.items())


def _said(state: IncidentState) -> dict[str, str]:
    if state.reason is Reason.PERSON:  # nothing was said of the device
        return {"taken out": f"by a person: {_safe(state.message)}"}
    return {"said": f"{state.severity} ({state.reason}) {_safe(state.message)}"}


def _evidence(state: IncidentState) -> Iterator[str]:
    """Say who said what of the device at the last live reading; nothing before it."""
    if state.read_at is None:
        return
    yield from (f"Said at {format_time(state.read_at)}:", "", "| by | health | reason | message |", "|---|---|---|---|")
    for said in state.observations[:SOURCES]:
        where = f"{said.source.kind} {said.source.namespace}/{said.source.name}"
        ended = " (has ended)" if said.terminal else ""
        yield f"| {_safe(where)}{ended} | {said.health} | {said.reason} | {_safe(said.message)} |"
    if not state.observations:
        yield "| nobody | | | |"
    elif len(state.observations) > SOURCES:
        yield f"| and {len(state.observations) - SOURCES} more | | | |"
    yield ""


def _phases(state: IncidentState) -> Iterator[str]:
    """Say how long the incident was in each phase, as far back as its story is kept."""
    begun: list[tuple[Phase, datetime]] = []
    for entry in state.timeline:
        if not begun or begun[-1][0] is not entry.phase:
            begun.append((entry.phase, entry.at))
    ends = [at for _, at in begun[1:]]
    shown = [f"| {p} | {format_time(at)} | {_long(end - at)} |" for (p, at), end in zip(begun, ends, strict=False)]
    if begun:
        phase, at = begun[-1]
        shown.append(f"| **{phase}** | {format_time(at)} | goes on |")
    return iter(shown[-LINES:])


def _safe(text: str, limit: int = UNTRUSTED_LENGTH) -> str:
    """Tame a text, also where Markdown makes links, emphasis or HTML of plain words."""
    return re.sub(r"([*_~\\@]|(?<=www)\.)", r"\\\1", tamed(text, limit))


def _long(duration: timedelta) -> str:
    return format_duration(timedelta(seconds=max(round(duration.total_seconds()), 0)))


def _at(at: datetime | None) -> str:
    return "" if at is None else f" at {format_time(at)}"


def _flips(state: IncidentState) -> str:
    return f"; it flaps: Healthy did not last, {state.flips} times" if state.flips else ""


def _fence(state: IncidentState) -> str:
    if not state.fence_allotted:
        return "none"
    return f"`{state.target.device.numbered(state.fence_number)}`{_at(state.fenced_at)}"


def _users(state: IncidentState) -> str:
    if state.users_at is None:
        return "not listed yet"
    named = [f"{u.namespace}/{u.name} {u.state}{_note(u)}" for u in state.users[:USERS]]
    more = [f"and {len(state.users) - USERS} more"] if len(state.users) > USERS else []
    return ", ".join([*named, *more]) or "nobody"


def _note(user: User) -> str:
    return f" ({_safe(user.note)})" if user.note and user.state.holds else ""


def _trace(state: IncidentState) -> str:
    trace = trace_id(state.target.incident)
    return f"[{trace}]({state.trace_url})" if state.trace_url else f"`{trace}`"


def _next(state: IncidentState) -> str:
    return "" if state.next_probe_at is None else f"; next at {format_time(state.next_probe_at)}"


def _last(state: IncidentState) -> str:
    if state.verdict is None:
        return ""
    return f"; last verdict {state.verdict}" + (f": {_safe(state.verdict_note)}" if state.verdict_note else "")


def _business(state: IncidentState) -> str:
    past = state.checking
    said = "; ".join(part for part in (past.cause, past.note) if part)
    return f"{_safe(said) or 'not asked yet'}{_at(past.asked_at)}"


def _people(state: IncidentState) -> str:
    orders, said = state.orders, []
    if orders.pause is not None:
        end = "until somebody resumes" if orders.pause.until is None else f"until {format_time(orders.pause.until)}"
        since = format_time(orders.pause.since)
        said.append(f"paused by {orders.pause.actor} since {since} {end}: {orders.pause.reason or 'no reason given'}")
    if orders.kept_until is not None:
        said.append(f"kept out of service until {format_time(orders.kept_until)}")
    if orders.retiring:
        said.append(f"retired by {orders.retiring}")
    if orders.disowned is not None:
        said.append(f"given up, untested, by {orders.disowned.by}: {orders.disowned.reason}")
    if orders.halt is not None:
        said.append(orders.halt.message)
    return _safe("; ".join(said), 400) or "nothing asked"
