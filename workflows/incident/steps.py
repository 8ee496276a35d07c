"""From a step to its activity: queue, time-outs, retries, input, and what its result changes.

All activities are regular ones. A local activity that retries floods the history and holds up signals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from temporalio.common import Priority, RetryPolicy
from temporalio.workflow import ActivityHandle

from sickbay.model import contracts as c
from sickbay.model.base import Payload
from sickbay.model.incident import IncidentState, ProbeStage, Trial
from sickbay.model.observation import Seen
from sickbay.model.policy import Mode
from sickbay.model.record import Phase
from sickbay.policy import business, commanding, progress, proving
from sickbay.policy.keeping import standing_orders
from sickbay.policy.prove import lasts
from sickbay.policy.standing import expires_at
from sickbay.policy.steps import Step, Verb
from sickbay.policy.story import note

FIRST_READING: Final = Priority(priority_key=1)
"""An incident that has not read its device yet goes before those that are under way: in a burst nobody waits long for
the first word on whether a fence was right."""

SHORT: Final = timedelta(seconds=40)
"""Start-to-close of a short verb: up to eight requests of at most 4 s each, and a wait for a list that is shared. A
worker that is lost is noticed by its heartbeat long before."""

HEARTBEAT: Final = timedelta(seconds=6)
"""Three heartbeats: an activity whose worker was killed is given out again after this."""

BUDGET: Final = timedelta(minutes=10)
"""Schedule-to-close: an API server that is away for longer is a reason to tell a person, and then to try again."""

EFFECT_RETRIES: Final = RetryPolicy(
    initial_interval=timedelta(milliseconds=200), backoff_coefficient=2.0, maximum_interval=timedelta(seconds=30)
)
WAIT_RETRIES: Final = RetryPolicy(
    initial_interval=timedelta(seconds=1), backoff_coefficient=1.5, maximum_interval=timedelta(minutes=1)
)
"""A wait polls by being retried: that holds no slot and writes no history."""

Fold = Callable[[IncidentState, Any, datetime], IncidentState]


@dataclass(frozen=True)
class Call:
    """How one verb is carried out.

    Attributes:
        build: state and step to the activity's input.
        result: type of the activity's output.
        fold: state, output and now to the state after.
    """

    activity: c.Activity
    build: Callable[[IncidentState, Step], Payload]
    result: type[Payload]
    fold: Fold
    queue: c.Queue = c.Queue.EFFECTS
    start_to_close: timedelta = SHORT
    schedule_to_close: timedelta = BUDGET
    retries: RetryPolicy = field(default_factory=lambda: EFFECT_RETRIES)


@dataclass
class Waiting:
    """An activity of the queue ``waits`` that is under way; it is kept as long as its input stays the same."""

    verb: Verb
    input: Payload
    handle: ActivityHandle[Any]


def priority(state: IncidentState) -> Priority:
    """Say how urgent the incident's next activity is."""
    return FIRST_READING if state.read_at is None else Priority.default


def seen(state: IncidentState) -> tuple[Seen, ...]:
    """How far the last live reading had seen each source."""
    return tuple(
        Seen(uid=o.source.uid, resource_version=o.resource_version, digest=o.digest) for o in state.observations
    )


def _read(state: IncidentState, _: Step) -> c.ReadDevice:
    return c.ReadDevice(
        target=state.target,
        node=state.node,
        sources=tuple(o.source for o in state.observations),
        attribute=state.policy.probe.identity_attribute(state.target.device.driver),
        canary=state.probe_number if state.probe is ProbeStage.SOAKING else 0,
        hardware_id=state.hardware_id,
    )


def _write(state: IncidentState, _: Step) -> c.WriteStatus:
    return c.WriteStatus(
        target=state.target,
        phase=state.phase,
        verified=state.verified,
        fence_number=state.fence_number,
        fence_uid=state.fence_uid,
        probe_number=state.probe_number,
        trial=None if state.probe is ProbeStage.NONE else state.trial,
        release_number=state.release_number,
        wants_admission=state.phase is Phase.HELD,
        ask=state.ask,
        hardware_id=state.hardware_id,
        orders=standing_orders(state.orders),
        expires_at=expires_at(state),
    )


def _written(state: IncidentState, written: c.Written, now: datetime) -> IncidentState:
    state = state.model_copy(update={"unsaid": False})
    if written.admitted:
        return progress.admitted(state, written.admission_numbers, now)
    return state.model_copy(update={"admission_numbers": written.admission_numbers or state.admission_numbers})


def _fence(state: IncidentState, _: Step) -> c.FenceDevice:
    return c.FenceDevice(
        target=state.target,
        number=state.fence_number,
        shadow=state.policy.mode is Mode.SHADOW,
        last_uid=state.fence_uid,
        tried=state.probe_number,
    )


def _users(state: IncidentState, _: Step) -> c.ListUsers:
    return c.ListUsers(target=state.target, users=state.users)


def _evict(state: IncidentState, step: Step) -> c.EvictUser:
    if step.user is None:
        raise ValueError("an eviction names its user")
    return c.EvictUser(target=state.target, user=step.user, node=state.node, limits=state.policy.migration)


def _start_probe(state: IncidentState, _: Step) -> c.StartProbe:
    policy, canary = state.policy, state.trial is Trial.CANARY
    # The deadline of a canary is kubelet's, should nobody be left to remove it.
    lasting = lasts(policy, state.trial) + (policy.soak.deadline + policy.canary.timeout if canary else timedelta(0))
    return c.StartProbe(
        target=state.target,
        trial=state.trial,
        number=state.probe_number,
        hardware_id=state.hardware_id,
        node=state.node,
        image=policy.canary.image if canary else policy.probe.image,
        lasts=lasting,
        settings=policy.probe,
    )


def _await_probe(state: IncidentState, _: Step) -> c.AwaitProbe:
    return c.AwaitProbe(
        target=state.target, trial=state.trial, number=state.probe_number, hardware_id=state.hardware_id
    )


def _stop_probe(state: IncidentState, _: Step) -> c.StopProbe:
    return c.StopProbe(
        target=state.target,
        number=state.probe_number,
        trial=state.trial,
        verdict=state.verdict,
        cause=state.verdict_cause,
        message=state.verdict_note,
        settings=state.policy.probe,
    )


def _check_business(state: IncidentState, _: Step) -> c.CheckBusiness:
    return c.CheckBusiness(
        target=state.target, node=state.node, hardware_id=state.hardware_id, settings=state.policy.business
    )


def _ramp(state: IncidentState, _: Step) -> c.RampFence:
    return c.RampFence(
        target=state.target,
        number=state.fence_number,
        uid=state.fence_uid,
        canary=state.probe_number,
        node=state.node,
    )


def _fence_step(state: IncidentState, _: Step) -> c.FenceStep:
    return c.FenceStep(
        target=state.target,
        number=state.fence_number,
        uid=state.fence_uid,
        release=state.release_number,
        node=state.node,
    )


def _go(state: IncidentState, _: Step) -> c.AwaitGo:
    return c.AwaitGo(target=state.target, node=state.node)


def _close(state: IncidentState, step: Step) -> c.CloseRecord:
    disowned = state.orders.disowned if step.phase is Phase.DISOWNED else None
    return c.CloseRecord(
        target=state.target,
        outcome=step.phase,
        reason=state.reason,
        opened_at=state.first_bad_at,
        seen=seen(state),
        lease_version=state.lease_version,
        # A device that was given up was tried by nobody: whoever has spoken of it and is gone is overruled.
        pods_version="" if disowned else state.probed_version,
        hardware_id=state.hardware_id,
        disowned=disowned,
    )


def _closed(state: IncidentState, _: c.Done, now: datetime) -> IncidentState:
    return note(state.model_copy(update={"closed": True, "phase": state.outcome}), "closed", now)


def _staged(verb: Verb) -> Fold:
    return lambda state, _, __: proving.after_release_step(state, verb)


def _polled(
    activity: c.Activity, build: Callable[[IncidentState, Step], Payload], result: type[Payload], fold: Fold
) -> Call:
    """Describe a call of the queue ``waits``."""
    return Call(activity, build, result, fold, c.Queue.WAITS, schedule_to_close=timedelta(days=2), retries=WAIT_RETRIES)


CALLS: Final[dict[Verb, Call]] = {
    Verb.READ: Call(c.Activity.READ_DEVICE, _read, c.Reading, progress.after_read),
    Verb.WRITE: Call(c.Activity.WRITE_STATUS, _write, c.Written, _written),
    Verb.FENCE: Call(c.Activity.FENCE_DEVICE, _fence, c.Fenced, progress.after_fenced),
    Verb.LIST_USERS: Call(c.Activity.LIST_USERS, _users, c.Users, progress.after_users),
    Verb.EVICT: Call(c.Activity.EVICT_USER, _evict, c.Evicted, progress.after_evicted),
    Verb.START_PROBE: Call(
        c.Activity.START_PROBE,
        _start_probe,
        c.ProbeStarted,
        proving.after_probe_started,
    ),
    Verb.STOP_PROBE: _polled(
        c.Activity.STOP_PROBE, _stop_probe, c.Done, lambda s, _, now: proving.after_probe_stopped(s, now)
    ),
    Verb.CHECK_BUSINESS: Call(c.Activity.CHECK_BUSINESS, _check_business, c.BusinessVerdict, business.after_business),
    Verb.RAMP: Call(c.Activity.RAMP_FENCE, _ramp, c.Fenced, proving.after_ramped),
    Verb.UNLATCH: Call(c.Activity.UNLATCH_FENCE, _fence_step, c.Done, _staged(Verb.UNLATCH)),
    Verb.DELETE_FENCE: Call(c.Activity.DELETE_FENCE, _fence_step, c.Done, _staged(Verb.DELETE_FENCE)),
    Verb.CLOSE: Call(c.Activity.CLOSE_RECORD, _close, c.Done, _closed),
    Verb.AWAIT_USERS: _polled(c.Activity.AWAIT_USERS, _users, c.Users, progress.after_users),
    Verb.AWAIT_PROBE: _polled(c.Activity.AWAIT_PROBE, _await_probe, c.ProbeVerdict, proving.after_verdict),
    Verb.AWAIT_GO: _polled(c.Activity.AWAIT_GO, _go, c.Done, lambda s, _, now: commanding.after_go(s, now)),
    Verb.AWAIT_FENCE_GONE: _polled(c.Activity.AWAIT_FENCE_GONE, _fence_step, c.Done, _staged(Verb.AWAIT_FENCE_GONE)),
}
"""Every verb that is an activity."""
