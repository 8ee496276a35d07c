"""``sickbay disown``: a person of the break-glass group gives a device up, and it goes back untested."""

from __future__ import annotations

from typing import Any, Final

import click

from k8s.gateway import Gateway
from k8s.records import Records
from k8s.rights import user
from sickbay import errors
from sickbay.cli import shared
from sickbay.cli.acting import acting_options
from sickbay.cli.finding import NODE, REASON, the_record, words_of
from sickbay.cli.ordering import carry_out
from sickbay.model.record import Disowning, Record

RACES: Final = 5
"""Times that somebody else may write the record first: its incident is at work."""


@click.command()
@words_of("target", "INCIDENT|DEVICE")
@REASON
@NODE
@acting_options
@shared.settings_options(*shared.CLUSTER, *shared.LOG)
def disown(*, target: str, reason: str, node: str | None, **flags: Any) -> None:
    """Give a device back to the pool without probe, canary and soak; only sickbay:break-glass may.

    Who did it and why is kept, in the record and in the audit log. It is for the open incident alone: what is said of
    the device afterwards begins another.
    """
    carry_out(give_up, target, node, reason, flags)


async def give_up(gateway: Gateway, target: str, node: str | None, reason: str) -> str:
    """Write into the record of a device that whoever asks gives it up, and say what comes next.

    Raises:
        SickbayError: there is no such incident.
        UsageError: it has ended, or no reason is given; the text says what to do.
        Forbidden: the API server refuses: not of the group that may.
    """
    if not reason.strip():
        raise errors.UsageError("--reason: say why a device that nobody has tried is to be used again")
    records = Records(gateway)
    record = the_record((await records.list()).records, target, node)
    who, incident = await user(gateway), record.spec.incident
    for _ in range(RACES):
        _open(record)
        if record.spec.incident != incident:
            raise errors.UsageError(
                f"{incident} has ended, and {record.spec.incident} has begun; look at that one first"
            )
        word = Disowning(by=who, reason=reason, incident=incident)
        if record.disowned == word:
            break
        try:
            record = await records.disown(record, word)
        except errors.Conflict:
            record = await records.get(record.name)
            continue
        break
    else:
        raise errors.UsageError(f"{record.name} is being written all the time; try again")
    return f"{incident}: given up by {who}; its fence goes next: sickbay explain {record.name}"


def _open(record: Record) -> None:
    """Make sure that there is an incident to end.

    Raises:
        UsageError: it has ended; the text says what to do.
    """
    if not record.closed:
        return
    spec = record.spec
    if record.retired:
        raise errors.UsageError(
            f"{spec.key} is retired, and no incident is left that could give it back: delete record {record.name}, and"
            " when its fence has an incident of its own, disown that"
        )
    raise errors.UsageError(f"already closed: {spec.incident} ended as {record.status.phase}; nothing keeps the device")
