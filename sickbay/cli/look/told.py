"""What Temporal tells of an incident; that it does not answer is told too, and is no error."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from sickbay.errors import TemporalUnavailable
from sickbay.model.incident import IncidentReport, IncidentState, TimelineEntry
from sickbay.policy.story import left_out
from sickbay.temporal import Standing, Temporal


@dataclass(frozen=True)
class Told:
    """What is known of one incident from Temporal.

    Attributes:
        headline: where it says it stands, what it waits for and until when.
        state: of a running incident that answered.
        report: of an ended one that is still remembered.
        problem: why there is less than there could be.
    """

    headline: str = ""
    state: IncidentState | None = None
    report: IncidentReport | None = None
    problem: str = ""

    @property
    def timeline(self) -> tuple[TimelineEntry, ...]:
        """Its story, oldest first."""
        source = self.state or self.report
        return source.timeline if source else ()

    @property
    def left_out(self) -> str:
        """How much of the story is not kept any more, for people; ``""`` if all of it is."""
        source = self.state or self.report
        return left_out(source.left_out) if source else ""


async def ask(temporal: Temporal, incident: str) -> Told:
    """Ask Temporal for an incident."""
    try:
        standing = (await temporal.describe(incident)).standing
    except TemporalUnavailable as error:
        return Told(problem=str(error))
    if standing is Standing.NOT_FOUND:
        return Told(problem=f"Temporal at {temporal.where} has no such workflow, or no longer")
    try:
        if standing is Standing.CLOSED:
            report = await temporal.report(incident)
            return Told(report=report, problem="" if report else "its workflow was ended by hand, and left no report")
        headline, state = await asyncio.gather(temporal.headline(incident), temporal.state(incident))
    except TemporalUnavailable as error:
        return Told(problem=f"its workflow is there, but does not say where it is (is a worker running?): {error}")
    return Told(headline=headline, state=state)
