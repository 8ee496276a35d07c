"""What a pod says of each of its devices: the one translation from kubelet's words to observations.

The watcher's copy and a live reading must say the same in the same words, because what an ended incident has seen is
compared by digest. Both come here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from k8s.claims import PluginDevice, Reading, Unresolved, readings
from k8s.store import Key
from k8s.wire import Object, Pod, ResourceClaim
from sickbay.model.base import tamed
from sickbay.model.device import DeviceKey
from sickbay.model.observation import Health, Observation, Reason, SourceRef


@dataclass(frozen=True, slots=True)
class PodReport:
    """All that one pod says.

    Attributes:
        observations: one per device, the worst of the pod's entries for it.
        plugins: device-plugin devices with the health that the pod gives them; observed only.
        unresolved: entries that name no device (yet), by reason.
        unlisted: raw health words that are none of the three; for logs, never for labels.
    """

    observations: tuple[Observation, ...] = ()
    plugins: tuple[tuple[PluginDevice, Health], ...] = ()
    unresolved: tuple[Unresolved, ...] = ()
    unlisted: tuple[str, ...] = ()


def report(pod: Pod, claims: Mapping[Key, ResourceClaim], *, cluster: str, version: str = "") -> PodReport:
    """Translate a pod's health entries.

    Args:
        pod: the pod; of one that has ended every observation is marked terminal.
        claims: by namespace and name.
        cluster: our name of the cluster.
        version: resourceVersion, if it is not the pod's own.
    """
    told: dict[DeviceKey, list[_Word]] = defaultdict(list)
    plugins, unresolved, unlisted = [], [], []
    vague: dict[tuple[str, str, tuple[DeviceKey, ...]], list[Reading]] = defaultdict(list)
    for entry in readings(pod, claims, cluster=cluster):
        health, reason = health_of(entry.health)
        if reason is Reason.UNLISTED_HEALTH:
            unlisted.append(entry.health)
        if entry.unresolved is not None:
            unresolved.append(entry.unresolved)
        elif entry.plugin is not None:
            plugins.append((entry.plugin, health))
        elif entry.exact:
            told[entry.devices[0]].append(_Word(health, reason, entry.message))
        else:
            vague[entry.container, entry.name, entry.devices].append(entry)
    for (_, _, devices), entries in vague.items():
        word = _common_word(len(devices), entries)
        if word is None:
            continue
        for device in devices:
            told[device].append(word)
    return PodReport(
        observations=tuple(_observation(pod, device, words, version) for device, words in told.items()),
        plugins=tuple(plugins),
        unresolved=tuple(unresolved),
        unlisted=tuple(unlisted),
    )


def health_of(word: str) -> tuple[Health, Reason]:
    """Read a health word; any but the three is Unknown, for they are spelt exactly so."""
    try:
        return Health(word), Reason.REPORTED
    except ValueError:
        return Health.UNKNOWN, Reason.UNLISTED_HEALTH


def source_of(item: Object) -> SourceRef:
    """Name a pod as the source of an observation."""
    meta = item.metadata
    return SourceRef(kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid)


@dataclass(frozen=True, slots=True)
class _Word:
    health: Health
    reason: Reason
    message: str


def _common_word(devices: int, entries: Iterable[Reading]) -> _Word | None:
    """Say of each of several devices what holds whichever entry is about it.

    Kubelet drops an entry whose first CDI id it has already written, so fewer entries than devices may hide a bad one.
    """
    entries = list(entries)
    bad = [e for e in entries if health_of(e.health)[0] is not Health.HEALTHY]
    complete = len(entries) >= devices
    if not bad:
        return _Word(Health.HEALTHY, Reason.REPORTED, "") if complete else None
    if complete and len(bad) == len(entries) and all(e.health == Health.UNHEALTHY for e in bad):
        return _Word(Health.UNHEALTHY, Reason.REPORTED, bad[0].message)
    said = f"one of {devices} devices that cannot be told apart is {bad[0].health or 'without health'}"
    return _Word(Health.UNKNOWN, Reason.AMBIGUOUS, f"{said}: {bad[0].message}" if bad[0].message else said)


def _observation(pod: Pod, device: DeviceKey, words: Iterable[_Word], version: str) -> Observation:
    worst = max(words, key=lambda word: word.health.severity)
    return Observation(
        device=device,
        source=source_of(pod),
        resource_version=version or pod.metadata.resource_version,
        health=worst.health,
        reason=worst.reason,
        message=tamed(worst.message),
        node=pod.spec.node_name,
        terminal=pod.terminal,
    )
