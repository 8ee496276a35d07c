"""What an operator sees of an incident in the Temporal UI: its current details in Markdown, and its report."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from sickbay.model.base import tamed
from sickbay.model.incident import IncidentReport, IncidentState
from sickbay.model.record import Phase
from sickbay.policy.steps import Step

LINES: Final = 15
"""Lines of the story shown."""


def details(state: IncidentState, step: Step, now: datetime) -> str:
    """Say in Markdown where the incident stands, what it waits for and until when, and what happened so far."""
    check = "" if step.recheck_at is None else f" (next check {_clock(step.recheck_at)})"
    lines = [
        f"## {state.phase}: {tamed(step.message)}{check}",
        "",
        *([f"**A person is asked ({state.ask.reason}):** {tamed(state.ask.remedy, 400)}", ""] if state.ask else []),
        "| | |",
        "|---|---|",
        f"| device | `{state.target.device}` |",
        f"| hardware | {tamed(state.hardware_id)} |",
        f"| node | {tamed(state.node)} |",
        f"| said | {state.severity} ({state.reason}) {tamed(state.message)} |",
        f"| read live | {state.health or 'nobody reports'}{_at(state.read_at)} |",
        f"| admission | {tamed(state.admission_numbers) or ('admitted' if state.admitted else 'not yet')} |",
        f"| fence | {_fence(state)} |",
        f"| users | {_users(state)} |",
        f"| probes | {state.attempts} of {state.policy.probe.attempts} attempts failed{_next(state)} |",
        f"| people | {_people(state)} |",
        f"| record | `kubectl get dq {state.target.device.record_name}` |",
        f"| policy | {state.policy.mode}, {state.policy.digest} |",
        "",
        "| time | phase | what |",
        "|---|---|---|",
        *(f"| {_clock(e.at)} | {e.phase} | {tamed(e.text)} |" for e in state.timeline[-LINES:]),
        "",
        f"as of {_clock(now)}",
    ]
    return "\n".join(lines)


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
    )


def _clock(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%SZ")


def _at(at: datetime | None) -> str:
    return "" if at is None else f" at {_clock(at)}"


def _fence(state: IncidentState) -> str:
    if not state.fence_allotted:
        return "none"
    return f"`{state.target.device.numbered(state.fence_number)}`{_at(state.fenced_at)}"


def _users(state: IncidentState) -> str:
    if state.users_at is None:
        return "not listed yet"
    return ", ".join(f"{u.namespace}/{u.name} {u.state}" for u in state.users[:8]) or "nobody"


def _next(state: IncidentState) -> str:
    return "" if state.next_probe_at is None else f"; next at {_clock(state.next_probe_at)}"


def _people(state: IncidentState) -> str:
    orders, said = state.orders, []
    if orders.pause is not None:
        end = "until somebody resumes" if orders.pause.until is None else f"until {_clock(orders.pause.until)}"
        since = _clock(orders.pause.since)
        said.append(f"paused by {orders.pause.actor} since {since} {end}: {orders.pause.reason or 'no reason given'}")
    if orders.kept_until is not None:
        said.append(f"kept out of service until {_clock(orders.kept_until)}")
    if orders.retiring:
        said.append(f"retired by {orders.retiring}")
    if orders.halt is not None:
        said.append(orders.halt.message)
    return tamed("; ".join(said), 400) or "nothing asked"
