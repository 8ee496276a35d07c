"""A world for one incident, in memory: a stand-in for the activities, so that a test can say what each finds.

It is a fake and proves the workflow alone; the activities are proved on a real API server elsewhere.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from sickbay.model import contracts as c
from sickbay.model.command import Halt
from sickbay.model.incident import Trial, User, UserState, Verdict
from sickbay.model.observation import Health, SourceRef
from sickbay.model.record import Disowning
from sickbay.policy.verdict import refused
from tests.builders import UUID, observation, reading

CANARY = SourceRef(kind="Pod", namespace="sickbay-probe", name="canary", uid="canary-1")


class World:
    """What the incident finds, and what it did.

    Attributes:
        health: what the device's pod says now; None = no pod.
        version: resourceVersion of that pod.
        users: pods that hold the device.
        verdicts: of the probes to come; the last one repeats.
        loads: of the canaries to come, likewise.
        answers: of Prometheus to come, likewise.
        soaking: what the canary's own entry says while it soaks, and how the canary itself does.
        sent: the trials that were sent, in order.
        refusals: how many more of each the cluster will not have.
        halt: what keeps the incident from what cannot be undone.
        word: who gives the device up, as its record says.
        fences: numbers of the fences that stand.
        done: how often each verb was carried out.
        on: per activity, something to happen when it is called, before it acts.
    """

    def __init__(self) -> None:
        self.health: Health | None = Health.UNHEALTHY
        self.version = 100
        self.lease = 1
        self.admitted = True
        self.users: tuple[User, ...] = ()
        self.verdicts = [Verdict.PASS]
        self.loads = [Verdict.PASS]
        self.answers = [Verdict.PASS]
        self.soaking: tuple[Health | None, Verdict | None] = (Health.HEALTHY, None)
        self.sent: list[Trial] = []
        self.refusals: Counter[Trial] = Counter()
        self.hardware = UUID
        self.fences: set[int] = set()
        self.superseded = False
        self.halt: Halt | None = None
        self.word: Disowning | None = None
        self.closed: c.CloseRecord | None = None
        self.statuses: list[c.WriteStatus] = []
        self.done: Counter[str] = Counter()
        self.on: dict[c.Activity, Callable[[], object]] = {}
        self.before_gone: Callable[[], Awaitable[None]] | None = None
        self.before_unlatched: Callable[[], Awaitable[None]] | None = None
        self._changed = asyncio.Event()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds; looked at after every activity."""
        async with asyncio.timeout(30):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    def says(self, health: Health | None) -> None:
        """Let the device's pod say something new."""
        self.health = health
        self.version += 1

    def _called(self, name: c.Activity) -> None:
        self.done[name] += 1
        asyncio.get_running_loop().call_soon(self._changed.set)
        if name in self.on:
            self.on[name]()
        if self.superseded:
            raise ApplicationError("record is another's", type=c.SUPERSEDED, non_retryable=True)

    @activity.defn(name=c.Activity.READ_DEVICE)
    async def read_device(self, step: c.ReadDevice) -> c.Reading:
        """Say what the pod says, and the canary while it soaks; the Lease moves with every reading."""
        self._called(c.Activity.READ_DEVICE)
        self.lease += 1
        says, ends = self.soaking if step.canary else (None, None)
        said = [] if self.health is None else [observation(self.health, resource_version=str(self.version))]
        said += [] if says is None else [observation(says, source=CANARY, resource_version=str(step.canary))]
        return reading(
            max((o.health for o in said), key=lambda health: health.severity, default=None),
            observations=tuple(said),
            canary=None if ends is None else c.ProbeVerdict(verdict=ends),
            lease_version=str(self.lease),
            admitted=self.admitted,
            hardware_id=self.hardware,
            disowned=self.word,
        )

    @activity.defn(name=c.Activity.WRITE_STATUS)
    async def write_status(self, status: c.WriteStatus) -> c.Written:
        """Keep what was said."""
        self._called(c.Activity.WRITE_STATUS)
        self.statuses.append(status)
        return c.Written(admitted=self.admitted)

    @activity.defn(name=c.Activity.FENCE_DEVICE)
    async def fence_device(self, fence: c.FenceDevice) -> c.Fenced:
        """Put the fence, or find that it was taken away."""
        self._called(c.Activity.FENCE_DEVICE)
        uid = f"rule-{fence.number}"
        if fence.last_uid == uid and fence.number not in self.fences:
            return c.Fenced(lost=True)
        self.fences.add(fence.number)
        return c.Fenced(uid=uid)

    @activity.defn(name=c.Activity.LIST_USERS)
    async def list_users(self, known: c.ListUsers) -> c.Users:
        """List the users."""
        self._called(c.Activity.LIST_USERS)
        return self._joined(known)

    @activity.defn(name=c.Activity.AWAIT_USERS)
    async def await_users(self, known: c.ListUsers) -> c.Users:
        """Wait for a change among the users."""
        self._called(c.Activity.AWAIT_USERS)
        now = self._joined(known)
        if now.users == known.users:
            raise ApplicationError(
                "no change",
                type=c.WAITING,
                category=ApplicationErrorCategory.BENIGN,
                next_retry_delay=timedelta(hours=6),
            )
        return now

    def _joined(self, known: c.ListUsers) -> c.Users:
        here = {u.uid: u for u in self.users}
        kept = [
            u.model_copy(update={"terminating": here[u.uid].terminating})
            if u.uid in here
            else u.model_copy(update={"state": UserState.REPLACED})
            for u in known.users
        ]
        new = [u for u in self.users if u.uid not in {k.uid for k in known.users}]
        return c.Users(users=(*kept, *new))

    @activity.defn(name=c.Activity.EVICT_USER)
    async def evict_user(self, eviction: c.EvictUser) -> c.Evicted:
        """Evict: the pod is gone at once."""
        self._called(c.Activity.EVICT_USER)
        self._hindered()
        self.users = tuple(u for u in self.users if u.uid != eviction.user.uid)
        return c.Evicted(uid=eviction.user.uid, outcome=c.EvictionOutcome.ACCEPTED)

    @activity.defn(name=c.Activity.START_PROBE)
    async def start_probe(self, step: c.StartProbe) -> c.ProbeStarted:
        """Start a probe or a canary, unless the cluster will not have it."""
        self._called(c.Activity.START_PROBE)
        self._hindered()
        if self.refusals[step.trial]:
            self.refusals[step.trial] -= 1
            return c.ProbeStarted(verdict=refused("Pod", "exceeded quota"))
        self.sent.append(step.trial)
        return c.ProbeStarted()

    @activity.defn(name=c.Activity.AWAIT_PROBE)
    async def await_probe(self, step: c.AwaitProbe) -> c.ProbeVerdict:
        """Give the next verdict."""
        self._called(c.Activity.AWAIT_PROBE)
        verdicts = self.verdicts if step.trial is Trial.PROBE else self.loads
        verdict = verdicts.pop(0) if len(verdicts) > 1 else verdicts[0]
        return c.ProbeVerdict(verdict=verdict)

    @activity.defn(name=c.Activity.STOP_PROBE)
    async def stop_probe(self, _: c.StopProbe) -> c.Done:
        """Stop it."""
        self._called(c.Activity.STOP_PROBE)
        return c.Done()

    @activity.defn(name=c.Activity.CHECK_BUSINESS)
    async def check_business(self, _: c.CheckBusiness) -> c.BusinessVerdict:
        """Give the next answer of Prometheus."""
        self._called(c.Activity.CHECK_BUSINESS)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return c.BusinessVerdict(verdict=answer, cause="Told", message="0.5, good is at least 1")

    @activity.defn(name=c.Activity.RAMP_FENCE)
    async def ramp_fence(self, step: c.RampFence) -> c.Fenced:
        """Let in who opted in, or find the fence gone."""
        self._called(c.Activity.RAMP_FENCE)
        return c.Fenced(uid=step.uid, lost=step.number not in self.fences)

    @activity.defn(name=c.Activity.UNLATCH_FENCE)
    async def unlatch_fence(self, _: c.FenceStep) -> c.Done:
        """Take the finalizer off."""
        self._called(c.Activity.UNLATCH_FENCE)
        self._hindered()
        if self.before_unlatched is not None:
            tell, self.before_unlatched = self.before_unlatched, None
            await tell()
        return c.Done()

    @activity.defn(name=c.Activity.DELETE_FENCE)
    async def delete_fence(self, step: c.FenceStep) -> c.Done:
        """Delete the fence."""
        self._called(c.Activity.DELETE_FENCE)
        self.fences.discard(step.number)
        return c.Done()

    @activity.defn(name=c.Activity.AWAIT_FENCE_GONE)
    async def await_fence_gone(self, _: c.FenceStep) -> c.Done:
        """See that it is gone."""
        self._called(c.Activity.AWAIT_FENCE_GONE)
        if self.before_gone is not None:
            tell, self.before_gone = self.before_gone, None
            await tell()
        return c.Done()

    @activity.defn(name=c.Activity.CLOSE_RECORD)
    async def close_record(self, closing: c.CloseRecord) -> c.Done:
        """Close."""
        self._called(c.Activity.CLOSE_RECORD)
        self.closed = closing
        return c.Done()

    @activity.defn(name=c.Activity.AWAIT_GO)
    async def await_go(self, _: c.AwaitGo) -> c.Done:
        """Wait until nothing keeps the incident back."""
        self._called(c.Activity.AWAIT_GO)
        if self.halt is not None:
            raise ApplicationError("held back", type=c.WAITING, next_retry_delay=timedelta(hours=6))
        return c.Done()

    def _hindered(self) -> None:
        if self.halt is not None:
            raise ApplicationError("held back", self.halt, type=c.HINDERED, non_retryable=True)

    @property
    def activities(self) -> list[Callable[..., Any]]:
        """Give all of them, for a worker."""
        return [getattr(self, name) for name in c.Activity]
