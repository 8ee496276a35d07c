"""``sickbay describe``: all that is known of one incident or one quarantine."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from k8s import sights
from k8s.clock import utc_now
from sickbay import errors
from sickbay.cli import shared
from sickbay.cli.acting import acting_options
from sickbay.cli.look import facts
from sickbay.cli.look.case import gather
from sickbay.cli.look.door import reader
from sickbay.cli.look.entry import Entry, entries
from sickbay.cli.look.facts import Fact
from sickbay.cli.look.kinds import Kind, KindType
from sickbay.cli.look.options import complete_names
from sickbay.cli.look.subject import find
from sickbay.settings import Settings


@click.command(epilog="Exit status 1 if nothing has that name.")
@click.argument("kind", type=KindType(Kind.INCIDENTS, Kind.QUARANTINES, one=True), metavar="incident|quarantine")
@click.argument("name", shell_complete=complete_names)
@acting_options
@shared.settings_options("kubeconfig", "context", *shared.TEMPORAL, *shared.LOG)
def describe(*, kind: Kind, name: str, **flags: Any) -> None:
    """Show all that is known of one.

    \b
    incident     explanation, readings, users, probes and events, asked of the incident itself
    quarantine   the record, and the fences that stand for its device

    NAME is that of a record, an incident's id, or a device: driver/pool/device, pool/device, or its last part.
    """  # noqa: D301 - click's mark for lines that stay as they are
    settings = shared.settings_from(flags)
    told = _incident(settings, name) if kind is Kind.INCIDENTS else _quarantine(settings, name)
    for line in facts.lay_out(asyncio.run(told)):
        click.echo(line)


async def _incident(settings: Settings, name: str) -> list[Fact]:
    case = await gather(settings, name)
    record = case.subject.record
    if record is None:
        raise errors.SickbayError(f"{name!r} has no incident; see sickbay get incidents --all")
    past = case.subject.past(name)
    if past is not None:
        return list(facts.past_incident(case.subject, past, case.told))
    return [
        *facts.explanation(case.subject, case.control, case.told, utc_now()),
        *facts.incident(record, case.told),
    ]


async def _quarantine(settings: Settings, name: str) -> list[Fact]:
    async with reader(settings) as gateway:
        sight = await sights.look(gateway, slices=False)
    return list(facts.quarantine(_named(entries(sight), name) or _of_device(find(sight, name).entry, name)))


def _named(found: list[Entry], name: str) -> Entry | None:
    """A record by its own name is found even if it cannot be read."""
    return next((entry for entry in found if entry.name == name), None)


def _of_device(entry: Entry | None, name: str) -> Entry:
    if entry is None:
        raise errors.SickbayError(f"{name!r} has no record; see sickbay get quarantines")
    return entry
