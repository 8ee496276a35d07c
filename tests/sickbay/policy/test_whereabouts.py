"""A node that is gone, or has come back as another, and the device that was on it."""

from __future__ import annotations

from typing import Any

import pytest

from sickbay.model.device import UNKNOWN_HARDWARE
from sickbay.model.incident import IncidentState, Proof
from sickbay.model.record import Phase
from sickbay.policy.ladder import next_step
from sickbay.policy.progress import after_read
from sickbay.policy.steps import Verb
from tests.builders import NOW, incident, reading, seconds
from tests.sickbay.policy.test_ladder import FREE

LATER = NOW + seconds(31)
GONE = {"health": None, "node_gone": True, "lease_version": "", "hardware_id": UNKNOWN_HARDWARE}


def read(state: IncidentState, **found: Any) -> IncidentState:
    """Take a reading."""
    return after_read(state, reading(**found), LATER)


def lines(state: IncidentState) -> list[str]:
    """Give what the story says of the node."""
    return [line.text for line in state.timeline if "node node-1" in line.text]


@pytest.mark.parametrize("proof", Proof)
def test_of_a_node_that_is_gone_a_person_is_told_just_that(proof: Proof) -> None:
    """Nothing is wrong with the driver's attribute; however far the device had come, it waits."""
    state = read(incident(**FREE, proof=proof, next_probe_at=NOW), **GONE)
    step = next_step(state, LATER)
    assert (step.verb, step.phase, step.recheck_at) == (Verb.WAIT, Phase.NEEDS_OPERATOR, LATER + seconds(600))
    assert step.ask is not None
    assert step.ask.reason == "NodeGone"
    assert "node node-1 is gone" in step.ask.remedy
    assert "sickbay retire" in step.ask.remedy


def test_a_node_that_is_there_is_not_to_blame() -> None:
    """A driver that is away for a moment is another matter."""
    ask = next_step(read(incident(**FREE), hardware_id=UNKNOWN_HARDWARE, health=None), LATER).ask
    assert ask is not None
    assert ask.reason == "NotAddressable"


def test_a_device_that_is_still_published_is_tried() -> None:
    """It may hang on another node by now: the scheduler knows."""
    state = read(incident(**FREE, next_probe_at=NOW), health=None, node_gone=True, lease_version="")
    assert next_step(state, LATER).verb is Verb.START_PROBE


def test_the_story_says_once_that_it_is_gone_and_as_what_it_came_back() -> None:
    """Under its name, as another object; and the incident goes on by itself."""
    state = read(incident(**FREE, next_probe_at=NOW), health=None, node_uid="uid-1")
    for _ in range(3):
        state = read(state, **GONE)
    assert lines(state) == ["node node-1 is gone from the cluster"]
    for _ in range(3):
        state = read(state, health=None, node_uid="uid-2")
    (_, back) = lines(state)
    assert back.startswith("node node-1 is another than it was: ")
    assert back.endswith("has joined again (uid uid-2, uid-1 before)")
    assert next_step(state, LATER).verb is Verb.START_PROBE


def test_a_node_that_was_replaced_between_two_readings_is_told_too() -> None:
    """Nobody saw it gone; what its Lease does not name is not known, and no change."""
    state = read(incident(**FREE), health=None, node_uid="uid-1")
    state = read(state, health=None)
    assert (lines(state), state.node_uid) == ([], "uid-1")
    assert "has joined again" in lines(read(state, health=None, node_uid="uid-2"))[0]


def test_a_node_that_is_back_as_it_was_is_told() -> None:
    """For what was told before does not hold any more; of a node that nobody named nothing is told."""
    state = read(read(incident(**FREE), **GONE), health=None)
    assert lines(state)[-1] == "node node-1 is there again"
    assert read(incident(**FREE, node=""), **GONE).timeline == ()
