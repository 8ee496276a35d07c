"""What happened in an incident: its own story, or as much of it as the record keeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final, NamedTuple

from sickbay.cli.look.table import Columns, Row, clock
from sickbay.model.base import tamed
from sickbay.model.incident import TimelineEntry
from sickbay.model.observation import Reason
from sickbay.model.record import Admission, AdmissionState, PastIncident, Phase, Record

COLUMNS: Final = Columns(("TIME", "PHASE", "WHAT"))


class Line(NamedTuple):
    """One thing that happened.

    Attributes:
        phase: the incident was in then; None where nobody wrote it down.
    """

    at: datetime
    phase: Phase | None
    text: str


def of_incident(story: Iterable[TimelineEntry]) -> list[Line]:
    """Tell what the incident itself tells."""
    return [Line(entry.at, entry.phase, entry.text) for entry in story]


def of_record(record: Record) -> list[Line]:
    """Tell what the record alone knows, oldest first: less than the incident does."""
    return sorted(_known(record), key=lambda line: line.at)


def of_past(past: PastIncident) -> list[Line]:
    """Tell what a record keeps of an incident before the last one."""
    return [
        _line(past.opened_at, Phase.SUSPECT, f"opened ({past.reason})"),
        _line(past.closed_at, past.outcome, f"closed as {past.outcome}"),
    ]


def rows(story: list[Line], *, begin: int = 0) -> list[Row]:
    """Make the rows of a story, from one line on."""
    return [_row(number, line) for number, line in enumerate(story) if number >= begin]


def _row(number: int, line: Line) -> Row:
    at = line.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Row(
        key=str(number),
        name=at,
        cells=(clock(line.at), str(line.phase or ""), tamed(line.text)),
        data={"at": at, **({"phase": str(line.phase)} if line.phase else {}), "text": line.text},
    )


def _known(record: Record) -> Iterator[Line]:
    spec, status = record.spec, record.status
    first = f"first bad word: {spec.severity} ({spec.reason}) {spec.message}"
    if spec.reason is Reason.PERSON:
        first = f"taken out by {spec.actor or 'a person'}: {spec.message}"
    yield _line(spec.first_bad_at, Phase.SUSPECT, first)
    if spec.admission.at is not None and spec.admission.state is not AdmissionState.NONE:
        yield _line(spec.admission.at, _entered(spec.admission), _admitted(spec.admission))
    if status.incident != spec.incident:
        return
    for condition in status.conditions:
        if condition.last_transition_time is not None:
            text = f"{condition.type}={condition.status} {condition.reason} {condition.message}"
            yield _line(condition.last_transition_time, None, text)  # it may have changed in any phase before this one
    if record.closed and status.closed is not None:
        yield _line(status.closed.at, status.closed.outcome, f"closed as {status.closed.outcome}")


def _line(at: datetime, phase: Phase | None, text: str) -> Line:
    return Line(at, phase, text.strip())


def _entered(admission: Admission) -> Phase:
    return Phase.QUARANTINED if admission.state is AdmissionState.ADMITTED else Phase.HELD


def _admitted(admission: Admission) -> str:
    return f"{admission.state} by {admission.by or 'nobody named'}: {admission.numbers}"
