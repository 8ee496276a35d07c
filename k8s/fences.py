"""Fences: DeviceTaintRules of ours, each of which keeps new allocations off exactly one device.

A selector that lacks a part matches more than one device, an empty one matches all there are: a fence is built only
from a `DeviceKey`, checked again right before it is sent, compared with what the server stored, and guarded by an
admission policy. The finalizer is a latch: a fence that somebody deletes holds until it is taken off.

Effect NoSchedule, never NoExecute, which deletes pods without asking their disruption budgets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog

from k8s.gateway import MERGE_PATCH, Gateway
from k8s.listings import list_all
from k8s.reading import Reader
from k8s.resources import Resource, served
from k8s.wire import DeviceTaintRule
from sickbay import errors
from sickbay.model.device import DeviceKey
from sickbay.model.record import (
    DEVICE_ANNOTATION,
    EFFECT_ANNOTATION,
    FINALIZER,
    INCIDENT_ANNOTATION,
    QUARANTINE_KEY,
    RAMP_KEY,
    TERM_ANNOTATION,
)

log = structlog.get_logger(__name__)

MANAGED_BY: Final = ("app.kubernetes.io/managed-by", "sickbay")
"""Label that all fences of ours carry."""

DEVICE_LABEL: Final = "sickbay.dev/device"
"""Label: `DeviceKey.digest`."""

MODE_ANNOTATION: Final = "sickbay.dev/mode"
SHADOW: Final = "shadow"
"""A fence of effect None says why it may: the admission policy lets no other have it."""

READER: Final = Reader(DeviceTaintRule)
"""Decoder for an informer over rules."""


@dataclass(frozen=True)
class Fence:
    """A rule of ours as the server has it.

    Attributes:
        name: `DeviceKey.numbered`.
        device: readable device key, ``""`` if the annotation was lost.
        selector: driver, pool and device as stored, ``""`` for a missing part.
        effect_key: of the last effect on it.
        latched: our finalizer is on: deleted, it holds on.
        terminating: somebody deleted it; it still holds.
    """

    name: str
    uid: str
    resource_version: str
    device: str
    incident: str
    effect_key: str
    selector: tuple[str, str, str]
    taint_key: str
    effect: str
    finalizers: tuple[str, ...]
    terminating: bool

    @property
    def latched(self) -> bool:
        """Whether our finalizer is on."""
        return FINALIZER in self.finalizers

    @property
    def number(self) -> int:
        """Its counter, 0 if the name is not one of ours."""
        tail = self.name.rpartition("-")[2]
        return int(tail) if tail.isdecimal() else 0

    def matches(self, key: DeviceKey, incident: str, *, shadow: bool, ramping: bool = False) -> bool:
        """Say whether it is this incident's and fences this device as it should; `ramping`: or lets in who opted in."""
        return (
            self.incident == incident
            and self.selector == (key.driver, key.pool, key.device)
            and (self.taint_key == QUARANTINE_KEY or (ramping and self.taint_key == RAMP_KEY))
            and self.effect == _effect(shadow=shadow)
        )


@dataclass(frozen=True)
class Placed:
    """What `Fences.put` found or made.

    Attributes:
        created: by this very call.
        matches: it fences the device as wanted; not so if the number was taken, or the server stored something else.
    """

    fence: Fence
    created: bool
    matches: bool

    @property
    def uid(self) -> str:
        """Uid of the rule."""
        return self.fence.uid

    @property
    def terminating(self) -> bool:
        """Whether somebody is deleting it."""
        return self.fence.terminating


def read(rule: DeviceTaintRule) -> Fence:
    """Tell what a rule of ours says."""
    meta, taint, selector = rule.metadata, rule.spec.taint, rule.spec.device_selector
    parts = (selector.driver, selector.pool, selector.device) if selector else (None, None, None)
    return Fence(
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        device=meta.annotations.get(DEVICE_ANNOTATION, ""),
        incident=meta.annotations.get(INCIDENT_ANNOTATION, ""),
        effect_key=meta.annotations.get(EFFECT_ANNOTATION, ""),
        selector=(parts[0] or "", parts[1] or "", parts[2] or ""),
        taint_key=taint.key,
        effect=taint.effect,
        finalizers=meta.finalizers,
        terminating=bool(meta.deletion_timestamp),
    )


def ours(rule: DeviceTaintRule) -> bool:
    """Tell fences of ours from the rules of others."""
    return rule.metadata.labels.get(MANAGED_BY[0]) == MANAGED_BY[1] and rule.spec.taint.key.startswith("sickbay.dev/")


class Fences:
    """The fences of one cluster, read past every cache."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._served: Resource | None = None

    async def put(
        self,
        key: DeviceKey,
        number: int,
        *,
        incident: str,
        effect_key: str,
        shadow: bool = False,
        term: int | None = None,
    ) -> Placed:
        """Create a fence, or find it: the same name never twice, and nothing that is there is changed.

        What the server stored, its answer, is compared with what was meant.

        Args:
            key: the device.
            number: counter of the device's fences, from its record.
            incident: id of the incident it belongs to.
            effect_key: kept as annotation, so that an audit log counts it.
            shadow: effect None, which keeps nothing away.
            term: of the leader that puts it; the API server refuses an old one. None for an incident's activity, which
                its record's check binds.

        Raises:
            Forbidden: an admission policy refused, or we lack the right.
            UsageError: the cluster serves no DeviceTaintRules.
        """
        body = _rule(key, number, incident=incident, effect_key=effect_key, shadow=shadow, term=term)
        resource = await self._resource()
        body["apiVersion"] = resource.api_version
        exact(body["spec"])
        try:
            fence = await self._request("POST", resource.path(), body)
            created = True
        except errors.AlreadyExists:
            fence = await self.get(key.numbered(number))
            created = False
        matches = fence.matches(key, incident, shadow=shadow)
        if not matches:
            log.error("fence_mismatched", fence=fence.name, created=created, owner=fence.incident)
        return Placed(fence, created=created, matches=matches)

    async def get(self, name: str) -> Fence:
        """Read one fence, by a quorum read.

        Raises:
            NotFound: there is none.
            UsageError: as `put`.
        """
        return await self._request("GET", (await self._resource()).path(name=name))

    async def list(self, key: DeviceKey | None = None) -> tuple[Fence, ...]:
        """Read all fences of ours, or all of one device whatever their numbers, by a quorum list in pages.

        A rule of others that carries our labels is none of them.

        Raises:
            Gone: the list took longer than the API server keeps history; call again.
            UsageError: as `put`.
        """
        labels = "=".join(MANAGED_BY) if key is None else f"{'='.join(MANAGED_BY)},{DEVICE_LABEL}={key.digest}"
        rules = await list_all(self._gateway, await self._resource(), READER, params={"labelSelector": labels})
        return tuple(read(rule) for rule in rules.items if ours(rule))

    async def unlatch(self, name: str, uid: str, effect_key: str) -> Fence | None:
        """Take our finalizer off exactly this fence; off already is fine.

        Returns:
            The fence as it is now, or None if that uid is gone. One that was terminating goes with this.

        Raises:
            Conflict: somebody wrote in between: call again.
        """
        fence = await self._find(name, uid)
        if fence is None or not fence.latched:
            return fence
        rest = [finalizer for finalizer in fence.finalizers if finalizer != FINALIZER]
        return await self._refinalize(fence, rest, effect_key)

    async def latch(self, name: str, uid: str, effect_key: str) -> Fence | None:
        """Put our finalizer back on: a release was called off. On already is fine.

        Returns:
            The fence as it is now; a terminating one stays unlatched, Kubernetes takes no new finalizer then. None if
            that uid is gone.

        Raises:
            Conflict: as `unlatch`.
        """
        fence = await self._find(name, uid)
        if fence is None or fence.latched or fence.terminating:
            return fence
        return await self._refinalize(fence, [*fence.finalizers, FINALIZER], effect_key)

    async def delete(self, name: str, uid: str, resource_version: str) -> None:
        """Delete exactly this state of exactly this fence. Gone is success.

        Raises:
            Conflict: it is another object, or was written since.
        """
        body = {"preconditions": {"uid": uid, "resourceVersion": resource_version}}
        try:
            await self._send("DELETE", (await self._resource()).path(name=name), body)
        except errors.NotFound:
            log.info("fence_already_gone", fence=name)

    async def rekey(self, fence: Fence, key: str, effect_key: str) -> Fence | None:
        """Change whom a fence lets in, in place and so without a gap: the key of its taint.

        Returns:
            The fence as it is now, or None if it is gone.

        Raises:
            Conflict: somebody wrote in between: call again.
        """
        if fence.taint_key == key:
            return fence
        body = {
            "metadata": {"resourceVersion": fence.resource_version, "annotations": {EFFECT_ANNOTATION: effect_key}},
            "spec": {"taint": {"key": key}},
        }
        try:
            return await self._request("PATCH", (await self._resource()).path(name=fence.name), body)
        except errors.NotFound:
            return None

    async def _find(self, name: str, uid: str) -> Fence | None:
        if not uid:
            raise ValueError(f"fence {name}: no uid was given, so it cannot be told from a later one of that name")
        try:
            fence = await self.get(name)
        except errors.NotFound:
            return None
        return fence if fence.uid == uid else None

    async def _refinalize(self, fence: Fence, finalizers: Sequence[str], effect_key: str) -> Fence | None:
        metadata = {
            "resourceVersion": fence.resource_version,
            "finalizers": list(finalizers),
            "annotations": {EFFECT_ANNOTATION: effect_key},
        }
        path = (await self._resource()).path(name=fence.name)
        try:
            return await self._request("PATCH", path, {"metadata": metadata})
        except errors.NotFound:
            return None

    async def _request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Fence:
        return read(READER(await self._send(method, path, body)).value)

    async def _send(self, method: str, path: str, body: Mapping[str, Any] | None) -> bytes:
        """Make a request; that the *type* is not found must not read as a fence that is gone."""
        content_type = MERGE_PATCH if method == "PATCH" else "application/json"
        try:
            return await self._gateway.request(method, path, body=body, content_type=content_type)
        except errors.NotFound as error:
            if error.name:
                raise
            self._served = None  # perhaps the cluster was upgraded: look again which version it serves
            raise errors.ClusterUnavailable(f"{error}: this version is not served, or no longer") from error

    async def _resource(self) -> Resource:
        """Find the served version once per process."""
        if self._served is None:
            self._served = await served(self._gateway)
        if self._served is None:
            raise errors.UsageError(
                f"{self._gateway.server} serves no DeviceTaintRules: Kubernetes 1.37 does; before it, turn on the "
                "feature gates DRADeviceTaints and DRADeviceTaintRules and serve resource.k8s.io/v1beta2 (1.36) or "
                "v1alpha3 (1.34, 1.35) with --runtime-config"
            )
        return self._served


def exact(spec: Mapping[str, Any]) -> None:
    """Make sure that a rule's spec names one device.

    Raises:
        ValueError: driver, pool or device is missing or empty, or the effect deletes pods.
    """
    selector = spec.get("deviceSelector") or {}
    for part in ("driver", "pool", "device"):
        if not isinstance(selector.get(part), str) or not selector[part]:
            raise ValueError(f"deviceSelector.{part} of a fence is empty: it would fence more than one device")
    if spec["taint"]["effect"] not in {"NoSchedule", "None"}:
        raise ValueError(f"effect {spec['taint']['effect']!r} of a fence: only NoSchedule, or None in shadow")


def _rule(
    key: DeviceKey, number: int, *, incident: str, effect_key: str, shadow: bool, term: int | None
) -> dict[str, Any]:
    annotations = {DEVICE_ANNOTATION: str(key), INCIDENT_ANNOTATION: incident, EFFECT_ANNOTATION: effect_key}
    if term is not None:
        annotations[TERM_ANNOTATION] = str(term)
    if shadow:
        annotations[MODE_ANNOTATION] = SHADOW
    return {
        "kind": "DeviceTaintRule",
        "metadata": {
            "name": key.numbered(number),
            "labels": {MANAGED_BY[0]: MANAGED_BY[1], DEVICE_LABEL: key.digest},
            "annotations": annotations,
            "finalizers": [FINALIZER],
        },
        "spec": {
            "deviceSelector": {"driver": key.driver, "pool": key.pool, "device": key.device},
            "taint": {"key": QUARANTINE_KEY, "value": _value(incident), "effect": _effect(shadow=shadow)},
        },
    }


def _effect(*, shadow: bool) -> str:
    return "None" if shadow else "NoSchedule"


def _value(incident: str) -> str:
    """Taint values are label values: at most 63 characters of a few kinds; an incident id is neither."""
    return hashlib.sha256(incident.encode()).hexdigest()[:16]
