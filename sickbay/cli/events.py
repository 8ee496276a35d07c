"""``sickbay events``: what happened in an incident, step by step."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import click

from sickbay import errors
from sickbay.cli import shared
from sickbay.cli.acting import acting_options
from sickbay.cli.look import timeline
from sickbay.cli.look.case import Case, gather
from sickbay.cli.look.options import complete_names, output_option
from sickbay.cli.look.table import Output, Printer
from sickbay.cli.look.timeline import Line
from sickbay.settings import Settings

POLL: Final = 1.0
"""Seconds between two questions of ``--watch``: an incident tells its story only when it is asked."""


@click.command(epilog="Exit status 1 if nothing has that name.")
@click.argument("name", shell_complete=complete_names)
@output_option(Output.TABLE, Output.JSON, Output.YAML)
@click.option("-w", "--watch", is_flag=True, help="Go on until the incident ends, or Ctrl-C.")
@acting_options
@shared.settings_options("kubeconfig", "context", *shared.TEMPORAL, *shared.LOG)
def events(*, name: str, output: Output, watch: bool, **flags: Any) -> None:
    """Tell what happened in an incident, oldest first.

    NAME is that of a record, an incident's id (a past one too), or a device. The incident keeps its last 40 steps, and
    apart from them the last commands; without Temporal there is what its record says.
    """
    settings = shared.settings_from(flags)
    printer = Printer(timeline.COLUMNS, output)
    asyncio.run(_watch(settings, name, printer) if watch else _list(settings, name, printer))


async def _list(settings: Settings, name: str, printer: Printer) -> None:
    case = await gather(settings, name)
    rows = timeline.rows(_story(case, name))
    if case.told.problem:
        click.echo(f"only what the record knows: {case.told.problem}", err=True)
    if case.told.left_out:
        click.echo(f"left out: {case.told.left_out}", err=True)
    for line in printer.document(rows, one=False) if printer.structured else printer.table(rows):
        click.echo(line)


async def _watch(settings: Settings, name: str, printer: Printer) -> None:
    last: Line | None = None
    while True:
        case = await gather(settings, name)
        if case.told.problem and last is not None:
            await asyncio.sleep(POLL)  # the record's few lines are no continuation of the incident's own
            continue
        story = _story(case, name)
        # The story is a window that moves: go on after the last line that was shown.
        begin = story.index(last) + 1 if last in story else _after(last, story)
        for line in printer.stream(timeline.rows(story, begin=begin)):
            click.echo(line)
        last = story[-1] if story else last
        if case.subject.entry is None or case.subject.entry.closed or case.subject.past(name):
            return
        await asyncio.sleep(POLL)


def _after(last: Line | None, story: list[Line]) -> int:
    """Find where to go on when the last line has made room for others."""
    return 0 if last is None else sum(line.at <= last.at for line in story)


def _story(case: Case, name: str) -> list[Line]:
    record = case.subject.record
    if record is None:
        raise errors.SickbayError(f"{name!r} has no incident; see sickbay get incidents --all")
    past = case.subject.past(name)
    if case.told.timeline:
        return timeline.of_incident(case.told.timeline)
    return timeline.of_past(past) if past else timeline.of_record(record)
