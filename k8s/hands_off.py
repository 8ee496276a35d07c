"""May anything be done that cannot be undone? People say no to the whole installation, or to a node, namespace or pod.

Asked live, right before each such step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Final

from k8s.clock import utc_now
from k8s.control import ControlMap
from k8s.gateway import Gateway
from k8s.reading import Reader
from k8s.resources import NAMESPACES, NODES, Resource
from k8s.wire import Meta, Object
from sickbay import errors
from sickbay.model.base import tamed
from sickbay.model.command import Halt, Hindrance

MANAGED: Final = "sickbay.dev/managed"
"""Label or annotation; ``false``, ``no`` and ``off`` mean: hands off."""

_OBJECT: Final = Reader(Object)


def unmanaged(meta: Meta) -> bool:
    """Whether somebody marked this object as not Sickbay's to touch, by a label or by an annotation."""
    marks = (meta.labels.get(MANAGED), meta.annotations.get(MANAGED))
    return any(mark is not None and mark.strip().lower() in {"false", "no", "off"} for mark in marks)


class HandsOff:
    """Asks."""

    def __init__(self, gateway: Gateway, *, now: Callable[[], datetime] = utc_now) -> None:
        self._gateway = gateway
        self._control = ControlMap(gateway)
        self._now = now

    async def halt(self, node: str) -> Halt | None:
        """Say what keeps Sickbay from acting on a node; None if nothing does.

        Args:
            node: name; ``""`` if it is not known, then only the installation is asked about.

        Raises:
            UsageError: Sickbay is not installed.
            ClusterError, ClusterUnavailable: it could not be read, so nothing may be done.
        """
        control, marked = await asyncio.gather(self._control.read(), self._marked(NODES, node))
        if control.paused_at(self._now()):
            why = f"Sickbay was paused by {control.who or 'somebody'}: {control.why or 'no reason given'}"
            return Halt(reason=Hindrance.PAUSED, message=tamed(why))
        if marked:
            why = f"node {node} is marked {MANAGED}=false: nothing is moved, tried or released there"
            return Halt(reason=Hindrance.HANDS_OFF, message=f"{why}; remove the mark when that is over")
        return None

    async def namespace(self, name: str) -> bool:
        """Whether a namespace is marked."""
        return await self._marked(NAMESPACES, name)

    async def _marked(self, resource: Resource, name: str) -> bool:
        if not name:
            return False
        try:
            data = await self._gateway.request("GET", resource.path(name=name))
        except errors.NotFound:
            return False
        return unmanaged(_OBJECT(data).value.metadata)
