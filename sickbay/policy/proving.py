"""What a trial, a soak, a ramp or a release changes in an incident's facts. Pure, as the ladder.

Proof is won step by step, and lost at once.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from sickbay.model.base import format_duration
from sickbay.model.business import Checking
from sickbay.model.contracts import Fenced, ProbeStarted, ProbeVerdict, Reading
from sickbay.model.incident import IncidentState, ProbeStage, Proof, ReleaseStage, Trial, Verdict
from sickbay.model.observation import Health
from sickbay.model.record import Phase
from sickbay.policy.standing import REMINDER, lasted
from sickbay.policy.steps import Verb
from sickbay.policy.story import extended, note
from sickbay.policy.verdict import BUSY, CHANGED

RETRY_PROBE: Final = timedelta(seconds=30)
"""Pause before a probe that could not start, or that proved nothing, is tried again."""

FLIPPED: Final = 2
"""As how many failed probes it counts that a device flaps: what is bad and well in turns is not worth a try so soon."""

BUSINESS_UNSURE: Final = "BusinessUnsure"
"""Cause: the device soaked, and until its deadline no answer of the business check counted."""

_CHANGED: Final = ProbeVerdict(verdict=Verdict.INCONCLUSIVE, cause=CHANGED, message="the slot holds other hardware now")


def allotted(state: IncidentState, trial: Trial) -> dict[str, object]:
    """Give the changes for a trial that has its number and is sent next.

    What is still said of the device when the first of its trials is sent is what a pass outvotes.
    """
    changes: dict[str, object] = {
        "trial": trial,
        "probe_number": state.probe_number + 1,
        "probe": ProbeStage.ALLOTTED,
        "verdict": None,
        "verdict_cause": "",
    }
    if state.proof is Proof.NONE:
        said = state.observations if state.health is not None else ()  # they are kept when nobody reports any more
        changes["overruled"] = tuple(o for o in said if o.health is not Health.HEALTHY)
    return changes


def after_probe_started(state: IncidentState, started: ProbeStarted, now: datetime) -> IncidentState:
    """Note that the trial is there, or why it has to wait; waiting uses no attempt.

    One that the cluster would not have has ended as any that could not run: what there is of it is removed, and the
    breaker hears of it.
    """
    if started.verdict is not None:
        return after_verdict(state, started.verdict, now)
    if started.waiting:
        return state.model_copy(
            update={
                "next_probe_at": now + _refused_pause(state),
                "refused": state.refused + 1,
                "verdict_note": started.waiting,
                "users_at": None,
            }
        )
    sent = state.model_copy(update={"probe": ProbeStage.STARTED, "probe_sent_at": now})
    return note(sent, f"{state.trial} {state.probe_number} was sent", now)


def after_verdict(state: IncidentState, verdict: ProbeVerdict, now: datetime) -> IncidentState:
    """Note a verdict. Its pod is removed next, but for a canary whose load has passed: that one stays and soaks."""
    text = ": ".join(part for part in (verdict.cause, verdict.message) if part) or str(verdict.verdict)
    passed = verdict.verdict is Verdict.PASS
    state = note(state, f"{state.trial} {state.probe_number}: {verdict.verdict}. {text}", now)
    if passed and state.trial is Trial.CANARY:
        # Healthy counts from here: what was said before was said without the load.
        soaking = {"probe": ProbeStage.SOAKING, "soaking_since": now, "healthy_since": None, "reread": True}
        return state.model_copy(update={**soaking, "verdict_note": text, "refused": 0})
    judged: dict[str, object] = {"probe": ProbeStage.JUDGED, "verdict": verdict.verdict, "verdict_note": text}
    judged["verdict_cause"] = verdict.cause
    if passed:
        judged |= {"proof": Proof.PROBED, "probed_version": verdict.resource_version, "refused": 0}
    else:
        judged["healthy_since"] = None
    if verdict.cause == BUSY:
        judged["users_at"] = None
    return state.model_copy(update=judged)


def after_probe_stopped(state: IncidentState, now: datetime) -> IncidentState:
    """Count the attempt and set the time of the next."""
    changes: dict[str, object] = {"probe": ProbeStage.NONE, "soaking_since": None, "removing_since": None}
    if state.verdict is Verdict.FAIL:
        attempts = state.attempts + 1
        changes |= {
            "proof": Proof.NONE,
            "attempts": attempts,
            "inconclusive": 0,
            "refused": 0,
            "verified": True,
            "checking": Checking(),
            "next_probe_at": now + pause_after(state, attempts),
        }
    elif state.verdict is Verdict.INCONCLUSIVE:
        spent = state.inconclusive >= state.policy.probe.inconclusive
        pause = state.policy.probe.longest if spent else RETRY_PROBE
        changes |= {
            "proof": Proof.NONE,
            "inconclusive": state.inconclusive + 1,
            "refused": 0,
            "next_probe_at": now + pause,
        }
    elif state.verdict is Verdict.WAITING:
        changes |= {"refused": state.refused + 1, "next_probe_at": now + _refused_pause(state)}
    elif state.verdict is Verdict.PASS and state.proof is Proof.SOAKED:
        changes["inconclusive"] = 0
    return state.model_copy(update=changes)


def after_trial_reading(state: IncidentState, reading: Reading, now: datetime) -> IncidentState:
    """Let a live reading confirm what has been proved so far, or take it back.

    What was still said when the device was first tried is outvoted by a pass; anything else is news.
    """
    if state.release is ReleaseStage.NONE and state.proof is Proof.NONE:
        return state
    if state.outcome is Phase.DISOWNED:
        # Whatever is said of the device, and whichever it is: it was given up all the same.
        opened = state.release is ReleaseStage.OPENED
        return state.model_copy(update={"release": ReleaseStage.READ}) if opened else state
    outvoted = {(o.source.uid, o.digest) for o in state.overruled}
    news = any(o.health is Health.UNHEALTHY and (o.source.uid, o.digest) not in outvoted for o in reading.observations)
    if news or (state.swapped and (state.release is not ReleaseStage.NONE or state.ramped_at is not None)):
        return called_off(state, now, news=news)
    if state.probe is ProbeStage.SOAKING:
        verdict = reading.canary or (_CHANGED if state.swapped else None)
        return _soaked(state, now) if verdict is None else after_verdict(state, verdict, now)
    if state.release is not ReleaseStage.OPENED:
        return state
    if state.outcome is Phase.RELEASED and not state.addressable:
        # Its identity cannot be read just now: the proof stands, the release waits.
        return state.model_copy(update={"release": ReleaseStage.NONE, "outcome": None})
    return state.model_copy(update={"release": ReleaseStage.READ})


def _soaked(state: IncidentState, now: datetime) -> IncidentState:
    """End a soak that has lasted, or that will not come to anything."""
    soak, began = state.policy.soak, state.soaking_since or now
    text = f"fresh Healthy for {format_duration(soak.time)} under load"
    if lasted(state, soak.time) and not state.policy.business.wanted:
        return soaked(state, text, now)
    if now < began + soak.deadline:
        return state
    if lasted(state, soak.time):
        # The canary stays while the business check is asked: at least once, and not for ever.
        unsure = ProbeVerdict(cause=BUSINESS_UNSURE, message=state.checking.note)
        return state if state.checking.unsure_since is None else after_verdict(state, unsure, now)
    late = ProbeVerdict(
        verdict=Verdict.INCONCLUSIVE,
        cause="SoakDeadline",
        message=f"not fresh Healthy for {format_duration(soak.time)} in {format_duration(soak.deadline)}",
    )
    return after_verdict(state, late, now)


def soaked(state: IncidentState, text: str, now: datetime) -> IncidentState:
    """Note that a soak came to its good end: the canary is removed next, and then the device comes back."""
    judged = {"probe": ProbeStage.JUDGED, "verdict": Verdict.PASS, "verdict_note": text, "proof": Proof.SOAKED}
    return note(state.model_copy(update=judged), f"canary {state.probe_number}: {text}", now)


def called_off(state: IncidentState, now: datetime, *, news: bool) -> IncidentState:
    """Go back to Quarantined with a longer pause: nothing that was proved holds any more."""
    attempts = state.attempts + 1
    changes: dict[str, object] = {
        "release": ReleaseStage.NONE,
        "outcome": None,
        "verdict": None,
        "proof": Proof.NONE if news else state.proof,
        "ramped_at": None,
        "verified": state.verified or news,
        "attempts": attempts,
        "checking": Checking(),
        "next_probe_at": now + pause_after(state, attempts),
        "users_at": None,
        "unsaid": True,
        **extended(state, state.phase, "bad news after it had passed: no release", now),
    }
    if state.probe is not ProbeStage.NONE:
        changes["probe"] = ProbeStage.JUDGED  # it may be there, or half of it
    if state.release is not ReleaseStage.NONE or state.ramped_at is not None:
        # A fence that is gone is put back under the next number; one that still stands is made sure of again.
        gone = state.release in {ReleaseStage.DELETED, ReleaseStage.GONE}
        changes |= {"fence_allotted": not gone, "fenced_at": None}
    return state.model_copy(update=changes)


def after_ramped(state: IncidentState, fenced: Fenced, now: datetime) -> IncidentState:
    """Note that the fence lets in who has opted in, or that it has to be put back first."""
    if fenced.lost:
        return state.model_copy(update={"fenced_at": None})
    ramped = state.model_copy(update={"ramped_at": now, "users_at": None})
    return note(ramped, "the fence lets in workloads that tolerate the ramp", now)


def after_release_step(state: IncidentState, verb: Verb) -> IncidentState:
    """Move a release on by one stage."""
    stages = {
        Verb.UNLATCH: ReleaseStage.UNLATCHED,
        Verb.DELETE_FENCE: ReleaseStage.DELETED,
        Verb.AWAIT_FENCE_GONE: ReleaseStage.GONE,
    }
    return state.model_copy(update={"release": stages[verb], "deleting": False})


def _refused_pause(state: IncidentState) -> timedelta:
    """Pause before a trial that could not run is tried again: it grows."""
    return min(RETRY_PROBE * 2.0 ** min(state.refused, 16), max(state.policy.probe.longest, RETRY_PROBE))


def pause_after(state: IncidentState, attempts: int) -> timedelta:
    """Pause before the next probe after so many failed ones: exponential, bounded; a day when all are spent.

    Releases shortly before count as failed probes: they were. So does flapping, once.
    """
    probe = state.policy.probe
    if attempts >= probe.attempts:
        return REMINDER
    pause, longest = probe.first.total_seconds(), probe.longest.total_seconds()
    for _ in range(attempts + state.flaps + (FLIPPED if state.flips else 0)):
        if pause >= longest:
            break  # before the numbers run out
        pause *= probe.factor
    return timedelta(seconds=min(pause, longest))
