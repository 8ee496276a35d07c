"""The fence: put, kept, and lifted step by step.

A fence is never changed into another. One that somebody took away is followed by one of the next number, and what is
left of earlier ones goes only when the new one stands: there is no gap.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import structlog
from temporalio.exceptions import ApplicationError

from activities.effect import effect
from activities.errors import waiting
from activities.guard import own_record
from k8s.fences import Fence, Fences
from k8s.records import Records
from sickbay import errors
from sickbay.model.contracts import Activity, Done, Fenced, FenceDevice, FenceStep, RampFence
from sickbay.model.record import QUARANTINE_KEY, RAMP_KEY, RAMP_STEP, Record

log = structlog.get_logger(__name__)

GONE_POLL: Final = timedelta(seconds=1)
"""Between two looks at a fence that is being deleted: with its finalizers off it is gone at once."""

_LOST: Final = Fenced(lost=True)


class FenceActivities:
    """Effects on fences of one incident."""

    def __init__(self, records: Records, fences: Fences) -> None:
        self._records = records
        self._fences = fences

    @effect(Activity.FENCE_DEVICE)
    async def fence_device(self, step: FenceDevice) -> Fenced:
        """Make sure that fence ``number`` stands, whoever put it, and that its finalizer is on.

        Safe to repeat because a fence is created by name, so that a second create finds the first, and everything else
        is left as it is where it is right.

        Raises:
            ApplicationError: Superseded.
        """
        record = await own_record(self._records, step.target)
        fence = await self._standing(step, record)
        if fence is None or fence.terminating:
            log.warning("fence_lost", number=step.number, gone=fence is None)
            return _LOST
        if fence.taint_key == RAMP_KEY and fence.incident == step.target.incident:
            fence = await self._fences.rekey(
                fence, QUARANTINE_KEY, f"{step.target.effect_key('fence', step.number)}/key/{step.tried}"
            )
            if fence is None:
                return _LOST
        if not fence.matches(step.target.device, step.target.incident, shadow=step.shadow):
            log.error("fence_not_as_meant", fence=fence.name, owner=fence.incident)
            return _LOST
        if not fence.latched:
            # A release was called off; the number of that release makes the key.
            key = f"{step.target.effect_key('release', record.status.counters.release)}/latch"
            fence = await self._fences.latch(fence.name, fence.uid, key)
            if fence is None or not fence.latched:
                return _LOST
        if step.number > 1:
            await self._clear_older(step)
        return Fenced(uid=fence.uid)

    @effect(Activity.RAMP_FENCE)
    async def ramp_fence(self, step: RampFence) -> Fenced:
        """Let in workloads that have opted in: the fence stays, its key changes.

        Safe to repeat because a key that is right stays as it is.

        Raises:
            ApplicationError: Superseded.
        """
        await own_record(self._records, step.target)
        try:
            fence = await self._fences.get(step.target.device.numbered(step.number))
        except errors.NotFound:
            return _LOST
        if fence.uid != step.uid or fence.terminating:
            return _LOST
        if not fence.matches(step.target.device, step.target.incident, shadow=False, ramping=True):
            return _LOST
        ramped = await self._fences.rekey(
            fence, RAMP_KEY, f"{step.target.effect_key(RAMP_STEP, step.canary)}/{step.number}"
        )
        if ramped is None:
            return _LOST
        log.info("fence_ramped", fence=ramped.name)
        return Fenced(uid=ramped.uid)

    @effect(Activity.UNLATCH_FENCE)
    async def unlatch_fence(self, step: FenceStep) -> Done:
        """Take our finalizer off the fence: the first request of a release.

        Safe to repeat because a finalizer that is off, or a fence that is gone, stays so.

        Raises:
            ApplicationError: Superseded.
        """
        await own_record(self._records, step.target)
        fence = await self._unlatch(step)
        return Done(note="already gone" if fence is None else "done")

    @effect(Activity.DELETE_FENCE)
    async def delete_fence(self, step: FenceStep) -> Done:
        """Delete exactly this fence: uid and the resourceVersion just read are the preconditions.

        The finalizer is off by now; should a late repeat of an earlier step have put it back, it goes first, or the
        fence would terminate for ever.

        Safe to repeat because the uid is never used again, and gone is success.

        Raises:
            ApplicationError: Superseded.
        """
        await own_record(self._records, step.target)
        fence = await self._unlatch(step)
        if fence is None:
            return Done(note="already gone")
        if not fence.terminating:
            await self._fences.delete(fence.name, fence.uid, fence.resource_version)
        return Done()

    @effect(Activity.AWAIT_FENCE_GONE)
    async def await_fence_gone(self, step: FenceStep) -> Done:
        """Read back that the fence is gone; another one of its name is not it.

        Safe to repeat because it only reads.

        Raises:
            ApplicationError: Waiting, while it is there; Superseded.
        """
        await own_record(self._records, step.target)
        name = step.target.device.numbered(step.number)
        try:
            fence = await self._fences.get(name)
        except errors.NotFound:
            return Done()
        if fence.uid != step.uid:
            return Done(note="gone, another stands")
        held = ", ".join(fence.finalizers) or "nothing"
        raise waiting(f"fence {name} is still there, held by {held}", GONE_POLL)

    async def _standing(self, step: FenceDevice, record: Record) -> Fence | None:
        """Find the fence, or put it; None if this number was used already and its fence is gone.

        A number names one create for ever, so a fence that vanished is not created again under it.
        """
        name = step.target.device.numbered(step.number)
        try:
            return await self._fences.get(name)
        except errors.NotFound:
            if _used(name, step, record):
                return None
        placed = await self._fences.put(
            step.target.device,
            step.number,
            incident=step.target.incident,
            effect_key=step.target.effect_key("fence", step.number),
            shadow=step.shadow,
        )
        log.info("fence_put", fence=name, created=placed.created)
        return placed.fence

    async def _clear_older(self, step: FenceDevice) -> None:
        """Let go of this device's earlier fences: one that a hand deleted, one whose release was cut off."""
        device = step.target.device
        for fence in await self._fences.list(device):
            if fence.number >= step.number or fence.selector != (device.driver, device.pool, device.device):
                continue
            if step.shadow and fence.effect != "None":
                log.warning("older_fence_kept", fence=fence.name, why="the new one is a shadow and holds nothing")
                continue
            key = f"{step.target.effect_key('fence', step.number)}/clear/{fence.number}"
            left = await self._fences.unlatch(fence.name, fence.uid, key)
            if left is not None and not left.terminating:
                await self._fences.delete(left.name, left.uid, left.resource_version)
            log.info("older_fence_cleared", fence=fence.name)

    async def _unlatch(self, step: FenceStep) -> Fence | None:
        if not step.uid:
            raise ApplicationError(f"fence {step.number} is lifted by uid, and none was given", non_retryable=True)
        name = step.target.device.numbered(step.number)
        return await self._fences.unlatch(name, step.uid, f"{step.target.effect_key('release', step.release)}/unlatch")


def _used(name: str, step: FenceDevice, record: Record) -> bool:
    """Tell whether a fence of this name is known to have stood, by the workflow or by the record."""
    known = record.status.fence if record.status.incident == step.target.incident else None
    if known is not None and known.uid and known.name == name:
        return True
    # The uid that the workflow knows may be of an earlier number: then the record knows it by that name.
    return bool(step.last_uid) and (known is None or known.uid != step.last_uid)
