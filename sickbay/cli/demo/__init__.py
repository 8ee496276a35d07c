"""``sickbay demo``: one incident from fault to release, on a lab of its own."""

from __future__ import annotations

import asyncio

import click


@click.command()
@click.option("--keep", is_flag=True, help="Leave everything running at the end for a look around, until Ctrl-C.")
def demo(*, keep: bool) -> int:
    """Show one incident from fault to release: a real control plane, a real Temporal server, a device that fails.

    The first time, Kubernetes is built from source into your cache, which takes minutes. Exit status 0 only if every
    step happened, by the word of the API server's audit log.
    """
    from sickbay.cli.demo.stage import play  # noqa: PLC0415 - loads the whole house, which --help must not

    return 0 if asyncio.run(play(keep=keep)) else 1
