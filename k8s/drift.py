"""Is what `sickbay install` put into the cluster still there, and as this version of Sickbay has it?"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from k8s.gateway import Gateway, decode
from k8s.install import MANIFESTS, manifests, resource_of
from sickbay import errors

_STRICT: Final = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
"""Kinds whose further fields weaken them: an exclusion, a condition, a selector."""

_DEFAULTS: Final[tuple[object, ...]] = (None, "", [], {}, "Equivalent", "*")
"""What the API server adds by itself."""


@dataclass(frozen=True)
class Drift:
    """An object of ours that is not as it should be.

    Attributes:
        kind: of the object.
        where: path of the first field that differs; ``""`` if the object is missing.
    """

    kind: str
    name: str
    namespace: str = ""
    where: str = ""

    def __str__(self) -> str:
        """Name the object as kubectl does, and what is wrong with it."""
        place = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.kind} {self.name}{place} {f'differs at {self.where}' if self.where else 'is missing'}"


async def drifts(gateway: Gateway) -> list[Drift]:
    """Compare all our objects with the manifests of this version. Fields that the API server or others added are left.

    Raises:
        Forbidden: we may not read one of them; it takes an administrator.
        ClusterError, ClusterUnavailable: they could not be read.
    """
    wanted = [manifest for name in MANIFESTS for manifest in manifests(name)]
    found = await asyncio.gather(*(_drift(gateway, manifest) for manifest in wanted))
    return [drift for drift in found if drift is not None]


async def _drift(gateway: Gateway, manifest: Mapping[str, Any]) -> Drift | None:
    kind, metadata = manifest["kind"], manifest["metadata"]
    name, namespace = metadata["name"], metadata.get("namespace", "")
    try:
        live = decode(await gateway.request("GET", resource_of(kind).path(namespace or None, name)))
    except errors.NotFound:
        return Drift(kind, name, namespace)
    if live["metadata"].get("deletionTimestamp"):
        return Drift(kind, name, namespace, "metadata.deletionTimestamp")
    parts = {key: value for key, value in manifest.items() if key not in {"apiVersion", "kind", "metadata"}}
    for key, value in parts.items():
        where = difference(value, live.get(key), key, strict=kind in _STRICT)
        if where:
            return Drift(kind, name, namespace, where)
    return None


def difference(wanted: object, live: object, path: str = "", *, strict: bool = False) -> str:
    """Find the first field that is not as wanted.

    Args:
        wanted: as in the manifest.
        live: as the API server has it.
        path: of both, for the answer.
        strict: a field that is not wanted differs, too, unless it is one that the API server adds by itself.

    Returns:
        Its path, ``""`` if all is well.
    """
    if isinstance(wanted, dict):
        if not isinstance(live, dict):
            return path
        further = [key for key in live if key not in wanted and live[key] not in _DEFAULTS] if strict else []
        if further:
            return f"{path}.{further[0]}"
        pairs = [(value, live.get(key), f"{path}.{key}") for key, value in wanted.items()]
    elif isinstance(wanted, list):
        if not isinstance(live, list) or len(live) != len(wanted):
            return path
        pairs = [(value, other, f"{path}[{n}]") for n, (value, other) in enumerate(zip(wanted, live, strict=True))]
    else:
        return "" if wanted == live else path
    return next((where for where in (difference(*pair, strict=strict) for pair in pairs) if where), "")
