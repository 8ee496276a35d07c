"""The rung of the business check: asked after the soak and before the ramp, and only a good number passes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from sickbay.model.business import Checking
from sickbay.model.command import Command, CommandVerb
from sickbay.model.contracts import BusinessVerdict, Observed
from sickbay.model.incident import Ask, IncidentState, ProbeStage, Proof, Trial, Verdict
from sickbay.model.observation import Health
from sickbay.model.record import Phase
from sickbay.policy.business import after_business
from sickbay.policy.commanding import obey
from sickbay.policy.ladder import next_step
from sickbay.policy.progress import after_read, enter, heard
from sickbay.policy.proving import after_probe_stopped
from sickbay.policy.restraint import settle
from sickbay.policy.steps import Step, Verb
from tests.builders import NOW, incident, observation, policy, reading, seconds
from tests.sickbay.policy.test_ladder import FREE

SETTINGS = {"prometheus": "http://p:9090", "query": "vector(1)", "min": 1.0}
SOAKED = NOW + timedelta(minutes=10)
GOOD = BusinessVerdict(verdict=Verdict.PASS, cause="InBounds", message="1.5, good is at least 1", value=1.5)
BAD = BusinessVerdict(verdict=Verdict.FAIL, cause="OutOfBounds", message="0.5, good is at least 1", value=0.5)
NONE = BusinessVerdict(cause="NoData", message="no series")
BAD_NEWS = Observed(health=Health.UNHEALTHY)


def soaking(**changes: Any) -> IncidentState:
    """Build an incident whose canary has soaked for as long as it must, and was read a moment ago."""
    facts = FREE | {
        "policy": policy(business=SETTINGS),
        "trial": Trial.CANARY,
        "probe": ProbeStage.SOAKING,
        "probe_number": 2,
        "proof": Proof.PROBED,
        "soaking_since": NOW,
        "healthy_since": NOW,
        "health": Health.HEALTHY,
        "read_at": SOAKED,
    }
    return incident(**facts | changes)


def at(minutes: float) -> datetime:
    """Give a time after the soak was over."""
    return SOAKED + timedelta(minutes=minutes)


def test_it_is_asked_when_the_soak_has_its_time() -> None:
    """Not before, and the canary stays for it."""
    early = soaking(read_at=SOAKED - seconds(1))
    assert next_step(early, SOAKED).verb is Verb.WAIT
    step = next_step(soaking(), SOAKED)
    assert (step.verb, step.phase) == (Verb.CHECK_BUSINESS, Phase.SOAKING)


def test_without_it_the_soak_ends_as_ever() -> None:
    """The reading that completes it judges it."""
    state = soaking(policy=policy(), read_at=SOAKED - seconds(1), lease_moved_at=SOAKED, observations=())
    state = after_read(state, reading(Health.HEALTHY), SOAKED)
    assert (state.probe, state.proof) == (ProbeStage.JUDGED, Proof.SOAKED)


def test_a_reading_alone_does_not_end_the_soak() -> None:
    """However long it lasts."""
    state = soaking(read_at=SOAKED - seconds(1), lease_moved_at=SOAKED, observations=())
    state = after_read(state, reading(Health.HEALTHY), SOAKED)
    assert (state.probe, state.proof) == (ProbeStage.SOAKING, Proof.PROBED)
    assert next_step(state, SOAKED).verb is Verb.CHECK_BUSINESS


def test_a_good_number_ends_the_soak_well() -> None:
    """Then the canary goes, and the ramp begins; the number is in the story."""
    state = after_business(soaking(), GOOD, SOAKED)
    assert (state.probe, state.proof, state.verdict) == (ProbeStage.JUDGED, Proof.SOAKED, Verdict.PASS)
    assert "1.5, good is at least 1" in state.timeline[-1].text
    assert next_step(state, SOAKED).verb is Verb.STOP_PROBE
    assert next_step(after_probe_stopped(state, SOAKED), SOAKED).verb is Verb.RAMP


def test_a_bad_number_is_a_failed_proof() -> None:
    """All is proved anew after a longer pause, and the number is in the story."""
    state = after_business(soaking(attempts=1), BAD, SOAKED)
    assert "fail. BusinessCheckFailed: 0.5, good is at least 1" in state.timeline[-1].text
    state = after_probe_stopped(state, SOAKED)
    assert (state.proof, state.attempts, state.next_probe_at) == (Proof.NONE, 2, SOAKED + timedelta(minutes=4))
    assert state.checking == Checking()


def test_no_answer_keeps_everything_as_it_is() -> None:
    """The canary soaks on, readings go on, and the question is asked again; the story has it once."""
    state = after_business(soaking(), NONE, SOAKED)
    assert (state.probe, state.proof) == (ProbeStage.SOAKING, Proof.PROBED)
    step = next_step(state, SOAKED)
    assert (step.verb, step.phase, step.recheck_at) == (Verb.WAIT, Phase.SOAKING, SOAKED + seconds(30))
    state = state.model_copy(update={"read_at": at(0.5)})
    assert next_step(state, at(0.5)).verb is Verb.CHECK_BUSINESS
    again = after_business(state, NONE, at(0.5))
    assert again.timeline == state.timeline
    other = after_business(again, NONE.model_copy(update={"cause": "TooSlow"}), at(1))
    assert len(other.timeline) == len(state.timeline) + 1
    assert other.checking.unsure_since == SOAKED


def test_a_person_is_asked_when_no_answer_counts_for_long() -> None:
    """With the remedy; the question goes on, and the ask stays while the device is read."""
    state = after_business(soaking(), NONE, SOAKED)
    state = after_business(state.model_copy(update={"read_at": at(29)}), NONE, at(29))
    assert next_step(state, at(29)).ask is None
    state = state.model_copy(update={"read_at": at(30)})
    step = next_step(state, at(30))
    assert (step.verb, step.phase) == (Verb.CHECK_BUSINESS, Phase.NEEDS_OPERATOR)
    assert step.ask is not None
    assert step.ask.reason == "BusinessCheckUnsure"
    assert "http://p:9090" in step.ask.remedy
    assert "NoData: no series" in step.ask.remedy
    asked = enter(state, step, at(30)).model_copy(update={"unsaid": False, "reread": True})
    read = enter(asked, next_step(asked, at(30)), at(30))
    assert (read.ask, read.unsaid) == (asked.ask, False)
    assert next_step(after_business(state, GOOD, at(31)), at(31)).ask is None


def test_a_person_goes_on_being_asked_when_the_canary_is_gone() -> None:
    """Its deadline ends the soak without proof: the attempt is not the device's fault, and it starts over."""
    state = after_business(soaking(), NONE, SOAKED).model_copy(update={"lease_moved_at": at(110), "observations": ()})
    state = after_read(state, reading(Health.HEALTHY, lease_version="3"), at(110))
    assert (state.probe, state.verdict) == (ProbeStage.JUDGED, Verdict.INCONCLUSIVE)
    assert state.verdict_note == "BusinessUnsure: no series"
    state = after_probe_stopped(state, at(110))
    assert (state.proof, state.attempts, state.inconclusive) == (Proof.NONE, 0, 1)
    state = state.model_copy(update={"reread": False})
    step = next_step(state, at(111))
    assert (step.verb, step.trial) == (Verb.START_PROBE, Trial.PROBE)
    assert step.ask is not None
    assert step.ask.reason == "BusinessCheckUnsure"


def test_it_is_asked_at_least_once_however_late() -> None:
    """A device that was only well in the last minutes before the deadline has a right to the question."""
    state = soaking(healthy_since=at(100), read_at=at(109), lease_moved_at=at(111), observations=(observation(),))
    state = state.model_copy(update={"observations": ()})
    state = after_read(state, reading(Health.HEALTHY), at(111))
    assert next_step(state, at(111)).verb is Verb.CHECK_BUSINESS


@pytest.mark.parametrize("answer", [GOOD, BAD, NONE])
def test_an_answer_that_comes_too_late_changes_nothing(answer: BusinessVerdict) -> None:
    """A person, or bad news, has ended the soak meanwhile."""
    paused, _ = obey(soaking(), Command(id="1", verb=CommandVerb.PAUSE, actor="ann"), SOAKED)
    ended = settle(paused, SOAKED)
    assert ended.probe is ProbeStage.JUDGED
    assert after_business(ended, answer, SOAKED) == ended


def test_a_pause_during_the_question_takes_a_good_answer_back() -> None:
    """What was proved before a pause does not count after it."""
    paused, _ = obey(soaking(), Command(id="1", verb=CommandVerb.PAUSE, actor="ann"), SOAKED)
    state = settle(after_business(paused, GOOD, SOAKED), SOAKED)
    assert state.proof is Proof.NONE


def test_bad_news_outweighs_a_good_number() -> None:
    """The device is read before anything else is done, and the proof is lost."""
    state = after_business(soaking(), GOOD, SOAKED)
    state = heard(state, BAD_NEWS, SOAKED)
    assert next_step(state, SOAKED).verb is Verb.READ
    state = after_read(state, reading(Health.UNHEALTHY), SOAKED)
    assert (state.proof, state.checking) == (Proof.NONE, Checking())


def test_who_approves_has_it_asked_again_at_once() -> None:
    """It proves nothing and skips nothing."""
    state = after_business(soaking(), NONE, SOAKED)
    state = enter(
        state, Step(verb=Verb.WAIT, phase=Phase.SOAKING, reason="x", message="x", ask=Ask(reason="x")), SOAKED
    )
    state, _ = obey(state, Command(id="1", verb=CommandVerb.APPROVE, actor="ann"), at(0.1))
    step = next_step(state.model_copy(update={"reread": False}), at(0.1))
    assert step.verb is Verb.CHECK_BUSINESS
