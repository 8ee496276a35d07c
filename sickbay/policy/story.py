"""The incident's story: what people read of it, a line for each thing that changed. Pure.

Each teller has a bound of its own: whoever sends however many signals pushes out neither what the incident did nor what
it was told by people who were asked who they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final

from sickbay.model.incident import TIMELINE_LENGTH, IncidentState, Teller, TimelineEntry
from sickbay.model.record import Phase

KEPT: Final[Mapping[Teller, int]] = MappingProxyType(
    {Teller.INCIDENT: TIMELINE_LENGTH, Teller.PERSON: 15, Teller.ANYBODY: 10}
)
"""Lines kept of each."""

_CALLED: Final[Mapping[Teller, str]] = MappingProxyType(
    {Teller.INCIDENT: "step", Teller.PERSON: "command", Teller.ANYBODY: "signal"}
)


def extended(
    state: IncidentState, phase: Phase, text: str, now: datetime, teller: Teller = Teller.INCIDENT
) -> dict[str, object]:
    """Give the changes that add a line to the story; the oldest of the same teller makes room, and is counted."""
    before, entry = state.timeline, TimelineEntry(at=now, phase=phase, text=text, teller=teller)
    told = [n for n, line in enumerate(before) if line.teller is teller]
    if len(told) < KEPT[teller]:
        return {"timeline": (*before, entry)}
    left_out = {**state.left_out, teller: state.left_out.get(teller, 0) + 1}
    return {"timeline": (*before[: told[0]], *before[told[0] + 1 :], entry), "left_out": left_out}


def note(state: IncidentState, text: str, now: datetime, teller: Teller = Teller.INCIDENT) -> IncidentState:
    """Add a line to the story without a change of phase."""
    return state.model_copy(update=extended(state, state.phase, text, now, teller))


def recent(timeline: Sequence[TimelineEntry], most: int) -> list[TimelineEntry]:
    """Give the last lines, in order; commands take a third of them at most where there are steps to show."""
    steps = [n for n, line in enumerate(timeline) if line.teller is Teller.INCIDENT]
    words = [n for n, line in enumerate(timeline) if line.teller is not Teller.INCIDENT]
    words = words[-(most - min(len(steps), most - most // 3)) :]
    return [timeline[n] for n in sorted([*words, *steps[-max(most - len(words), 1) :]])][-most:]


def left_out(counts: Mapping[Teller, int]) -> str:
    """Say how many lines are not there any more, ``""`` if all are."""
    lost = [(counts.get(teller, 0), _CALLED[teller]) for teller in Teller]
    return ", ".join(f"{count} {called}{'s' * (count > 1)}" for count, called in lost if count)
