"""Evictions under way in the cluster, in ConfigMap ``sickbay-evictions``: the cap's books, one entry a pod uid.

Who evicts takes a slot first and gives it back when that uid is gone. A worker may die in between: a slot is reclaimed
when its pod is gone or has ended, or when the incident that took it is over and its pod is not on its way out.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

import structlog
from pydantic import ValidationError

from k8s.configmaps import ConfigMap
from k8s.gateway import Gateway
from k8s.reading import Reader, Undecodable
from k8s.records import Records
from k8s.resources import PODS
from k8s.wire import Pod
from sickbay import errors
from sickbay.model.base import Name, Wire
from sickbay.model.incident import Target, User
from sickbay.policy.evictions import Granted, Refused, grant

log = structlog.get_logger(__name__)

EVICTIONS: Final = "sickbay-evictions"

RACES: Final = 10
"""Lost races until a step is left to its activity's next attempt."""

RECLAIM: Final = 10.0
"""Seconds between looks for slots to reclaim, per process: a thousand refusals must not mean ten thousand reads."""

_POD: Final = Reader(Pod)


class Holder(Wire):
    """One slot's entry: what for, and how to find out whether it is still needed."""

    effect_key: Name
    namespace: Name
    pod: Name
    record: Name
    incident: Name


class EvictionSlots:
    """Takes and gives back slots by compare-and-swap; safe for any number of workers."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._map = ConfigMap(gateway, EVICTIONS)
        self._records = Records(gateway)
        self._looked_at = -RECLAIM

    async def take(self, user: User, target: Target, *, effect_key: str, limit: int) -> Granted | Refused:
        """Take a slot for the eviction of this pod, or learn why not. Taken already is granted.

        Raises:
            Conflict: too many others took and gave at the same moment: call again.
            UsageError: Sickbay is not installed.
        """
        holder = Holder(
            effect_key=effect_key,
            namespace=user.namespace,
            pod=user.name,
            record=target.device.record_name,
            incident=target.incident,
        )
        for _ in range(RACES):
            before = await self._map.read()
            ruling = grant({uid: _effect_key(text) for uid, text in before.data.items()}, limit, user.uid, effect_key)
            if isinstance(ruling, Refused):
                if await self._reclaim(before.data):
                    continue
                return ruling
            try:
                if user.uid not in before.data:
                    await self._map.write(before, {user.uid: holder.model_dump_json(by_alias=True)})
            except errors.Conflict:
                continue
            return ruling
        raise _crowded()

    async def give_back(self, *pod_uids: str) -> None:
        """Free the slots of pods that are gone, or that are not evicted after all. Free already is fine.

        Raises:
            Conflict: as `take`.
            UsageError: as `take`.
        """
        for _ in range(RACES):
            before = await self._map.read()
            try:
                await self._map.write(before, dict.fromkeys(uid for uid in pod_uids if uid in before.data))
            except errors.Conflict:
                continue
            return
        raise _crowded()

    async def holders(self) -> Mapping[str, str]:
        """Tell effect key by pod uid of the evictions under way.

        Raises:
            UsageError: as `take`.
        """
        return {uid: _effect_key(text) for uid, text in (await self._map.read()).data.items()}

    async def _reclaim(self, entries: Mapping[str, str]) -> bool:
        """Free slots that nobody needs, unless somebody here has just looked; say whether any was."""
        if time.monotonic() - self._looked_at < RECLAIM:
            return False
        self._looked_at = time.monotonic()
        free = [uid for uid, text in entries.items() if not await self._needed(uid, text)]
        if free:
            log.info("eviction_slots_reclaimed", pods=free)
            await self.give_back(*free)
        return bool(free)

    async def _needed(self, uid: str, text: str) -> bool:
        holder = _holder(text)
        pod = await self._pod(holder) if holder else None
        if holder is None or pod is None or pod.metadata.uid != uid or pod.terminal:
            return False
        return bool(pod.metadata.deletion_timestamp) or await self._open(holder)

    async def _pod(self, holder: Holder) -> Pod | None:
        try:
            return _POD(await self._gateway.request("GET", PODS.path(holder.namespace, holder.pod))).value
        except errors.NotFound:
            return None

    async def _open(self, holder: Holder) -> bool:
        try:
            record = await self._records.get(holder.record)
        except errors.NotFound:
            return False
        except Undecodable:
            return True
        return record.spec.incident == holder.incident and not record.closed


def _holder(text: str) -> Holder | None:
    try:
        return Holder.model_validate_json(text)
    except ValidationError:
        log.warning("eviction_slot_undecodable", text=text[:200])
        return None


def _effect_key(text: str) -> str:
    holder = _holder(text)
    return holder.effect_key if holder else ""


def _crowded() -> errors.Conflict:
    return errors.Conflict(
        status=409, reason="Conflict", message=f"ConfigMap {EVICTIONS}: {RACES} writes in a row were overtaken"
    )
