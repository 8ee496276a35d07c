"""Names of what there is, for a shell that completes them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from k8s.sights import Sight, look
from sickbay import errors
from sickbay.cli.acting import connect_by
from sickbay.cli.look.entry import entries
from sickbay.cli.look.kinds import Kind

PATIENCE: Final = 2.0
"""Seconds that somebody who pressed Tab waits at most."""


def names(parameters: Mapping[str, Any], meta: Mapping[str, Any], *, published: bool = False) -> list[str]:
    """List the names of a kind; none if the cluster does not answer in time, or may not be asked.

    Args:
        parameters: of the command line so far: ``kind``, ``kubeconfig``, ``context``.
        meta: of click's context.
        published: also devices that have no record.
    """
    try:
        sight = asyncio.run(asyncio.wait_for(_look(parameters, meta, published=published), PATIENCE))
    except (errors.SickbayError, TimeoutError):
        return []
    return of(sight, parameters.get("kind"))


def of(sight: Sight, kind: Kind | None) -> list[str]:
    """Name what is seen: devices by pool and own name, and but for the kind of devices the records, too."""
    devices = {f"{s.spec.pool.name}/{device.name}" for s in sight.slices for device in s.spec.devices}
    if kind is Kind.DEVICES:
        return sorted(devices)
    found = entries(sight)
    devices |= {"/".join(entry.place[1:]) for entry in found if entry.place is not None}
    return [*sorted(devices), *(entry.name for entry in found)]


def after(words: Sequence[str], found: Sequence[str]) -> list[str]:
    """Give what is left to be typed of names that are written as several words: of node-0/gpu-1 after node-0, gpu-1."""
    begun = "".join(f"{word}/" for word in words)
    return [name.removeprefix(begun) for name in found if name.startswith(begun)]


async def _look(parameters: Mapping[str, Any], meta: Mapping[str, Any], *, published: bool) -> Sight:
    slices = published or parameters.get("kind") is Kind.DEVICES
    kubeconfig, context = parameters.get("kubeconfig"), parameters.get("context")
    async with await connect_by(kubeconfig, context, meta) as gateway:
        return await look(gateway, slices=slices)
