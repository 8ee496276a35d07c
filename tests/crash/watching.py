"""A watch of the tests' own, which knows none of Sickbay's code but the connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, Final

from k8s.gateway import Gateway, decode
from sickbay import errors

PAUSE: Final = 0.5
"""Seconds until an API server that was away is asked again."""


@asynccontextmanager
async def watching(gateway: Gateway, path: str, take: Callable[[str, dict[str, Any]], object]) -> AsyncIterator[None]:
    """Tell of what is there, as ADDED, and of every change, until the block ends.

    Args:
        gateway: of an administrator.
        path: of the type.
        take: told the event's type and the object.

    Raises:
        AssertionError: changes were missed; raised when the block ends.
    """
    start = decode(await gateway.request("GET", path))
    for item in start["items"]:
        take("ADDED", item)
    following = asyncio.create_task(_follow(gateway, path, start["metadata"]["resourceVersion"], take))
    try:
        yield
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


async def _follow(gateway: Gateway, path: str, version: str, take: Callable[[str, dict[str, Any]], object]) -> None:
    """Watch without a gap: an API server ends the watch of whoever is busy for a while with something else."""
    while True:
        params = {"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true"}
        try:
            async with aclosing(gateway.stream(path, params, idle=3600)) as lines:
                async for line in lines:
                    event = json.loads(line)
                    assert event["type"] != "ERROR", event
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        take(event["type"], event["object"])
        except errors.ClusterUnavailable:
            await asyncio.sleep(PAUSE)
