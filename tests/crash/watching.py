"""A watch of the tests' own, which knows none of Sickbay's code but the connection."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

from k8s.gateway import Gateway, decode


async def watch(gateway: Gateway, path: str, take: Callable[[str, dict[str, Any]], object]) -> None:
    """Tell of what is there, as ADDED, and of every change, until cancelled.

    Args:
        gateway: of an administrator.
        path: of the type.
        take: told the event's type and the object.
    """
    start = decode(await gateway.request("GET", path))
    for item in start["items"]:
        take("ADDED", item)
    params = {"watch": "true", "resourceVersion": start["metadata"]["resourceVersion"], "timeoutSeconds": "3600"}
    async with aclosing(gateway.stream(path, params, idle=3600)) as lines:
        async for line in lines:
            event = json.loads(line)
            assert event["type"] != "ERROR", event
            take(event["type"], event["object"])
