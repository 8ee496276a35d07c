"""Which Kubernetes this is, and which of its features are on, as the API server itself says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from k8s.gateway import Gateway, decode

METRICS_TIMEOUT: Final = 30.0
"""Seconds: the metrics of a busy API server are some megabytes."""

_FEATURE: Final = re.compile(rb'^kubernetes_feature_enabled\{[^}]*name="([^"]+)"[^}]*\} (\d)', re.MULTILINE)


@dataclass(frozen=True, order=True)
class Version:
    """Version of an API server; ``text`` is its own word for it."""

    major: int
    minor: int
    text: str = ""


async def version(gateway: Gateway) -> Version:
    """Read the API server's version; 0.0 if it names none that is known.

    Raises:
        ClusterError, ClusterUnavailable: it could not be read.
    """
    answer = decode(await gateway.request("GET", "/version"))
    text = str(answer.get("gitVersion", ""))
    found = re.match(r"v(\d+)\.(\d+)", text)  # `minor` may be "30+"
    return Version(int(found[1]), int(found[2]), text) if found else Version(0, 0, text)


async def features(gateway: Gateway) -> Mapping[str, bool]:
    """Read which feature gates the API server knows, and whether each is on; other components have gates of their own.

    Raises:
        Forbidden: we may not read its metrics.
        ClusterError, ClusterUnavailable: they could not be read.
    """
    metrics = await gateway.request("GET", "/metrics", wait=METRICS_TIMEOUT)
    return {name.decode(): value == b"1" for name, value in _FEATURE.findall(metrics)}
