"""From a step to its activity: what a step's input takes from the incident's facts."""

from __future__ import annotations

import pytest

from sickbay.model.breaker import Breaker
from sickbay.model.contracts import ProbeVerdict, StopProbe, WriteStatus
from sickbay.model.incident import IncidentState, ProbeStage, Trial, Verdict
from sickbay.model.record import Admission, AdmissionState, Counters, Phase, Record, RecordStatus
from sickbay.policy.breaker import heard, key_of
from sickbay.policy.ladder import next_step
from sickbay.policy.opening import incident_state
from sickbay.policy.proving import after_verdict, allotted
from sickbay.policy.steps import Verb
from tests.builders import DEVICE, NOW, incident, policy
from tests.installation import record_spec
from tests.sickbay.policy.test_ladder import FREE, LATER
from workflows.incident.steps import CALLS

SAID = ProbeVerdict(verdict=Verdict.INCONCLUSIVE, cause="NoVerdict", message="no message")


def stop(state: IncidentState) -> StopProbe:
    """Build the input of the step that removes a trial."""
    step = next_step(state, NOW)
    assert step.verb is Verb.STOP_PROBE
    built = CALLS[step.verb].build(state, step)
    assert isinstance(built, StopProbe)
    return built


def test_who_removes_a_trial_is_told_what_it_came_to() -> None:
    """The breaker for trials counts by it."""
    asks = policy(probe={"stuck": 7})
    state = incident(**FREE, policy=asks, probe=ProbeStage.STARTED, probe_number=3, trial=Trial.CANARY)
    told = stop(after_verdict(state, SAID, NOW))
    assert (told.number, told.trial, told.verdict, told.cause) == (3, Trial.CANARY, Verdict.INCONCLUSIVE, "NoVerdict")
    assert (told.message, told.settings.stuck) == ("NoVerdict: no message", 7)


def test_a_soak_that_was_terminated_holds_up_no_other_canary() -> None:
    """A person was asked about it, so its phase told nothing: the record says what it was, and the breaker lets go."""
    soak = incident(**FREE, phase=Phase.NEEDS_OPERATOR, probe=ProbeStage.SOAKING, probe_number=3, trial=Trial.CANARY)
    written = CALLS[Verb.WRITE].build(soak, next_step(soak, NOW))
    assert isinstance(written, WriteStatus)
    assert written.trial is Trial.CANARY
    status = RecordStatus(
        incident=soak.target.incident,
        phase=written.phase,
        verified=True,
        counters=Counters(fence=1, probe=written.probe_number),
        trial=written.trial,
    )
    spec = record_spec(DEVICE, run=2, admission=Admission(state=AdmissionState.ADMITTED))
    known = Record(name="r", uid=soak.target.record_uid, resource_version="1", spec=spec, status=status)
    again = incident_state(known, policy()).model_copy(update=FREE)
    told = stop(again)
    tried = Breaker(since=NOW, trying=key_of(told), trying_until=LATER)
    assert (told.trial, heard(tried, told, NOW).trying) == (Trial.CANARY, "")
    none = incident(**FREE, probe_number=3, trial=Trial.CANARY)
    written = CALLS[Verb.WRITE].build(none, next_step(none, NOW))
    assert isinstance(written, WriteStatus)
    assert written.trial is None


@pytest.mark.parametrize("trial", list(Trial))
def test_a_trial_that_was_cut_short_came_to_nothing(trial: Trial) -> None:
    """What the one before it came to is not told again."""
    state = after_verdict(incident(**FREE, probe=ProbeStage.STARTED, probe_number=3), SAID, NOW)
    state = state.model_copy(update=allotted(state, trial)).model_copy(update={"probe": ProbeStage.JUDGED})
    told = stop(state)
    assert (told.number, told.verdict, told.cause) == (4, None, "")
