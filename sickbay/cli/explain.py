"""``sickbay explain``: why a device is where it is."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from k8s.clock import utc_now
from sickbay.cli import shared
from sickbay.cli.acting import acting_options
from sickbay.cli.look import pausing
from sickbay.cli.look.case import gather
from sickbay.cli.look.facts import explanation, lay_out
from sickbay.cli.look.options import complete_devices


@click.command(epilog="Exit status 1 if nothing has that name.")
@click.argument("names", nargs=-1, required=True, metavar="DEVICE|NAME", shell_complete=complete_devices)
@acting_options
@shared.settings_options("kubeconfig", "context", *shared.TEMPORAL, *shared.LOG)
def explain(*, names: tuple[str, ...], **flags: Any) -> None:
    """Say why a device is where it is: phase, what it waits for and until when, numbers, fence, history.

    DEVICE is driver/pool/device, pool/device or its last part, and may be given as several words: node-0 gpu-1. NAME is
    that of a record, or an incident's id. Without Temporal it says what the cluster knows.
    """
    settings = shared.settings_from(flags)
    case = asyncio.run(gather(settings, "/".join(names), ended=False))
    now = utc_now()
    for line in lay_out(explanation(case.subject, case.control, case.told, now)):
        click.echo(line)
    entry, notice = case.subject.entry, pausing.notice(case.control, now)
    if notice and (entry is None or entry.closed):  # of an open incident the explanation says it
        click.echo(notice, err=True)
