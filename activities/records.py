"""The record's status: what the incident is doing, and its last word."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import structlog
from temporalio.exceptions import ApplicationError

from activities.effect import effect
from activities.guard import own_or_closed_record, own_record
from k8s.records import Records
from sickbay.model.base import format_time, tamed
from sickbay.model.contracts import Activity, CloseRecord, Ended, WriteStatus, Written
from sickbay.model.device import UNKNOWN_HARDWARE
from sickbay.model.observation import Health, Reason, digest_of
from sickbay.model.record import (
    APPROVED,
    HISTORY_LENGTH,
    NEEDS_OPERATOR,
    PAUSED,
    WANTS_ADMISSION,
    Closed,
    Condition,
    Counters,
    FenceRef,
    PastIncident,
    Phase,
    Record,
    RecordStatus,
    SeenSource,
    StandingOrders,
)

log = structlog.get_logger(__name__)

_UNHEALTHY: Final = frozenset(digest_of(Health.UNHEALTHY, reason) for reason in Reason)


class RecordActivities:
    """Writes of the status, by the incident alone."""

    def __init__(self, records: Records) -> None:
        self._records = records

    @effect(Activity.WRITE_STATUS)
    async def write_status(self, step: WriteStatus) -> Written:
        """Say where the incident stands; the first word of a new one takes the status over from the last.

        Counters only grow, whoever writes: they name effects.

        Safe to repeat because it writes only what differs from what it has just read, at that resourceVersion.

        Raises:
            ApplicationError: Superseded; or the phase is a final one, which `close_record` alone may write.
        """
        if step.phase.final:
            raise ApplicationError(f"{step.phase} is written by close_record alone", type="Invalid", non_retryable=True)
        record = await own_record(self._records, step.target)
        now = datetime.now(UTC)
        status = _taken_over(record.status, step.target.incident, step.target.run)
        status = status.model_copy(
            update={
                "phase": step.phase,
                "verified": step.verified,
                "hardware_id": _hardware(status, step),
                "counters": _grown(status.counters, step),
                "trial": str(step.trial or ""),
                "fence": _fence(status.fence, step),
                "expires_at": step.expires_at and step.expires_at.replace(microsecond=0),  # people read it
                "orders": step.orders,
                "conditions": _conditions(status, step, now),
            }
        )
        if step.phase is not record.status.phase:
            log.info("incident_phase", phase=step.phase)
        record = await self._records.write_status(record, status)
        return Written(admitted=record.admitted, admission_numbers=record.spec.admission.numbers)

    @effect(Activity.CLOSE_RECORD)
    async def close_record(self, step: CloseRecord) -> Ended:
        """End the incident: final phase, what was seen by then, a line of history; then let go of the record.

        The device is free for another incident with the first of the two writes; the second only lets the record be
        deleted once it has been kept long enough.

        Safe to repeat because a record that this very run has closed stays as it is, and a finalizer that is off stays
        off.

        Raises:
            ApplicationError: Superseded; or the outcome is no final phase.
        """
        if not step.outcome.final:
            raise ApplicationError(f"{step.outcome} ends no incident", type="Invalid", non_retryable=True)
        record = await own_or_closed_record(self._records, step.target)
        if not record.closed:
            record = await self._records.write_status(record, _closed(record, step, datetime.now(UTC)))
            log.info("record_closed", record=record.name, outcome=step.outcome)
            if step.disowned is not None:
                log.warning("device_disowned", by=step.disowned.by, why=tamed(step.disowned.reason))
        await self._records.unlatch(record, step.target.effect_key("close", step.target.run))
        return Ended(quarantined=_quarantined(record))


def _quarantined(record: Record) -> timedelta | None:
    admitted_at, closed = record.spec.admission.at, record.status.closed
    if not record.admitted or admitted_at is None or closed is None:
        return None
    return max(closed.at - admitted_at, timedelta(0))


def _taken_over(status: RecordStatus, incident: str, run: int) -> RecordStatus:
    """Keep what belongs to the device: counters, history, how the last incident ended, what was overruled."""
    if status.incident == incident:
        return status.model_copy(update={"run": run})
    return RecordStatus(
        incident=incident,
        run=run,
        counters=status.counters,
        closed=status.closed,
        history=status.history,
        overruled=status.overruled,
    )


def _grown(counters: Counters, step: WriteStatus) -> Counters:
    return Counters(
        fence=max(counters.fence, step.fence_number),
        probe=max(counters.probe, step.probe_number),
        release=max(counters.release, step.release_number),
    )


def _hardware(status: RecordStatus, step: WriteStatus | CloseRecord) -> str:
    """Keep the identity that was known first: it is the one that failed."""
    return step.hardware_id if status.hardware_id == UNKNOWN_HARDWARE else status.hardware_id


def _fence(known: FenceRef, step: WriteStatus) -> FenceRef:
    """Name the fence of this uid. One that is known keeps its name while the counter goes on to the next."""
    if step.fence_uid in {"", known.uid}:
        return known
    return FenceRef(name=step.target.device.numbered(step.fence_number), uid=step.fence_uid)


def _conditions(status: RecordStatus, step: WriteStatus, now: datetime) -> tuple[Condition, ...]:
    ask = step.ask
    ours = {
        WANTS_ADMISSION: Condition(
            type=WANTS_ADMISSION,
            status=str(step.wants_admission),
            reason="Held" if step.wants_admission else "NotHeld",
            last_transition_time=now,
        ),
        NEEDS_OPERATOR: Condition(
            type=NEEDS_OPERATOR,
            status=str(ask is not None),
            reason=(ask.reason if ask else "") or "NothingAsked",
            message=ask.remedy if ask else "",
            last_transition_time=(ask.since if ask else None) or now,
        ),
    }
    paused = _paused(status, step, now)
    if paused is not None:
        ours[PAUSED] = paused
    others = tuple(condition for condition in status.conditions if condition.type not in ours)
    return (*others, *(_since(status.condition(kind), condition) for kind, condition in ours.items()))


def _paused(status: RecordStatus, step: WriteStatus, now: datetime) -> Condition | None:
    """Tell of a pause, or that there is none any more; nothing where there never was one."""
    pause = step.orders.pause
    if pause is None:
        known = status.condition(PAUSED) is not None
        return Condition(type=PAUSED, status="False", reason="Resumed", last_transition_time=now) if known else None
    end = "until somebody resumes" if pause.until is None else f"until {format_time(pause.until)}"
    message = tamed(f"{pause.by} {end}: {pause.reason or 'no reason given'}", 400)
    return Condition(type=PAUSED, status="True", reason="Paused", message=message, last_transition_time=pause.since)


def _since(before: Condition | None, after: Condition) -> Condition:
    """Keep the time of a condition whose status is what it was."""
    if before is None or before.status != after.status:
        return after
    return after.model_copy(update={"last_transition_time": before.last_transition_time})


def _closed(record: Record, step: CloseRecord, now: datetime) -> RecordStatus:
    target = step.target
    status = _taken_over(record.status, target.incident, target.run)
    seen = tuple(SeenSource(**source.model_dump()) for source in step.seen)
    past = PastIncident(
        incident=target.incident,
        run=target.run,
        reason=step.reason,
        outcome=step.outcome,
        opened_at=step.opened_at or record.spec.first_bad_at,
        closed_at=now,
        by=step.disowned.by if step.disowned else "",
        why=tamed(step.disowned.reason, 400) if step.disowned else "",
    )
    # A release outvotes what is still said, and so does a person: it opens nothing again, until it says something else.
    # A Cleared device has nothing to outvote.
    outvoted = step.outcome in {Phase.RELEASED, Phase.DISOWNED}
    overruled = tuple(source for source in seen if outvoted and source.digest in _UNHEALTHY)
    return status.model_copy(
        update={
            "phase": step.outcome,
            "hardware_id": _hardware(status, step),
            # A retired device's fence stays where it is.
            "fence": status.fence if step.outcome is Phase.RETIRED else FenceRef(),
            "trial": "",
            "expires_at": None,
            "orders": StandingOrders(),
            "conditions": tuple(_ended(condition, now) for condition in status.conditions),
            "closed": Closed(
                at=now,
                outcome=step.outcome,
                seen=seen,
                lease_version=step.lease_version,
                pods_version=step.pods_version,
            ),
            "history": (*status.history, past)[-HISTORY_LENGTH:],
            "overruled": overruled,
        }
    )


def _ended(condition: Condition, now: datetime) -> Condition:
    """An incident that is over asks for nothing, and who approved it approved no other."""
    if condition.type not in {WANTS_ADMISSION, NEEDS_OPERATOR, APPROVED, PAUSED} or condition.status == "False":
        return condition
    return Condition(type=condition.type, status="False", reason="Closed", last_transition_time=now)
