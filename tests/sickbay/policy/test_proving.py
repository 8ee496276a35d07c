"""What a trial that the cluster would not have changes: it could not run, and nothing else."""

from __future__ import annotations

import pytest

from sickbay.model.breaker import Breaker
from sickbay.model.contracts import ProbeStarted, StopProbe
from sickbay.model.incident import IncidentState, ProbeStage, Proof, Trial, Verdict
from sickbay.model.policy import Probe
from sickbay.policy.breaker import heard
from sickbay.policy.ladder import next_step
from sickbay.policy.progress import enter
from sickbay.policy.proving import after_probe_started, after_probe_stopped
from sickbay.policy.steps import Verb
from sickbay.policy.verdict import refused
from tests.builders import DEVICE, NOW, incident, seconds, target
from tests.sickbay.policy.test_ladder import FREE

WHY = 'pods "x" is forbidden: exceeded quota: none, requested: pods=1 <b>see</b>'


def sent(state: IncidentState, after: float) -> IncidentState:
    """Send the next trial, which the cluster will not have, and remove what there is of it."""
    now = NOW + seconds(after)
    step = next_step(state, now)
    assert step.verb is Verb.START_PROBE, step
    state = after_probe_started(enter(state, step, now), ProbeStarted(verdict=refused("Pod", WHY)), now)
    step = next_step(state, now)
    assert (step.verb, state.probe, state.verdict_cause) == (Verb.STOP_PROBE, ProbeStage.JUDGED, "Refused")
    return after_probe_stopped(enter(state, step, now), now)


@pytest.mark.parametrize(("proof", "trial"), [(Proof.NONE, Trial.PROBE), (Proof.PROBED, Trial.CANARY)])
def test_a_trial_that_is_refused_waits_and_uses_no_attempt(proof: Proof, trial: Trial) -> None:
    """What was proved before stays proved, the pause grows, and a person is asked with the server's own words."""
    state, at = incident(**FREE, proof=proof, next_probe_at=NOW), 31.0
    for times in range(1, 5):
        state = sent(state, at)
        assert (state.refused, state.attempts, state.inconclusive, state.proof) == (times, 0, 0, proof)
        assert (state.trial, state.verdict) == (trial, Verdict.WAITING)
        assert state.next_probe_at is not None
        pause = (state.next_probe_at - NOW).total_seconds() - at
        assert pause == 30 * 2 ** (times - 1)
        at += pause
    ask = next_step(state, NOW + seconds(at - 1)).ask
    assert ask is not None
    assert ask.reason == "ProbeCannotRun"
    assert 'Refused: Pod: pods "x" is forbidden: exceeded quota: none, requested: pods=1 bsee/b' in ask.remedy


def test_trials_that_are_refused_open_the_breaker() -> None:
    """A quota is not the devices' fault, whoever of them asks first."""
    breaker = Breaker()
    for n in range(5):
        key = DEVICE.model_copy(update={"device": f"gpu-{n}", "pool": f"node-{n}"})
        verdict = refused("Pod", WHY)
        ended = StopProbe(target=target(key), number=1, settings=Probe(stuck=5), **verdict.model_dump(include=ENDED))
        breaker = heard(breaker, ended, NOW)
    assert breaker.since == NOW
    assert "exceeded quota" in breaker.last


ENDED = {"verdict", "cause", "message"}
