"""From pods and claims, as the informers have them, to what is said of each device.

An entry that cannot be resolved yet is looked at again when its pod or one of its claims changes. What a pod no longer
says has vanished; what it says but can no longer be read is in doubt. Entries of device plugins are counted only.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Final

import structlog

from k8s.claims import Unresolved
from k8s.observations import PodReport, report
from k8s.store import Change, Item, Key
from k8s.wire import Pod, ResourceClaim
from sickbay.model.base import tamed
from sickbay.model.device import DeviceKey
from sickbay.model.observation import Health, Observation, Reason
from sickbay.telemetry.metrics import Metrics

log = structlog.get_logger(__name__)

_NOTHING: Final = PodReport()


class Translator:
    """Keeps what each pod said last, and tells what changed."""

    def __init__(
        self,
        cluster: str,
        said: Callable[[Observation], None],
        silent: Callable[[DeviceKey, str], None],
        metrics: Metrics,
    ) -> None:
        """Begin knowing nothing.

        Args:
            cluster: our name of the cluster.
            said: told each observation.
            silent: told device and pod uid when a pod says nothing of a device any more.
            metrics: counts what could not be read, and entries of device plugins.
        """
        self._cluster = cluster
        self._said = said
        self._silent = silent
        self._metrics = metrics
        self._claims: dict[Key, ResourceClaim] = {}
        self._pods: dict[Key, Item[Pod]] = {}  # those that use claims or report health
        self._reports: dict[Key, PodReport] = {}
        self._users: dict[Key, set[Key]] = defaultdict(set)  # pods by claim

    def on_pod(self, change: Change[Pod]) -> None:
        """Take a change of a pod."""
        key, new = change.key, change.new
        known = self._pods.pop(key, None)
        if known is not None:
            self._forget_claims(key, known.object)
        if new is None:
            self._tell(key, change.old, _NOTHING)
            return
        if key not in self._reports and not _concerns_us(new.object):
            return
        self._pods[key] = new
        for claim in _claims_of(new.object):
            self._users[claim].add(key)
        self._look_at(key, new)

    def on_claim(self, change: Change[ResourceClaim]) -> None:
        """Take a change of a claim: its pods' entries may mean other devices now."""
        if change.new is None:
            self._claims.pop(change.key, None)
        else:
            self._claims[change.key] = change.new.object
        for pod in sorted(self._users.get(change.key, ())):
            self._look_at(pod, self._pods[pod])

    def _look_at(self, key: Key, item: Item[Pod]) -> None:
        if item.undecodable:
            self._doubt(key, item)
            return
        self._tell(key, item, report(item.object, self._claims, cluster=self._cluster))

    def _doubt(self, key: Key, item: Item[Pod]) -> None:
        """Its last good state stays, as Unknown."""
        for said in self._reports.get(key, _NOTHING).observations:
            update = {"health": Health.UNKNOWN, "reason": Reason.UNDECODABLE, "resource_version": item.version}
            self._said(said.model_copy(update={**update, "message": "the pod can no longer be read"}))

    def _tell(self, key: Key, item: Item[Pod] | None, now: PodReport) -> None:
        before = self._reports.pop(key, _NOTHING)
        if now is not _NOTHING and (now.observations or now.plugins or now.unresolved):
            self._reports[key] = now
        self._count(key, before, now)
        for observation in now.observations:
            self._said(observation)
        spoken = {o.device for o in now.observations}
        for gone in before.observations:
            if gone.device not in spoken:
                self._silent(gone.device, item.uid if item is not None else gone.source.uid)

    def _count(self, key: Key, before: PodReport, now: PodReport) -> None:
        """Count what is new in a report, so that a repetition counts nothing."""
        for reason in (Counter(now.unresolved) - Counter(before.unresolved)).elements():
            self._metrics.unparsed(reason)
            if reason in {Unresolved.MALFORMED, Unresolved.MISMATCH}:
                log.warning("health_entry_unreadable", namespace=key[0], pod=key[1], why=reason)
        for word in (Counter(now.unlisted) - Counter(before.unlisted)).elements():
            self._metrics.unparsed(Reason.UNLISTED_HEALTH)
            log.warning("health_word_unlisted", namespace=key[0], pod=key[1], word=tamed(word))
        for _, health in (Counter(now.plugins) - Counter(before.plugins)).elements():
            self._metrics.plugin_entries(health)

    def _forget_claims(self, key: Key, pod: Pod) -> None:
        for claim in _claims_of(pod):
            self._users[claim].discard(key)
            if not self._users[claim]:
                del self._users[claim]


def _claims_of(pod: Pod) -> Iterator[Key]:
    """Name the claims that a pod may speak of."""
    namespace = pod.metadata.namespace
    extended = pod.status.extended_resource_claim_status
    names = {c.resource_claim_name for c in pod.spec.resource_claims}
    names |= {c.resource_claim_name for c in pod.status.resource_claim_statuses}
    names |= {extended.resource_claim_name} if extended is not None else set()
    return ((namespace, name) for name in names if name)


def _concerns_us(pod: Pod) -> bool:
    status = pod.status
    if pod.spec.resource_claims or status.extended_resource_claim_status is not None:
        return True
    return any(c.allocated_resources_status for c in (*status.container_statuses, *status.init_container_statuses))
