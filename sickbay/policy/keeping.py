"""What people told an incident and what must outlive its run: to the record, and back. Pure.

Somebody who terminates a workflow in Temporal's UI has neither ended a pause nor shortened a quarantine: the leader
starts the incident again, and what holds is in the record. Ids of commands are not: those of an earlier run are refused
by their time.
"""

from __future__ import annotations

from typing import Final

from sickbay.model.base import tamed
from sickbay.model.command import Orders, Pause
from sickbay.model.record import PauseOrder, Record, StandingOrders

ACTOR_LENGTH: Final = 200
REASON_LENGTH: Final = 400
"""Characters kept of who it was, and of why: they are restored as they are in the record."""


def standing_orders(orders: Orders) -> StandingOrders:
    """Give what is written into the record."""
    pause = orders.pause
    return StandingOrders(
        pause=None
        if pause is None
        else PauseOrder(
            by=tamed(pause.actor, ACTOR_LENGTH),
            reason=tamed(pause.reason, REASON_LENGTH),
            since=pause.since,
            until=pause.until,
        ),
        kept_until=orders.kept_until,
        kept_from=orders.kept_from,
        retiring=orders.retiring,
    )


def restored(record: Record) -> Orders:
    """Give what the next run of an incident begins with; what an earlier incident was told is none of its business."""
    if record.status.incident != record.spec.incident:
        return Orders()
    kept = record.status.orders
    pause = kept.pause
    return Orders(
        pause=None
        if pause is None
        else Pause(actor=pause.by, reason=pause.reason, since=pause.since, until=pause.until),
        kept_until=kept.kept_until,
        kept_from=kept.kept_from,
        retiring=kept.retiring,
    )
