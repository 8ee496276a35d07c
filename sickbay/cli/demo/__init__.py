"""``sickbay demo``: one incident from fault to release, on a lab of its own."""

from __future__ import annotations

import asyncio
from typing import Final

import click

INTERRUPTED: Final = 130
"""Exit status after Ctrl-C in the middle, as shells give it."""


@click.command()
@click.option("--keep", is_flag=True, help="Leave everything running at the end for a look around, until Ctrl-C.")
@click.option(
    "--verbose", is_flag=True, help="Sum up with every request that changed something, not with counts alone."
)
@click.option(
    "--temporal",
    type=click.Choice(["dev", "postgres"]),
    default="dev",
    show_default=True,
    help="Temporal's development server, or its real one on this machine's PostgreSQL, built from source once.",
)
def demo(*, keep: bool, verbose: bool, temporal: str) -> int:
    """Show one incident from fault to release: a real control plane, a real Temporal server, a device that fails.

    The first time, Kubernetes is built from source into your cache, which takes minutes. Exit status 0 only if every
    step happened, by the word of the API server's audit log.
    """
    from sickbay.cli.demo.stage import play  # noqa: PLC0415 - loads the whole house, which --help must not

    try:
        ok = asyncio.run(play(keep=keep, verbose=verbose, postgres=temporal == "postgres"))
    except KeyboardInterrupt:
        click.echo("stopped; the lab is gone")
        return INTERRUPTED
    if keep:
        click.echo("the lab is gone")
    return 0 if ok else 1
