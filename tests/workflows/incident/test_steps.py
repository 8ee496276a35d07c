"""From a step to its activity: what a step's input takes from the incident's facts."""

from __future__ import annotations

import pytest

from sickbay.model.contracts import ProbeVerdict, StopProbe
from sickbay.model.incident import IncidentState, ProbeStage, Trial, Verdict
from sickbay.policy.ladder import next_step
from sickbay.policy.proving import after_verdict, allotted
from sickbay.policy.steps import Verb
from tests.builders import NOW, incident, policy
from tests.sickbay.policy.test_ladder import FREE
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


@pytest.mark.parametrize("trial", list(Trial))
def test_a_trial_that_was_cut_short_came_to_nothing(trial: Trial) -> None:
    """What the one before it came to is not told again."""
    state = after_verdict(incident(**FREE, probe=ProbeStage.STARTED, probe_number=3), SAID, NOW)
    state = state.model_copy(update=allotted(state, trial)).model_copy(update={"probe": ProbeStage.JUDGED})
    told = stop(state)
    assert (told.number, told.verdict, told.cause) == (4, None, "")
