"""What happens when a person gives a device up: it goes back untested, by the ordinary order of a release. Pure.

The word is in the record, where the API server lets the break-glass group alone write it, and is read live each time.
It goes over whatever keeps this one incident back: a pause, an extended quarantine, a retirement, a rest, bad news. It
does not go over a pause of the installation or a mark on the node, which are read before each step that cannot be
undone.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from sickbay.model.base import tamed
from sickbay.model.incident import IncidentState, ProbeStage, Proof, ReleaseStage, Verdict
from sickbay.model.record import Disowning, Phase
from sickbay.policy.prove import remove
from sickbay.policy.standing import CALLED_BACK, IRREVOCABLE
from sickbay.policy.steps import Step, Verb
from sickbay.policy.story import note

REASON: Final = "Disowned"

_UNPROVED: Final = {**CALLED_BACK, "proof": Proof.NONE, "verdict": None}
"""Changes that call a release back; should the word be taken back, too, the device has to prove itself anew."""


def told(state: IncidentState, word: Disowning | None, now: datetime) -> IncidentState:
    """Take what a live reading found in the record: a person's word, or that there is none (any more)."""
    before = state.orders.disowned
    if word is None and before is not None and state.release in IRREVOCABLE:
        return state  # too late to take it back: the fence is gone, or was asked to go
    orders = state.orders.model_copy(update={"disowned": word, "summoned": False})
    after = state if orders == state.orders else state.model_copy(update={"orders": orders})
    if word == before:
        return after
    if word is not None:
        text = f"given up by {word.by}: {word.reason}. It goes back into the pool untested"
        return note(after, tamed(text, 400), now)
    after = note(after, "nobody gives the device up any more: that word was taken back", now)
    return after.model_copy(update=_UNPROVED) if state.outcome is Phase.DISOWNED else after


def settled(state: IncidentState) -> IncidentState:
    """Give up a trial that is under way; call a release back for a word from outside of the incident."""
    if state.release in IRREVOCABLE:
        return state
    changes: dict[str, object] = {}
    if state.orders.halt is not None and (state.release is not ReleaseStage.NONE or state.ramped_at is not None):
        changes |= _UNPROVED
    if state.probe not in {ProbeStage.NONE, ProbeStage.JUDGED}:
        # One that has only its number may be there, or half of it.
        given_up: dict[str, object] = {
            "verdict": Verdict.WAITING,
            "verdict_note": "the device was given up",
            "proof": Proof.NONE,
        }
        changes |= {"probe": ProbeStage.JUDGED, **given_up}
    return state.model_copy(update=changes) if changes else state


def give_up(state: IncidentState, now: datetime) -> Step | None:
    """Open the release of a device that a person has given up; None if nobody has.

    A trial of ours is removed first: whoever gets the device next is to have it alone.
    """
    word = state.orders.disowned
    if word is None:
        return None
    message = tamed(f"{word.by} gives the device up, untested: {word.reason}")
    if state.fenced_at is None:
        return Step(verb=Verb.CLOSE, phase=Phase.DISOWNED, reason=REASON, message=message)
    if state.probe is ProbeStage.JUDGED:
        return remove(state, now)
    return Step(verb=Verb.OPEN_RELEASE, phase=Phase.RELEASING, reason=REASON, message=message, outcome=Phase.DISOWNED)
