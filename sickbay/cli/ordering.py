"""A person's order to the cluster itself, not to an incident that runs: written in that person's name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import click

from k8s.gateway import Gateway
from sickbay.cli import shared
from sickbay.cli.finding import cluster
from sickbay.model.base import tamed
from sickbay.settings import Settings

Order = Callable[[Gateway, str, str | None, str], Awaitable[str]]
"""Takes the cluster, what was named, the node that was named with it, and why; says what comes next."""


def carry_out(order: Order, named: str, node: str | None, reason: str, flags: dict[str, Any]) -> None:
    """Connect as whoever runs the command, carry the order out, and print what comes next.

    Raises:
        SickbayError: as the order, or the connection.
    """
    settings = shared.settings_from(flags)
    click.echo(asyncio.run(_carried_out(order, settings, named, node, tamed(reason, 400))))


async def _carried_out(order: Order, settings: Settings, named: str, node: str | None, reason: str) -> str:
    async with cluster(settings) as gateway:
        return await order(gateway, named, node, reason)
