"""The rungs of the ladder that try a free device again, and release it. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from sickbay.model.base import format_duration, format_time
from sickbay.model.incident import Ask, IncidentState, ProbeStage, Proof, ReleaseStage, Trial, UserState
from sickbay.model.policy import Expiry, Policy
from sickbay.model.record import Phase
from sickbay.policy import business
from sickbay.policy.evacuate import await_users
from sickbay.policy.proving import pause_after
from sickbay.policy.standing import LONGEST_RECHECK, REMINDER, SHORTEST, lasted, named, stable
from sickbay.policy.steps import Step, Verb
from sickbay.policy.whereabouts import gone

PATIENCE: Final = 3
"""Trials in a row that could not run before a person is asked."""

PHASES: Final = {Trial.PROBE: Phase.PROBING, Trial.CANARY: Phase.CANARY}


def remove(state: IncidentState, now: datetime, ask: Ask | None = None) -> Step:
    """Take away a trial that has its verdict, or one of an earlier run; a person is asked when it does not go."""
    late_at = (state.removing_since or now) + state.policy.migration.blocked_after
    stuck = now >= late_at
    phase = Phase.SOAKING if state.proof is Proof.SOAKED else PHASES[state.trial]
    if stuck:
        name = state.target.device.numbered(state.probe_number)
        remedy = (
            f"pod or claim {name} in namespace sickbay-probe has been terminating for long; see whether node "
            f"{state.node or 'of the device'} is alive, and whether another pod uses that claim. It is never "
            "deleted by force"
        )
        phase, ask = Phase.NEEDS_OPERATOR, Ask(reason="StuckTerminating", remedy=remedy)
    return Step(
        verb=Verb.STOP_PROBE,
        phase=phase,
        reason="Judged",
        message=f"removes {state.trial} {state.probe_number} ({state.verdict_note or 'of an earlier run'})",
        recheck_at=now + REMINDER if stuck else late_at,
        ask=ask,
    )


def recover(state: IncidentState, now: datetime) -> Step:
    """Decide for a fenced device that nobody holds: let it rest, probe it, load it, let it soak, release it."""
    if state.probe is ProbeStage.STARTED:
        return Step(
            verb=Verb.AWAIT_PROBE,
            phase=PHASES[state.trial],
            reason="Trial",
            message=f"{state.trial} {state.probe_number} runs on it",
            recheck_at=(state.probe_sent_at or now) + lasts(state.policy, state.trial),
            ask=probe_ask(state, now),
        )
    if state.probe is ProbeStage.SOAKING:
        return _soak(state, now)
    # The jobs that were moved are watched until they run again, as long as the policy says; then the device goes on,
    # because it may be the very one they wait for.
    waiting = [u for u in state.users if u.state is UserState.GONE and u.evicted and u.gone_at is not None]
    late = [u.gone_at + state.policy.migration.replacement for u in waiting if u.gone_at is not None]
    if late and now < max(late):
        return await_users(
            Phase.EVACUATING, "AwaitReplacement", f"waits for {named(waiting)} to run elsewhere", max(late)
        )
    # Whatever has passed, or is to be tried: it must be known to be the very hardware that failed.
    if state.swapped:
        return _swapped(state, now)
    if not state.addressable:
        lost = gone(state) if state.node_gone else _unknown(state)
        return Step(
            verb=Verb.WAIT,
            phase=Phase.NEEDS_OPERATOR,
            reason=lost.reason,
            message=lost.remedy,
            recheck_at=now + LONGEST_RECHECK,
            ask=lost,
        )
    if state.proof is Proof.SOAKED:
        return _come_back(state)
    trial = Trial.PROBE if state.proof is Proof.NONE else Trial.CANARY
    # A person who is asked does not stop the trying: it goes on seldom, and ends the asking when it succeeds.
    ask = probe_ask(state, now)
    due = _due(state, trial, now)
    # Fresh Healthy that lasts brings the next attempt forward; it never replaces it, nor a word from a person.
    if now < due and (ask is not None or not stable(state)):
        rest = f"tries the device again after attempt {state.attempts}" if state.attempts else "lets the device rest"
        rest = f"waits to send a {trial}: {state.verdict_note}" if state.refused else rest
        return Step(
            verb=Verb.WAIT,
            phase=Phase.RECOVERING if ask is None else Phase.NEEDS_OPERATOR,
            reason="Recover" if ask is None else ask.reason,
            message=rest if ask is None else ask.remedy,
            recheck_at=due,
            rests=True,
            ask=ask,
        )
    number = state.probe_number + (state.probe is ProbeStage.NONE)
    return Step(
        verb=Verb.START_PROBE,
        phase=PHASES[trial],
        reason="Trial",
        message=f"sends {trial} {number} to it",
        trial=trial,
        ask=ask,
    )


def _unknown(state: IncidentState) -> Ask:
    attribute = state.policy.probe.identity_attribute(state.target.device.driver)
    return Ask(
        reason="NotAddressable",
        remedy=f"the driver publishes no unique attribute {attribute!r} for this device; name another in the "
        "policy's probe.identity, or have the driver publish it: no device of unknown identity is released",
    )


def lasts(policy: Policy, trial: Trial) -> timedelta:
    """Say how long a trial may take to its verdict."""
    return policy.probe.timeout if trial is Trial.PROBE else policy.canary.timeout


def _due(state: IncidentState, trial: Trial, now: datetime) -> datetime:
    """When the next trial is to be sent: a canary follows its probe at once."""
    quarantine = state.policy.quarantine
    rest = REMINDER if state.flaps >= quarantine.flaps else pause_after(state, attempts=0)
    due = state.next_probe_at or (now if trial is Trial.CANARY else now + rest)
    expires_at = state.first_bad_at + quarantine.expires
    untried_since = state.probe_sent_at is None or state.probe_sent_at < expires_at
    if quarantine.on_expiry is Expiry.PROBE and untried_since:
        return min(due, expires_at)
    return due


def _soak(state: IncidentState, now: datetime) -> Step:
    soak, check = state.policy.soak, now + state.policy.soak.check
    if state.healthy_since is None:
        message = f"canary {state.probe_number} keeps it busy; waits for a fresh Healthy from it"
        return Step(verb=Verb.WAIT, phase=Phase.SOAKING, reason="Soak", message=message, recheck_at=check)
    # Asked while the canary keeps the device busy: what is measured is the device at work, and readings go on.
    if state.policy.business.wanted and lasted(state, soak.time):
        return business.check(state, now)
    done_at = state.healthy_since + soak.time
    message = f"canary {state.probe_number} keeps it busy; soaked at {format_time(done_at)} if it stays well"
    recheck_at = max(min(check, done_at), now + SHORTEST)
    return Step(verb=Verb.WAIT, phase=Phase.SOAKING, reason="Soak", message=message, recheck_at=recheck_at)


def _come_back(state: IncidentState) -> Step:
    """Let those in who have opted in, if the policy wants it, and then everybody."""
    if state.policy.ramp.time:
        message = "lets in workloads that tolerate sickbay.dev/ramp"
        return Step(verb=Verb.RAMP, phase=Phase.RAMPING, reason="Soaked", message=message)
    return _opened("Soaked", f"canary {state.probe_number} passed and soaked; releases the device")


def ramp(state: IncidentState, now: datetime) -> Step:
    """Wait while those who opted in use the device; bad news has already called it off."""
    ends = (state.ramped_at or now) + state.policy.ramp.time
    if now < ends:
        return Step(
            verb=Verb.WAIT,
            phase=Phase.RAMPING,
            reason="Ramp",
            message="in use by workloads that have opted in, if there are any; then for all",
            recheck_at=max(min(now + state.policy.ramp.check, ends), now + SHORTEST),
        )
    if state.users_at is None:
        message = "finds out who came"
        return Step(verb=Verb.LIST_USERS, phase=Phase.RAMPING, reason="Ramped", message=message)
    came = [u for u in state.users if u.state.holds]
    message = f"{named(came)} took it and nothing bad was said" if came else "nobody took it, and nothing bad was said"
    return _opened("Ramped", f"{message}; releases the device")


def _opened(reason: str, message: str) -> Step:
    return Step(verb=Verb.OPEN_RELEASE, phase=Phase.RELEASING, reason=reason, message=message, outcome=Phase.RELEASED)


def probe_ask(state: IncidentState, now: datetime) -> Ask | None:
    """What a person is asked about trials so far; it ends when one of them has passed."""
    if state.attempts >= state.policy.probe.attempts:
        return Ask(
            reason="ProbesFailed",
            remedy=f"{state.attempts} probes failed; repair or replace the device: it stays fenced, and is tried daily",
        )
    unsure = business.unsure(state, now)
    if unsure is not None:
        return unsure
    if state.inconclusive > state.policy.probe.inconclusive:
        return Ask(
            reason="ProbesInconclusive",
            remedy=f"{state.inconclusive} probes in a row proved nothing ({state.verdict_note}); see why",
        )
    if state.refused > PATIENCE:
        return Ask(reason="ProbeCannotRun", remedy=f"no {state.trial} could run: {state.verdict_note}; see why")
    return _quarantine_ask(state, now)


def _quarantine_ask(state: IncidentState, now: datetime) -> Ask | None:
    quarantine = state.policy.quarantine
    if state.flaps >= quarantine.flaps:
        return Ask(
            reason="Flapping",
            remedy=f"the device was released {state.flaps} times within {format_duration(quarantine.window)} and "
            "failed again each time; repair or replace it: it stays fenced, and is tried daily",
        )
    if quarantine.on_expiry is Expiry.ESCALATE and now >= state.first_bad_at + quarantine.expires:
        return Ask(
            reason="QuarantineExpired",
            remedy=f"the device has been bad for {format_duration(quarantine.expires)}; repair or replace it: it stays "
            "fenced, and is tried again",
        )
    return None


def _swapped(state: IncidentState, now: datetime) -> Step:
    """Retire the hardware that failed, once it is sure that it is gone; what came gets an incident of its own.

    The fence stays, and whoever leads finds it there before other hardware: that is tried before anybody may use it.
    """
    sure_at = (state.swapped_since or now) + state.policy.stable
    slot = state.target.device.device
    if now >= sure_at:
        message = f"the hardware that failed is gone; what is in slot {slot} now is tried anew"
        return Step(verb=Verb.CLOSE, phase=Phase.RETIRED, reason="HardwareChanged", message=message)
    message = f"slot {slot} holds other hardware than the one that failed; waits to see whether it stays"
    recheck_at = max(sure_at, now + SHORTEST)
    return Step(
        verb=Verb.WAIT, phase=Phase.RECOVERING, reason="HardwareChanged", message=message, recheck_at=recheck_at
    )


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
