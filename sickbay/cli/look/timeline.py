"""What happened in an incident: its own story, or as much of it as the record keeps."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from sickbay.cli.look.table import Columns, Row, clock
from sickbay.model.base import tamed
from sickbay.model.incident import TimelineEntry
from sickbay.model.record import Admission, AdmissionState, PastIncident, Phase, Record

COLUMNS: Final = Columns(("TIME", "PHASE", "WHAT"))


def of_record(record: Record) -> list[TimelineEntry]:
    """Tell what the record alone knows, oldest first: less than the incident does."""
    return sorted(_known(record), key=lambda entry: entry.at)


def of_past(past: PastIncident) -> list[TimelineEntry]:
    """Tell what a record keeps of an incident before the last one."""
    return [
        _entry(past.opened_at, Phase.SUSPECT, f"opened ({past.reason})"),
        _entry(past.closed_at, past.outcome, f"closed as {past.outcome}"),
    ]


def rows(story: tuple[TimelineEntry, ...] | list[TimelineEntry], *, begin: int = 0) -> list[Row]:
    """Make the rows of a story, from one entry on."""
    return [_row(number, entry) for number, entry in enumerate(story) if number >= begin]


def _row(number: int, entry: TimelineEntry) -> Row:
    at = entry.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Row(
        key=str(number),
        name=at,
        cells=(clock(entry.at), str(entry.phase), tamed(entry.text)),
        data={"at": at, "phase": str(entry.phase), "text": entry.text},
    )


def _known(record: Record) -> Iterator[TimelineEntry]:
    spec, status = record.spec, record.status
    yield _entry(spec.first_bad_at, Phase.SUSPECT, f"first bad word: {spec.severity} ({spec.reason}) {spec.message}")
    if spec.admission.at is not None and spec.admission.state is not AdmissionState.NONE:
        yield _entry(spec.admission.at, _entered(spec.admission), _admitted(spec.admission))
    if status.incident != spec.incident:
        return
    for condition in status.conditions:
        if condition.last_transition_time is not None and status.phase is not None:
            text = f"{condition.type}={condition.status} {condition.reason} {condition.message}"
            yield _entry(condition.last_transition_time, status.phase, text)
    if record.closed and status.closed is not None:
        yield _entry(status.closed.at, status.closed.outcome, f"closed as {status.closed.outcome}")


def _entry(at: datetime, phase: Phase, text: str) -> TimelineEntry:
    return TimelineEntry(at=at, phase=phase, text=text.strip())


def _entered(admission: Admission) -> Phase:
    return Phase.QUARANTINED if admission.state is AdmissionState.ADMITTED else Phase.HELD


def _admitted(admission: Admission) -> str:
    return f"{admission.state} by {admission.by or 'nobody named'}: {admission.numbers}"
