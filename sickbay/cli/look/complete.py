"""Names of what there is, for a shell that completes them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from k8s.sights import look
from sickbay import errors
from sickbay.cli.acting import connect_by
from sickbay.cli.look.entry import entries
from sickbay.cli.look.kinds import Kind

PATIENCE: Final = 2.0
"""Seconds that somebody who pressed Tab waits at most."""


def names(parameters: Mapping[str, Any], meta: Mapping[str, Any]) -> list[str]:
    """List the names of a kind; none if the cluster does not answer in time, or may not be asked.

    Args:
        parameters: of the command line so far: ``kind``, ``kubeconfig``, ``context``.
        meta: of click's context.
    """
    try:
        return asyncio.run(asyncio.wait_for(_names(parameters, meta), PATIENCE))
    except (errors.SickbayError, TimeoutError):
        return []


async def _names(parameters: Mapping[str, Any], meta: Mapping[str, Any]) -> list[str]:
    devices = parameters.get("kind") is Kind.DEVICES
    kubeconfig, context = parameters.get("kubeconfig"), parameters.get("context")
    async with await connect_by(kubeconfig, context, meta) as gateway:
        sight = await look(gateway, slices=devices)
    if devices:
        return sorted(f"{s.spec.pool.name}/{device.name}" for s in sight.slices for device in s.spec.devices)
    return [entry.name for entry in entries(sight)]
