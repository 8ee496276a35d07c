"""The rungs of the ladder that try a free device again, and release it. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from sickbay.model.incident import Ask, IncidentState, ProbeStage, ReleaseStage, UserState, Verdict
from sickbay.model.record import Phase
from sickbay.policy.evacuate import await_users
from sickbay.policy.standing import LONGEST_RECHECK, REMINDER, named, stable
from sickbay.policy.steps import Step, Verb

PATIENCE: Final = 3
"""Probes in a row that could not run before a person is asked."""


def recover(state: IncidentState, now: datetime) -> Step:
    """Decide for a fenced device that nobody holds: let it rest, probe it, release it."""
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
        return await_users(
            Phase.EVACUATING, "AwaitReplacement", f"waits for {named(waiting)} to run elsewhere", max(late)
        )
    # Whatever has passed, or is to be probed: it must be known to be the very hardware that failed.
    unknown = _identity_ask(state)
    if unknown is not None:
        return Step(
            verb=Verb.WAIT,
            phase=Phase.NEEDS_OPERATOR,
            reason=unknown.reason,
            message=unknown.remedy,
            recheck_at=now + LONGEST_RECHECK,
            ask=unknown,
        )
    if state.verdict is Verdict.PASS:
        return Step(
            verb=Verb.OPEN_RELEASE,
            phase=Phase.RELEASING,
            reason="Passed",
            message=f"probe {state.probe_number} passed; releases the device",
            outcome=Phase.RELEASED,
        )
    # A person who is asked does not stop the trying: it goes on seldom, and ends the asking when it succeeds.
    ask = _probe_ask(state)
    due = state.next_probe_at or now + state.policy.probe.first
    # Fresh Healthy that lasts brings the next attempt forward; it never replaces it.
    if now < due and not stable(state):
        rest = f"tries the device again after attempt {state.attempts}" if state.attempts else "lets the device rest"
        return Step(
            verb=Verb.WAIT,
            phase=Phase.RECOVERING if ask is None else Phase.NEEDS_OPERATOR,
            reason="Recover" if ask is None else ask.reason,
            message=rest if ask is None else ask.remedy,
            recheck_at=due,
            ask=ask,
        )
    number = state.probe_number + (state.probe is ProbeStage.NONE)
    message = f"sends probe {number} to it"
    return Step(verb=Verb.START_PROBE, phase=Phase.PROBING, reason="Probe", message=message, ask=ask)


def _probe_ask(state: IncidentState) -> Ask | None:
    if state.attempts >= state.policy.probe.attempts:
        return Ask(
            reason="ProbesFailed",
            remedy=f"{state.attempts} probes failed; repair or replace the device: it stays fenced, and is tried daily",
        )
    if state.inconclusive > state.policy.probe.inconclusive:
        return Ask(
            reason="ProbesInconclusive",
            remedy=f"{state.inconclusive} probes in a row proved nothing ({state.verdict_note}); see why",
        )
    if state.refused > PATIENCE:
        return Ask(reason="ProbeCannotRun", remedy=f"no probe could run: {state.verdict_note}; see why")
    return None


def _identity_ask(state: IncidentState) -> Ask | None:
    if state.swapped:
        return Ask(
            reason="HardwareChanged",
            remedy=f"slot {state.target.device.device} holds other hardware than the one that failed; it stays fenced "
            "until the old one is back, or a break-glass operator deletes record "
            f"{state.target.device.record_name} and takes its finalizer off: then the new one is tried",
        )
    if not state.addressable:
        attribute = state.policy.probe.identity_attribute(state.target.device.driver)
        return Ask(
            reason="NotAddressable",
            remedy=f"the driver publishes no unique attribute {attribute!r} for this device; name another in the "
            "policy's probe.identity, or have the driver publish it: no device of unknown identity is released",
        )
    return None


def release(state: IncidentState, now: datetime) -> Step:
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
