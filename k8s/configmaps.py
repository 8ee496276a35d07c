"""Small state of ours in ConfigMaps of namespace ``sickbay``, written by compare-and-swap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from k8s.gateway import MERGE_PATCH, Gateway
from k8s.reading import Reader
from k8s.resources import CONFIGMAPS
from k8s.wire import Object
from sickbay import errors

NAMESPACE: Final = "sickbay"
"""Namespace of everything of ours that has one, but probes."""


class _ConfigMap(Object, frozen=True):
    data: dict[str, str] | None = None


_READER: Final = Reader(_ConfigMap)


@dataclass(frozen=True)
class Content:
    """What a ConfigMap held at one resourceVersion."""

    data: Mapping[str, str]
    resource_version: str


class ConfigMap:
    """One ConfigMap of ours, read past every cache."""

    def __init__(self, gateway: Gateway, name: str) -> None:
        self._gateway = gateway
        self._name = name

    async def read(self) -> Content:
        """Read it.

        Raises:
            UsageError: it is not there: Sickbay is not installed.
        """
        try:
            return _content(await self._gateway.request("GET", CONFIGMAPS.path(NAMESPACE, self._name)))
        except errors.NotFound as error:
            raise errors.UsageError(
                f"ConfigMap {NAMESPACE}/{self._name} is missing on {self._gateway.server}: run 'sickbay install'"
            ) from error

    async def write(self, before: Content, changes: Mapping[str, str | None]) -> Content:
        """Change keys, None removes one; nothing is sent if nothing differs.

        Raises:
            Conflict: somebody wrote since `before` was read: read again and decide again.
        """
        changed = {key: value for key, value in changes.items() if before.data.get(key) != value}
        if not changed:
            return before
        body = {"metadata": {"resourceVersion": before.resource_version}, "data": changed}
        path = CONFIGMAPS.path(NAMESPACE, self._name)
        return _content(await self._gateway.request("PATCH", path, body=body, content_type=MERGE_PATCH))

    async def create(self, data: Mapping[str, str]) -> None:
        """Create it.

        Raises:
            AlreadyExists: it is there.
        """
        body: dict[str, Any] = {"metadata": {"name": self._name}, "data": dict(data)}
        await self._gateway.request("POST", CONFIGMAPS.path(NAMESPACE), body=body)


def _content(data: bytes) -> Content:
    found = _READER(data).value
    return Content(found.data or {}, found.metadata.resource_version)
