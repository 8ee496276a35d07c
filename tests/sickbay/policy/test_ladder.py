"""The next step of an incident, rung by rung."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from sickbay.model.command import Orders, Pause
from sickbay.model.incident import Ask, IncidentState, ProbeStage, Proof, ReleaseStage, Trial, UserState, Verdict
from sickbay.model.observation import Health
from sickbay.model.record import Disowning, Phase
from sickbay.policy.ladder import next_step
from sickbay.policy.progress import enter
from sickbay.policy.proving import after_probe_stopped
from sickbay.policy.steps import Step, Verb
from tests.builders import NOW, incident, policy, seconds, user

READ = {"read_at": NOW, "health": Health.UNHEALTHY, "verified": True, "bad_since": NOW}
FENCED = READ | {"fence_number": 1, "fence_allotted": True, "fence_uid": "rule-1", "fenced_at": NOW}
FREE = FENCED | {"users": (), "users_at": NOW}
LATER = NOW + seconds(31)
GIVEN_UP = Disowning(by="eve", reason="needed", incident="incident/i")


def step(now: datetime = NOW, **facts: Any) -> Step:
    """Ask the ladder."""
    return next_step(incident(**facts), now)


@pytest.mark.parametrize(
    ("facts", "now", "verb", "phase"),
    [
        pytest.param({}, NOW, Verb.READ, Phase.SUSPECT, id="everything begins with a live reading"),
        pytest.param(FENCED | {"reread": True}, NOW, Verb.READ, Phase.SUSPECT, id="what was said is read first"),
        pytest.param(READ, NOW, Verb.FENCE, Phase.QUARANTINED, id="an admitted device is fenced at once"),
        pytest.param(FENCED, NOW, Verb.LIST_USERS, Phase.QUARANTINED, id="then its users are listed"),
        pytest.param(
            FENCED | {"users_at": NOW}, NOW, Verb.AWAIT_USERS, Phase.QUARANTINED, id="late users are looked for"
        ),
        pytest.param(
            FENCED | {"users_at": NOW, "users": (user(),)},
            NOW + seconds(29),
            Verb.AWAIT_USERS,
            Phase.QUARANTINED,
            id="nobody is moved before confirm is over",
        ),
        pytest.param(
            FENCED | {"users_at": NOW, "users": (user(),)},
            LATER,
            Verb.READ,
            Phase.EVACUATING,
            id="an old reading does not justify an eviction",
        ),
        pytest.param(
            FENCED | {"users_at": NOW, "users": (user(),), "read_at": LATER},
            LATER,
            Verb.EVICT,
            Phase.EVACUATING,
            id="a user that may move is evicted",
        ),
        pytest.param(
            FENCED | {"users_at": NOW, "users": (user(terminating=True),), "read_at": LATER},
            LATER,
            Verb.AWAIT_USERS,
            Phase.EVACUATING,
            id="a user that is terminating already is waited for",
        ),
        pytest.param(
            FENCED | {"users_at": NOW, "users": (user(may_move=False, note="stop it"),), "read_at": LATER},
            LATER,
            Verb.AWAIT_USERS,
            Phase.NEEDS_OPERATOR,
            id="a user that will not move is a person's decision",
        ),
        pytest.param(
            FENCED | {"users_at": NOW, "users": (user(),), "read_at": LATER, "healthy_since": NOW},
            LATER,
            Verb.AWAIT_USERS,
            Phase.QUARANTINED,
            id="nobody is moved off a device that is stably Healthy",
        ),
        pytest.param(
            FENCED | {"users_at": NOW, "users": (user(state=UserState.BLOCKED, retry_at=NOW + seconds(99)),)},
            LATER,
            Verb.AWAIT_USERS,
            Phase.EVACUATING,
            id="a blocked eviction is not hammered",
        ),
        pytest.param(FREE, NOW + seconds(15), Verb.WAIT, Phase.RECOVERING, id="a free device rests before its probe"),
        pytest.param(
            FREE | {"next_probe_at": NOW + seconds(60)}, NOW + seconds(60), Verb.START_PROBE, Phase.PROBING, id="probe"
        ),
        pytest.param(
            FREE | {"next_probe_at": NOW + seconds(600), "healthy_since": NOW, "read_at": LATER},
            LATER,
            Verb.START_PROBE,
            Phase.PROBING,
            id="fresh Healthy brings the probe forward",
        ),
        pytest.param(
            FREE | {"next_probe_at": NOW, "addressable": False},
            LATER,
            Verb.WAIT,
            Phase.NEEDS_OPERATOR,
            id="a device of unknown identity is never released",
        ),
        pytest.param(
            FREE | {"next_probe_at": NOW + seconds(86400), "attempts": 5},
            LATER,
            Verb.WAIT,
            Phase.NEEDS_OPERATOR,
            id="attempts are spent",
        ),
        pytest.param(
            FREE | {"probe": ProbeStage.STARTED}, LATER, Verb.AWAIT_PROBE, Phase.PROBING, id="a probe is waited for"
        ),
        pytest.param(
            FREE | {"probe": ProbeStage.JUDGED}, LATER, Verb.STOP_PROBE, Phase.PROBING, id="a judged probe is removed"
        ),
        pytest.param(
            FREE | {"probe": ProbeStage.STARTED, "trial": Trial.CANARY},
            LATER,
            Verb.AWAIT_PROBE,
            Phase.CANARY,
            id="a canary's load is waited for",
        ),
        pytest.param(
            FREE | {"probe": ProbeStage.SOAKING, "trial": Trial.CANARY, "proof": Proof.PROBED},
            LATER,
            Verb.WAIT,
            Phase.SOAKING,
            id="a canary that is loaded soaks",
        ),
        pytest.param(
            FREE | {"proof": Proof.PROBED}, LATER, Verb.START_PROBE, Phase.CANARY, id="a canary follows a passed probe"
        ),
        pytest.param(
            FREE | {"proof": Proof.SOAKED}, LATER, Verb.RAMP, Phase.RAMPING, id="what soaked lets in who opted in"
        ),
        pytest.param(
            FREE | {"proof": Proof.SOAKED, "policy": policy(ramp={"time": "0s"})},
            LATER,
            Verb.OPEN_RELEASE,
            Phase.RELEASING,
            id="without a ramp, what soaked is released",
        ),
        pytest.param(
            FREE | {"proof": Proof.SOAKED, "ramped_at": LATER, "users": (user(),)},
            LATER,
            Verb.WAIT,
            Phase.RAMPING,
            id="who took it in the ramp may stay",
        ),
        pytest.param(
            FREE | {"proof": Proof.SOAKED, "ramped_at": NOW, "users_at": None},
            NOW + seconds(600),
            Verb.LIST_USERS,
            Phase.RAMPING,
            id="at the end of a ramp it is written down who came",
        ),
        pytest.param(
            FREE | {"proof": Proof.SOAKED, "ramped_at": NOW},
            NOW + seconds(600),
            Verb.OPEN_RELEASE,
            Phase.RELEASING,
            id="a ramp ends without takers",
        ),
        pytest.param(
            FREE | {"flaps": 3}, LATER, Verb.WAIT, Phase.NEEDS_OPERATOR, id="a device that flaps is not tried at once"
        ),
        pytest.param(
            FREE | {"policy": policy(quarantine={"expires": "10s"}), "next_probe_at": NOW + seconds(600)},
            LATER,
            Verb.WAIT,
            Phase.NEEDS_OPERATOR,
            id="a quarantine that gets too old asks a person",
        ),
        pytest.param(
            FREE
            | {
                "policy": policy(quarantine={"expires": "10s", "onExpiry": "Probe"}),
                "next_probe_at": NOW + seconds(600),
            },
            LATER,
            Verb.START_PROBE,
            Phase.PROBING,
            id="or brings the next probe forward, if the policy wants that",
        ),
        pytest.param(
            FREE | {"proof": Proof.SOAKED, "swapped": True, "swapped_since": NOW},
            NOW + seconds(29),
            Verb.WAIT,
            Phase.RECOVERING,
            id="other hardware in the slot is not released on the old one's proof",
        ),
        pytest.param(
            FREE | {"proof": Proof.SOAKED, "swapped": True, "swapped_since": NOW},
            LATER,
            Verb.CLOSE,
            Phase.RETIRED,
            id="hardware that is gone for good is retired, and its fence stays for what came",
        ),
        pytest.param(
            FENCED | {"verified": False, "health": Health.HEALTHY, "healthy_since": NOW, "read_at": LATER},
            LATER,
            Verb.OPEN_RELEASE,
            Phase.RELEASING,
            id="a provisional fence is lifted when Healthy lasts",
        ),
        pytest.param(READ | {"admitted": False}, NOW, Verb.WAIT, Phase.HELD, id="what the guard holds waits, unfenced"),
        pytest.param(
            READ
            | {
                "admitted": False,
                "verified": False,
                "health": Health.HEALTHY,
                "healthy_since": NOW,
                "read_at": LATER,
            },
            LATER,
            Verb.CLOSE,
            Phase.CLEARED,
            id="Healthy while Held ends it",
        ),
        pytest.param(
            {"read_at": NOW, "severity": Health.UNKNOWN, "admitted": False},
            NOW,
            Verb.WAIT,
            Phase.SUSPECT,
            id="Unknown alone is tolerated",
        ),
        pytest.param(
            {"read_at": NOW, "severity": Health.UNKNOWN, "admitted": False},
            NOW + seconds(600),
            Verb.WAIT,
            Phase.NEEDS_OPERATOR,
            id="Unknown for too long asks a person, and fences nothing",
        ),
        pytest.param(
            {"read_at": NOW, "severity": Health.UNKNOWN, "admitted": False, "health": None, "node_gone": True},
            NOW,
            Verb.CLOSE,
            Phase.CLEARED,
            id="a Suspect ends with its node, when nobody reports on it any more",
        ),
        pytest.param(
            {"read_at": NOW, "severity": Health.UNKNOWN, "admitted": False, "node_gone": True}
            | {"health": Health.UNKNOWN},
            NOW,
            Verb.WAIT,
            Phase.SUSPECT,
            id="while a pod still reports on it, it stays",
        ),
        pytest.param(
            FREE | {"health": None, "node_gone": True},
            NOW + seconds(15),
            Verb.WAIT,
            Phase.RECOVERING,
            id="a fence outlives its node",
        ),
        pytest.param(
            FREE | {"verified": False, "probe": ProbeStage.JUDGED, "healthy_since": NOW, "read_at": LATER},
            LATER,
            Verb.STOP_PROBE,
            Phase.PROBING,
            id="a device that was probed is not cleared on hearsay",
        ),
        pytest.param(
            FENCED | {"policy": policy(mode="shadow"), "users_at": NOW, "users": (user(),), "read_at": LATER},
            LATER,
            Verb.WAIT,
            Phase.QUARANTINED,
            id="in shadow nobody is moved",
        ),
        pytest.param(
            FREE | {"policy": policy(mode="shadow"), "next_probe_at": NOW},
            LATER,
            Verb.WAIT,
            Phase.QUARANTINED,
            id="in shadow nothing is probed",
        ),
        pytest.param(
            FENCED
            | {
                "users_at": NOW,
                "users": (user(evicted_at=NOW, state=UserState.GONE), user(uid="pod-2", found_at=LATER)),
                "read_at": LATER,
            },
            LATER,
            Verb.AWAIT_USERS,
            Phase.NEEDS_OPERATOR,
            id="a job that comes back to the device is not evicted again",
        ),
        pytest.param(
            FENCED
            | {
                "users_at": NOW,
                "users": (user(terminating=True, leaving_since=NOW),),
                "read_at": NOW + seconds(1800),
            },
            NOW + seconds(1800),
            Verb.AWAIT_USERS,
            Phase.NEEDS_OPERATOR,
            id="a pod that never ends is a person's matter",
        ),
        pytest.param(
            READ | {"hand_edits": 3, "hand_edited_at": NOW},
            NOW,
            Verb.WAIT,
            Phase.NEEDS_OPERATOR,
            id="a fence that somebody always takes away is not put back in circles",
        ),
        pytest.param(
            FREE | {"verdict": Verdict.PASS, "addressable": False},
            LATER,
            Verb.WAIT,
            Phase.NEEDS_OPERATOR,
            id="what passed is not released while its identity is unknown",
        ),
        pytest.param(
            FREE | {"release": ReleaseStage.OPENED}, LATER, Verb.READ, Phase.RELEASING, id="release: last reading"
        ),
        pytest.param(
            FREE | {"release": ReleaseStage.READ}, LATER, Verb.UNLATCH, Phase.RELEASING, id="release: finalizer"
        ),
        pytest.param(
            FREE | {"release": ReleaseStage.UNLATCHED}, LATER, Verb.DELETE_FENCE, Phase.RELEASING, id="release: delete"
        ),
        pytest.param(
            FREE | {"release": ReleaseStage.DELETED}, LATER, Verb.AWAIT_FENCE_GONE, Phase.RELEASING, id="release: gone?"
        ),
        pytest.param(
            FREE | {"release": ReleaseStage.GONE, "outcome": Phase.RELEASED},
            LATER,
            Verb.CLOSE,
            Phase.RELEASED,
            id="release: the last write",
        ),
        pytest.param(
            {"closed": True, "outcome": Phase.RELEASED},
            LATER,
            Verb.END,
            Phase.RELEASED,
            id="a closed record is the end",
        ),
        pytest.param(
            FREE | {"fault": Ask(reason="StepFailed", remedy="x", since=NOW)},
            NOW,
            Verb.WAIT,
            Phase.NEEDS_OPERATOR,
            id="a step that failed for long is told to a person",
        ),
    ],
)
def test_rung(facts: dict[str, Any], now: datetime, verb: Verb, phase: Phase) -> None:
    """Each rung decides as its sentence says."""
    decided = step(now, **facts)
    assert (decided.verb, decided.phase) == (verb, phase)


def test_blocked_eviction_asks_after_its_time() -> None:
    """A disruption budget that blocks for longer than the policy allows makes a person look; the budget is named."""
    blocked = user(
        state=UserState.BLOCKED, blocked_since=NOW, retry_at=NOW + seconds(9999), note="budget b needs 1 healthy pod"
    )
    decided = step(NOW + seconds(1800), **FENCED, users_at=NOW, users=(blocked,))
    assert decided.phase is Phase.NEEDS_OPERATOR
    assert "budget b" in decided.message


def test_migration_switched_off_names_the_remedy() -> None:
    """With migration off, nobody is evicted and the person is told which pod to move."""
    facts: dict[str, Any] = FENCED | {
        "policy": policy(migration={"enabled": False}),
        "users": (user(),),
        "users_at": NOW,
    }
    decided = step(LATER, **facts)
    assert decided.ask is not None
    assert "team/train-0" in decided.ask.remedy


def test_every_wait_has_a_deadline_or_a_person() -> None:
    """A step that waits says until when, or asks somebody."""
    states: list[IncidentState] = [
        incident(**READ | {"admitted": False}),
        incident(**FENCED, users_at=NOW, users=(user(),)),
        incident(**FREE),
        incident(read_at=NOW, severity=Health.UNKNOWN, admitted=False),
    ]
    for state in states:
        decided = next_step(state, NOW)
        assert decided.recheck_at is not None
        assert decided.recheck_at > NOW


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({}, id="judged"),
        pytest.param({"orders": Orders(pause=Pause(actor="ann", since=NOW))}, id="paused"),
        pytest.param({"orders": Orders(disowned=GIVEN_UP)}, id="given up"),
    ],
)
def test_a_trial_that_does_not_go_is_a_persons_matter(facts: dict[str, Any]) -> None:
    """Its node is dead, or another pod uses its claim: it is waited for without end, but not without a word."""
    state = incident(**FREE | facts | {"probe": ProbeStage.JUDGED, "probe_number": 2, "trial": Trial.CANARY})
    first = next_step(state, NOW)
    assert (first.verb, first.phase, first.ask) == (Verb.STOP_PROBE, Phase.CANARY, None)
    late = NOW + state.policy.migration.blocked_after
    assert first.recheck_at == late
    state = enter(state, first, NOW)
    assert next_step(state, late - seconds(1)).ask is None
    asked = next_step(state, late)
    assert (asked.verb, asked.phase) == (Verb.STOP_PROBE, Phase.NEEDS_OPERATOR)
    assert asked.ask is not None
    assert asked.ask.reason == "StuckTerminating"
    assert state.target.device.numbered(2) in asked.ask.remedy
    gone = after_probe_stopped(enter(state, asked, late), late)
    assert gone.removing_since is None
