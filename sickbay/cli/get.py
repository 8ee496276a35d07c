"""``sickbay get``: lists of incidents, devices and quarantines."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Final

import click

from k8s import sights
from k8s.clock import utc_now
from k8s.control import Control
from k8s.sights import Sight
from sickbay import errors
from sickbay.cli import shared
from sickbay.cli.acting import acting_options
from sickbay.cli.look import pausing
from sickbay.cli.look.door import reader
from sickbay.cli.look.entry import OPENING, UNREADABLE
from sickbay.cli.look.kinds import Kind, KindType
from sickbay.cli.look.options import complete_names, output_option
from sickbay.cli.look.rows import COLUMNS, FENCED, IN_SERVICE, TAINTED, Wanted, missing, rows
from sickbay.cli.look.table import Output, Printer, Row
from sickbay.model.record import Phase
from sickbay.settings import Settings

_PHASES: Final = (*map(str, Phase), OPENING, UNREADABLE, IN_SERVICE, TAINTED, FENCED)


@click.command(epilog="Exit status 1 if a NAME names nothing.")
@click.argument("kind", type=KindType(), metavar="incidents|devices|quarantines")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_names)
@output_option()
@click.option("-w", "--watch", is_flag=True, help="Go on, and print what changes, until Ctrl-C.")
@click.option("-a", "--all", "ended", is_flag=True, help="Also incidents that have ended.")
@click.option(
    "--phase",
    "phases",
    multiple=True,
    type=click.Choice(_PHASES, case_sensitive=False),
    metavar="PHASE",
    help="Only these phases, or states of devices; can be given again.",
)
@click.option("--node", default="", help="Only what is on this node.")
@click.option("--driver", default="", help="Only devices of this driver.")
@click.option("--no-headers", is_flag=True, help="A table without headings.")
@acting_options
@shared.settings_options("kubeconfig", "context", *shared.LOG)
def get(
    *,
    kind: Kind,
    names: tuple[str, ...],
    output: Output,
    watch: bool,
    ended: bool,
    phases: tuple[str, ...],
    node: str,
    driver: str,
    no_headers: bool,
    **flags: Any,
) -> None:
    """List what there is; with NAMEs only that.

    \b
    incidents    those that are open, one for each device
    devices      all that drivers publish, and where they are
    quarantines  the records, DeviceQuarantine objects

    A NAME is that of a record, an incident's id, or a device: driver/pool/device, pool/device, or its last part.
    """  # noqa: D301 - click's mark for lines that stay as they are
    settings = shared.settings_from(flags)
    wanted = Wanted(names, frozenset(phase.lower() for phase in phases), node, driver, ended)
    printer = Printer(COLUMNS[kind], output, headed=not no_headers)
    asyncio.run(_watch(settings, kind, wanted, printer) if watch else _list(settings, kind, wanted, printer))


async def _list(settings: Settings, kind: Kind, wanted: Wanted, printer: Printer) -> None:
    async with reader(settings) as gateway:
        sight = await sights.look(gateway, slices=kind is Kind.DEVICES)
        _tell_pause(await pausing.read(gateway))
    found = rows(kind, sight, wanted, utc_now())
    unknown = missing(found, wanted)
    if not unknown or found:
        _print(printer, found, one=len(wanted.names) == 1 and len(found) == 1)
    if unknown:
        raise _unknown(kind, unknown)
    if not found and not printer.structured:
        click.echo(f"No {kind} found.", err=True)


async def _watch(settings: Settings, kind: Kind, wanted: Wanted, printer: Printer) -> None:
    shown: dict[str, Row] = {}
    longest = max(map(len, _PHASES))  # an incident goes through most of them
    printer.widths = COLUMNS[kind].widths(PHASE=longest, STATE=longest)

    def tell(sight: Sight) -> None:
        found = rows(kind, sight, replace(wanted, keys=frozenset(shown)), utc_now())
        fresh = [row for row in found if row.key not in shown or shown[row.key].data != row.data]
        shown.update((row.key, row) for row in fresh)
        for line in printer.stream(fresh):
            click.echo(line)

    async with reader(settings) as gateway:
        _tell_pause(await pausing.read(gateway))
        if wanted.names:
            unknown = never(kind, await sights.look(gateway, slices=True), wanted)
            if unknown:
                raise _unknown(kind, unknown)
        await sights.follow(gateway, tell, slices=kind is Kind.DEVICES)


def _tell_pause(control: Control | None) -> None:
    """On stderr, as whatever is no row."""
    notice = pausing.notice(control, utc_now())
    if notice:
        click.echo(notice, err=True)


def never(kind: Kind, sight: Sight, wanted: Wanted) -> list[str]:
    """Give the names of which a watch would show nothing: those of none of its kind, and of no device that may get one.

    Args:
        kind: what is watched.
        sight: with resource slices.
        wanted: by the command line.
    """
    named = Wanted(wanted.names, ended=wanted.ended)
    now = utc_now()
    return missing([*rows(kind, sight, named, now), *rows(Kind.DEVICES, sight, named, now)], wanted)


def _unknown(kind: Kind, names: list[str]) -> errors.SickbayError:
    return errors.SickbayError("\n".join(f"no {kind} of the name {name!r}; see sickbay get {kind}" for name in names))


def _print(printer: Printer, found: list[Row], *, one: bool) -> None:
    for line in printer.document(found, one=one) if printer.structured else printer.table(found):
        click.echo(line)
