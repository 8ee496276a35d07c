"""The watcher's part of a process."""

from __future__ import annotations

import asyncio

from k8s.gateway import Gateway
from sickbay.model.policy import Policy
from sickbay.telemetry.health import Check, Readiness
from sickbay.telemetry.metrics import Metrics
from sickbay.temporal import Temporal
from sickbay.watch.watcher import Watcher


async def run(
    gateway: Gateway,
    election: Gateway,
    temporal: Temporal,
    policy: Policy,
    cluster: str,
    readiness: Readiness,
    metrics: Metrics,
    stop: asyncio.Event,
) -> None:
    """Watch until asked to stop; ready means: able to act, or standing by for whoever acts."""
    watcher = Watcher(gateway, temporal, policy, cluster, meter=metrics, election=election)

    def check() -> Check:
        return Check(ok=not watcher.missing, message=watcher.missing)

    readiness.asks("watch", check)
    await watcher.run(stop)
