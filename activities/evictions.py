"""Move a user off the device."""

from __future__ import annotations

import structlog

from activities.effect import effect
from activities.guard import own_record
from k8s.evictions import evict, leaving, read_pod
from k8s.gateway import Gateway
from k8s.records import Records
from k8s.slots import EvictionSlots
from k8s.users import UserLists
from sickbay.model.contracts import Activity, Evicted, EvictionOutcome, EvictUser
from sickbay.policy.evictions import Refused

log = structlog.get_logger(__name__)


class EvictionActivities:
    """One eviction at a time, within the cluster's cap."""

    def __init__(self, gateway: Gateway, records: Records, users: UserLists, slots: EvictionSlots) -> None:
        self._gateway = gateway
        self._records = records
        self._users = users
        self._slots = slots

    @effect(Activity.EVICT_USER)
    async def evict_user(self, step: EvictUser) -> Evicted:
        """Evict the pod, if it still holds the device, may still be moved, and the cluster's cap lets it.

        Safe to repeat because a pod that is terminating or gone is not evicted again, the uid is a precondition, and a
        slot that is held is not taken twice.
        """
        await own_record(self._records, step.target)
        user = step.user
        key = step.target.effect_key(f"evict/{user.uid}", 1)
        if not await self._users.holds(step.target.device, user.uid):
            return await self._left(user.uid, key, "holds the device no longer")
        # A pod on its way out needs no slot; one that we took for it before is given back when it is gone.
        pod = await read_pod(self._gateway, user.namespace, user.name, user.uid)
        why = leaving(pod)
        if pod is None or why:
            return await self._left(user.uid, key, why)
        # While a budget blocked, days may have passed since the list: the pod may have lost who rebuilds it.
        move = await self._users.move(pod)
        if not move.may:
            if await self._ours(user.uid, key):
                await self._slots.give_back(user.uid)
            return Evicted(uid=user.uid, outcome=EvictionOutcome.UNMOVABLE, message=move.note)
        ruling = await self._slots.take(user, step.target, effect_key=key, limit=step.limits.at_once)
        if isinstance(ruling, Refused):
            return Evicted(uid=user.uid, outcome=EvictionOutcome.BUSY, message=ruling.message)
        evicted = await evict(self._gateway, pod)
        if evicted.outcome is not EvictionOutcome.ACCEPTED:
            await self._slots.give_back(user.uid)  # a pod that stays must not keep others waiting
        log.info("user_evicted", namespace=user.namespace, pod=user.name, outcome=evicted.outcome)
        return evicted

    async def _left(self, uid: str, key: str, why: str) -> Evicted:
        """Answer for a pod that is on its way out or gone: by our own eviction, if its slot says so."""
        ours = await self._ours(uid, key)
        return Evicted(uid=uid, outcome=EvictionOutcome.ACCEPTED if ours else EvictionOutcome.GONE, message=why)

    async def _ours(self, uid: str, key: str) -> bool:
        """Whether the pod's slot, if it has one, was taken by this very eviction."""
        return (await self._slots.holders()).get(uid) == key
