"""Our copy of the cluster: one informer per type, all feeding the directory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

import structlog

from k8s.fences import MANAGED_BY
from k8s.gateway import Gateway
from k8s.informer import IDLE, Informer
from k8s.readings import LEASE_NAMESPACE
from k8s.records import DeviceQuarantine
from k8s.resources import (
    DEVICEQUARANTINES,
    DEVICETAINTRULES,
    LEASES,
    PODS,
    RESOURCECLAIMS,
    RESOURCESLICES,
    Resource,
    served,
)
from k8s.store import Change, Count
from k8s.wire import DeviceTaintRule, Lease, Object, Pod, ResourceClaim, ResourceSlice
from sickbay import errors
from sickbay.model.policy import Policy
from sickbay.telemetry.alert import Alert
from sickbay.telemetry.metrics import Metrics
from sickbay.watch.alerts import Alerts
from sickbay.watch.directory import Directory

log = structlog.get_logger(__name__)

T = TypeVar("T", bound=Object)

DISCOVERY_RETRY: Final = 2.0
"""Seconds between two questions which version of the fences is served."""

ODD: Final = (Count.ODD_FIELDS, Count.ODD_ENTRIES, Count.UNDECODABLE, Count.NAMELESS, Count.ODD_EVENTS)
"""What informers count of things that could not be read."""


class Copy:
    """Pods, claims, slices, Leases, records and fences of one cluster.

    Attributes:
        directory: what they add up to.
    """

    def __init__(
        self,
        gateway: Gateway,
        cluster: str,
        policy: Policy,
        metrics: Metrics,
        alerts: Alerts,
        *,
        clock: Callable[[], float],
    ) -> None:
        self.directory = Directory(cluster, policy, metrics, alerts, lease_silence=self._lease_silence, clock=clock)
        self._gateway = gateway
        self._metrics = metrics
        self._alerts = alerts
        self._informers: dict[str, Informer[Any]] = {}
        self._history = 0
        self._counted: dict[tuple[str, Count], int] = {}
        directory = self.directory
        self._add(PODS, Pod, directory.translator.on_pod)
        self._add(RESOURCECLAIMS, ResourceClaim, directory.translator.on_claim)
        self._add(RESOURCESLICES, ResourceSlice, directory.on_slice)
        self._add(LEASES, Lease, directory.on_lease, namespace=LEASE_NAMESPACE)
        self._add(DEVICEQUARANTINES, DeviceQuarantine, directory.books.on_record_change)

    @property
    def missing(self) -> list[str]:
        """Types that are not listed yet."""
        missing = [plural for plural, informer in self._informers.items() if not informer.synced.is_set()]
        fences = DEVICETAINTRULES.plural
        return missing if fences in self._informers else [*missing, fences]

    @property
    def staleness(self) -> float:
        """Seconds since the least fresh informer was in touch."""
        return max(informer.staleness for informer in self._informers.values())

    @property
    def slices_listed(self) -> bool:
        """Whether the sizes of pools are known."""
        return self._informers[RESOURCESLICES.plural].synced.is_set()

    async def run(self) -> None:
        """Watch until cancelled.

        Raises:
            UsageError: the cluster serves no fences.
        """
        async with asyncio.TaskGroup() as group:
            for informer in self._informers.values():
                group.create_task(informer.run())
            fences = self._add(
                await self._fences_served(),
                DeviceTaintRule,
                self.directory.books.on_fence_change,
                params={"labelSelector": "=".join(MANAGED_BY)},
            )
            group.create_task(fences.run())

    async def synced(self) -> None:
        """Wait until everything is listed once."""
        while self.missing:
            waiting = [informer.synced.wait() for informer in self._informers.values()]
            await asyncio.gather(*waiting)
            await asyncio.sleep(0.05 if self.missing else 0)  # the fences' informer is made after discovery

    def check(self) -> None:
        """Count what informers could not read since the last call."""
        for plural, informer in self._informers.items():
            for count in ODD:
                seen = informer.counts[count]
                for _ in range(seen - self._counted.get((plural, count), 0)):
                    self._metrics.unparsed(count)
                self._counted[plural, count] = seen

    async def _fences_served(self) -> Resource:
        while True:
            try:
                resource = await served(self._gateway)
            except (errors.ClusterUnavailable, errors.ClusterError) as error:
                log.warning("fences_not_discovered", error=str(error))
                await asyncio.sleep(DISCOVERY_RETRY)
                continue
            if resource is None:
                raise errors.UsageError(
                    f"{self._gateway.server} serves no DeviceTaintRules, without which no device can be fenced: "
                    "Kubernetes 1.37 does by default"
                )
            return resource

    def _add(
        self,
        resource: Resource,
        kind: type[T],
        take: Callable[[Change[T]], object],
        *,
        namespace: str | None = None,
        params: dict[str, str] | None = None,
    ) -> Informer[T]:
        def on_change(change: Change[T]) -> None:
            self._check_history()
            take(change)

        informer = Informer(self._gateway, resource, kind, on_change, namespace=namespace, params=params)
        self._informers[resource.plural] = informer
        return informer

    def _check_history(self) -> None:
        """Notice a restored database before anything of it is compared with what was before."""
        history = sum(informer.history for informer in self._informers.values())
        if history != self._history:
            self._history = history
            self._alerts.begin(Alert.HISTORY_BROKE)
            self.directory.restart_history()

    def _lease_silence(self) -> float:
        """Seconds for which no news of Leases can have reached us: while our watch works, none."""
        informer = self._informers[LEASES.plural]
        return informer.staleness if informer.problem is not None or informer.staleness > IDLE else 0.0
