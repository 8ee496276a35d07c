"""The incident's story: what people read of it, a line for each thing that changed. Pure."""

from __future__ import annotations

from datetime import datetime

from sickbay.model.incident import TIMELINE_LENGTH, IncidentState, TimelineEntry
from sickbay.model.record import Phase


def extended(state: IncidentState, phase: Phase, text: str, now: datetime) -> tuple[TimelineEntry, ...]:
    """Give the story with one more line."""
    return (*state.timeline, TimelineEntry(at=now, phase=phase, text=text))[-TIMELINE_LENGTH:]


def note(state: IncidentState, text: str, now: datetime) -> IncidentState:
    """Add a line to the story without a change of phase."""
    return state.model_copy(update={"timeline": extended(state, state.phase, text, now)})
