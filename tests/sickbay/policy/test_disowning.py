"""A device that a person gives up: whatever state its incident is in, and what keeps it all the same."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from sickbay.model.command import Command, CommandVerb, Halt, Hindrance, Orders, Outcome, Pause
from sickbay.model.contracts import Fenced, Observed
from sickbay.model.device import UNKNOWN_HARDWARE
from sickbay.model.incident import (
    Ask,
    IncidentState,
    ProbeStage,
    Proof,
    ReleaseStage,
    Trial,
    Verdict,
)
from sickbay.model.observation import Health
from sickbay.model.record import Disowning, Phase
from sickbay.policy import progress
from sickbay.policy.commanding import obey
from sickbay.policy.ladder import next_step
from sickbay.policy.restraint import settle
from sickbay.policy.steps import Step, Verb
from tests.builders import NOW, incident, policy, reading, user

HOUR = timedelta(hours=1)
WORD = Disowning(by="eve", reason="the release depends on it", incident=incident().target.incident)
FENCED: dict[str, Any] = {
    "fenced_at": NOW - HOUR,
    "fence_number": 1,
    "fence_allotted": True,
    "fence_uid": "rule-1",
    "read_at": NOW,
    "verified": True,
    "bad_since": NOW - HOUR,
    "phase": Phase.RECOVERING,
}
FREE = FENCED | {"users_at": NOW, "next_probe_at": NOW + HOUR}


def given_up(state: IncidentState, now: datetime = NOW, **read: Any) -> tuple[IncidentState, Step]:
    """Let a live reading find the word, and decide."""
    state = settle(
        progress.after_read(
            state, reading(**{"health": None, "disowned": WORD, "admitted": state.admitted} | read), now
        ),
        now,
    )
    return state, next_step(state, now)


@pytest.mark.parametrize(
    ("facts", "verb", "phase"),
    [
        pytest.param({"admitted": False}, Verb.CLOSE, Phase.DISOWNED, id="held: nothing stands, nothing is lifted"),
        pytest.param(
            {"admitted": False, "severity": Health.UNKNOWN}, Verb.CLOSE, Phase.DISOWNED, id="a suspect likewise"
        ),
        pytest.param(
            {},
            Verb.FENCE,
            Phase.QUARANTINED,
            id="an admitted one without a fence: the leader's may stand, and is known",
        ),
        pytest.param(FENCED, Verb.OPEN_RELEASE, Phase.RELEASING, id="quarantined"),
        pytest.param(
            FENCED | {"users_at": NOW, "users": (user(),)},
            Verb.OPEN_RELEASE,
            Phase.RELEASING,
            id="in use: nobody is moved any more",
        ),
        pytest.param(FREE, Verb.OPEN_RELEASE, Phase.RELEASING, id="at rest before a probe"),
        pytest.param(
            FREE | {"probe": ProbeStage.ALLOTTED, "probe_number": 1},
            Verb.STOP_PROBE,
            Phase.PROBING,
            id="half a probe may be there",
        ),
        pytest.param(
            FREE | {"probe": ProbeStage.STARTED, "probe_number": 1},
            Verb.STOP_PROBE,
            Phase.PROBING,
            id="a probe is removed first",
        ),
        pytest.param(
            FREE | {"probe": ProbeStage.SOAKING, "trial": Trial.CANARY, "probe_number": 2, "proof": Proof.PROBED},
            Verb.STOP_PROBE,
            Phase.CANARY,
            id="so is a canary",
        ),
        pytest.param(
            FREE | {"ramped_at": NOW, "proof": Proof.SOAKED},
            Verb.OPEN_RELEASE,
            Phase.RELEASING,
            id="in the ramp the rest of it is left out",
        ),
        pytest.param(
            FREE | {"phase": Phase.NEEDS_OPERATOR, "attempts": 5, "ask": Ask(reason="ProbesFailed")},
            Verb.OPEN_RELEASE,
            Phase.RELEASING,
            id="a person was asked, and this is an answer",
        ),
        pytest.param(
            FREE | {"orders": Orders(pause=Pause(since=NOW - HOUR)), "reread": True},
            Verb.OPEN_RELEASE,
            Phase.RELEASING,
            id="it goes over a pause of the incident",
        ),
        pytest.param(
            FREE | {"orders": Orders(kept_until=NOW + HOUR)},
            Verb.OPEN_RELEASE,
            Phase.RELEASING,
            id="and over an extended quarantine",
        ),
        pytest.param(
            FREE | {"orders": Orders(retiring="ann: worn")}, Verb.OPEN_RELEASE, Phase.RELEASING, id="and a retirement"
        ),
        pytest.param(
            FREE | {"hand_edits": 2, "hand_edited_at": NOW}, Verb.OPEN_RELEASE, Phase.RELEASING, id="and hand edits"
        ),
        pytest.param(
            FREE | {"policy": policy(mode="shadow")}, Verb.OPEN_RELEASE, Phase.RELEASING, id="a shadow goes too"
        ),
        pytest.param(
            FREE | {"orders": Orders(halt=Halt(reason=Hindrance.PAUSED, message="all is paused"))},
            Verb.AWAIT_GO,
            Phase.RECOVERING,
            id="but not over a pause of the installation",
        ),
        pytest.param(
            FREE | {"orders": Orders(halt=Halt(reason=Hindrance.HANDS_OFF, message="marked"))},
            Verb.AWAIT_GO,
            Phase.NEEDS_OPERATOR,
            id="nor over a mark on the node",
        ),
    ],
)
def test_what_comes_next_in_each_state(facts: dict[str, Any], verb: Verb, phase: Phase) -> None:
    """The word takes each incident to its end by the ordinary order."""
    state, step = given_up(incident(**facts))
    assert (step.verb, step.phase) == (verb, phase)
    if step.verb is Verb.OPEN_RELEASE:
        assert (step.outcome, step.reason) == (Phase.DISOWNED, "Disowned")
    assert "given up by eve: the release depends on it" in state.timeline[-1].text


def releasing(stage: ReleaseStage = ReleaseStage.OPENED, **facts: Any) -> IncidentState:
    """Build the state of an incident whose device was given up, and is being released."""
    orders = Orders(disowned=WORD)
    return incident(**FREE | {"release": stage, "outcome": Phase.DISOWNED, "orders": orders} | facts)


@pytest.mark.parametrize(
    "read",
    [
        {"health": Health.UNHEALTHY},
        {"hardware_id": UNKNOWN_HARDWARE, "hardware_unique": False},
        {"hardware_id": "GPU-other"},
        {"health": None, "node_gone": True},
    ],
    ids=["bad news", "unknown hardware", "other hardware", "nobody there"],
)
def test_no_reading_calls_it_off(read: dict[str, Any]) -> None:
    """That the device is bad is what the person overrules."""
    state, step = given_up(releasing(), **read)
    assert (state.release, step.verb) == (ReleaseStage.READ, Verb.UNLATCH)
    later, step = given_up(releasing(ReleaseStage.DELETED), **read)
    assert (later.release, step.verb) == (ReleaseStage.DELETED, Verb.AWAIT_FENCE_GONE)


@pytest.mark.parametrize("stage", [ReleaseStage.OPENED, ReleaseStage.READ, ReleaseStage.UNLATCHED])
def test_the_word_can_be_taken_back(stage: ReleaseStage) -> None:
    """Before the fence is deleted: it is made sure of, and the device has to prove itself like any other."""
    state, step = given_up(releasing(stage), disowned=None)
    assert (state.release, state.outcome, state.orders.disowned) == (ReleaseStage.NONE, None, None)
    assert step.verb is Verb.FENCE
    late, step = given_up(releasing(ReleaseStage.DELETED), disowned=None)
    assert (late.orders.disowned, step.verb) == (WORD, Verb.AWAIT_FENCE_GONE)


def test_a_release_under_way_ends_as_what_it_is() -> None:
    """A device that has proved itself was not given up; bad news makes the difference."""
    proved = {"release": ReleaseStage.OPENED, "outcome": Phase.RELEASED, "proof": Proof.SOAKED}
    state, step = given_up(incident(**FREE | proved))
    assert (state.outcome, step.verb) == (Phase.RELEASED, Verb.UNLATCH)
    state, step = given_up(incident(**FREE | proved), health=Health.UNHEALTHY)
    assert (state.outcome, step.verb) == (None, Verb.FENCE)
    state = progress.after_fenced(state, Fenced(uid=state.fence_uid), NOW)
    assert next_step(settle(state, NOW), NOW).outcome is Phase.DISOWNED


def test_a_halt_calls_the_release_back_and_it_goes_on_afterwards() -> None:
    """The fence stands while the installation is paused."""
    halt = Halt(reason=Hindrance.PAUSED, message="all is paused")
    state = settle(releasing(ReleaseStage.READ, orders=Orders(disowned=WORD, halt=halt)), NOW)
    assert (state.release, state.outcome, state.fenced_at) == (ReleaseStage.NONE, None, None)
    assert next_step(state, NOW).verb is Verb.FENCE


def test_a_paused_incident_reads_when_it_is_called_and_not_for_less() -> None:
    """What the watcher says of a device waits for the end of a pause; the word of who may end it does not."""
    paused = incident(**FREE | {"orders": Orders(pause=Pause(since=NOW))})
    heard = progress.heard(paused, Observed(health=Health.UNHEALTHY), NOW)
    assert next_step(heard, NOW).verb is Verb.WAIT
    called = progress.heard(paused, Observed(health=Health.UNHEALTHY, disowned=True), NOW)
    assert next_step(called, NOW).verb is Verb.READ
    # Anybody can send a signal: without a word in the record, it rests again.
    after, step = given_up(called, disowned=None)
    assert (step.verb, after.orders.summoned) == (Verb.WAIT, False)


def test_a_step_that_fails_is_waited_out_first() -> None:
    """A fault is tried again within the minute, and then the word counts."""
    fault = Ask(reason="StepFailed", remedy="tried again", since=NOW)
    state, step = given_up(incident(**FREE | {"fault": fault}))
    assert (step.verb, step.reason) == (Verb.WAIT, "StepFailed")
    later = NOW + timedelta(minutes=1)
    _, step = given_up(progress.after_timeout(state, Verb.WAIT, later), later)
    assert step.verb is Verb.OPEN_RELEASE


def test_the_same_word_is_one_line_of_the_story() -> None:
    """However often it is read."""
    state, _ = given_up(incident(**FREE))
    again, _ = given_up(state)
    assert [line.text for line in again.timeline] == [line.text for line in state.timeline]


@pytest.mark.parametrize("verb", CommandVerb)
def test_nobody_holds_back_by_command_what_was_given_up(verb: CommandVerb) -> None:
    """What would restrain it is refused, and the sender is told by whom."""
    state, _ = given_up(incident(**FREE | {"ask": Ask(reason="ProbesFailed")}))
    pause = Orders(disowned=WORD, pause=Pause(since=NOW))
    state = state.model_copy(update={"orders": pause})
    told = Command(id="1", verb=verb, actor="ann", reason="no", until=NOW + HOUR)
    _, answer = obey(state, told, NOW)
    allowed = verb in {CommandVerb.RESUME, CommandVerb.APPROVE}
    assert (answer.outcome is Outcome.APPLIED) is allowed
    assert allowed or "eve has given the device up" in answer.message


def test_a_trial_that_was_given_up_proves_nothing() -> None:
    """Should the word be taken back, the device is probed anew."""
    soaked = FREE | {"probe": ProbeStage.SOAKING, "trial": Trial.CANARY, "probe_number": 2, "proof": Proof.PROBED}
    state, _ = given_up(incident(**soaked))
    assert (state.probe, state.verdict, state.proof) == (ProbeStage.JUDGED, Verdict.WAITING, Proof.NONE)
