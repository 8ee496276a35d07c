"""What the leader does about each device during its term: record first, then the fence, then the incident.

One device is worked on once at a time; many devices at once. Between hearing of a bad device and its fence nothing is
awaited but one live look at the pause switch, the write of the record and the write of the fence. Whether a device may
be fenced is decided without awaiting anything, so that the guard never promises one place twice.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import structlog

from sickbay.model.base import tamed
from sickbay.model.contracts import Admitted, Observed
from sickbay.model.device import DeviceKey
from sickbay.model.observation import Health
from sickbay.model.policy import Policy
from sickbay.model.record import RAMP_STEP, Admission, AdmissionState, Disowning, Phase, Record
from sickbay.policy.detect import Action, Decision, decide
from sickbay.policy.evidence import Track
from sickbay.policy.guard import Candidate, Ruling
from sickbay.policy.opening import Standing, admission_of, admitted_now, opened, raised, target_of
from sickbay.telemetry import tracing
from sickbay.telemetry.metrics import Metrics
from sickbay.watch.caretaker import Caretaker
from sickbay.watch.directory import Directory
from sickbay.watch.office import Office
from sickbay.watch.orphans import Orphans
from sickbay.watch.retired import Retired
from sickbay.watch.signals import Signals
from sickbay.watch.waiting import WaitingRoom
from sickbay.watch.writer import Writer

log = structlog.get_logger(__name__)

AT_ONCE: Final = timedelta(0)
"""Somebody else wrote: decide again on what they wrote."""

WHILE_PAUSED: Final = timedelta(seconds=5)
"""Between two looks at a device while the installation is paused."""

RETIRED: Final = timedelta(minutes=1)
"""Between two looks whether other hardware is in the slot of a retired device."""

IN_DOUBT: Final = timedelta(seconds=5)
"""Between two looks at a suspect while most of the fleet is in doubt."""


BY_ORPHAN: Final = "orphan"
"""Who admits an incident whose device is fenced already."""

BY_SWAP: Final = "swap"
"""Who admits the incident of other hardware in the slot of a retired device."""


class Leader:
    """Decides about devices, one call of `process` at a time for each."""

    def __init__(
        self,
        directory: Directory,
        writer: Writer,
        room: WaitingRoom,
        orphans: Orphans,
        retired: Retired,
        caretaker: Caretaker,
        signals: Signals,
        office: Office,
        policy: Policy,
        metrics: Metrics,
        now: Callable[[], datetime],
    ) -> None:
        self._directory = directory
        self._books = directory.books
        self._writer = writer
        self._room = room
        self._orphans = orphans
        self._retired = retired
        self._caretaker = caretaker
        self._signals = signals
        self._office = office
        self._policy = policy
        self._metrics = metrics
        self._now = now
        self._told: dict[DeviceKey, object] = {}  # what its incident was told last
        self._lost: dict[DeviceKey, str] = {}  # uid of the fence of whose loss its incident was told
        self._given_up: dict[DeviceKey, Disowning] = {}  # of which its incident was told
        self._cared_for: dict[DeviceKey, str] = {}  # its incident, once the caretaker knows it

    async def process(self, device: DeviceKey) -> timedelta | None:
        """Do what is to be done about a device now; say when to look again, if by itself.

        Raises:
            SickbayError: it could not be done; try again.
        """
        if not self._office.leads or self._books.unreadable(device):
            return None
        if self._room.promise(device) is not None:
            await self._writer.reread(device)  # an earlier write may have happened without our hearing of it
        record = self._books.record(device)
        if record is not None and not record.closed:
            return await self._keep(device, record)
        self._room.withdraw(device)
        if record is not None:
            self._signals.forget(record.spec.incident)
            self._told.pop(device, None)
            self._lost.pop(device, None)
            self._given_up.pop(device, None)
            self._cared_for.pop(device, None)
        return await self._consider(device, record)

    # A device without an open incident.

    async def _consider(self, device: DeviceKey, before: Record | None) -> timedelta | None:
        """Open an incident if there is reason to."""
        swapped = None
        if before is None or not before.retired:
            self._retired.forget(device)
        elif self._retired.replaced(before):
            swapped = before
        else:
            return RETIRED
        decision, admission = self._decide(device, before), None
        orphan = await self._orphans.look(device, hurry=decision.action is Action.OPEN, swapped=swapped)
        if isinstance(orphan, Decision):
            # What stands already takes no new place; what is said of the device, if it is as bad, says more.
            by = BY_ORPHAN if swapped is None else BY_SWAP
            admission = admission_of(AdmissionState.ADMITTED, by, "its fence stood already", self._now())
            decision = decision if decision.severity is Health.UNHEALTHY else orphan
        elif decision.action is not Action.OPEN:
            return orphan
        if decision.severity is not Health.UNHEALTHY and self._directory.in_doubt:
            return IN_DOUBT
        if not await self._office.may_act():
            return WHILE_PAUSED
        if self._books.record(device) is not before:
            return AT_ONCE
        return await self._open(device, decision, before, admission)

    async def _open(
        self, device: DeviceKey, decision: Decision, before: Record | None, admission: Admission | None
    ) -> timedelta | None:
        """Create the record or take over a closed one, fence, have the workflow started."""
        track = self._directory.track(device)
        admission = admission or self._admission(decision, track)
        fences = self._books.fences(device)
        spec = opened(
            decision,
            admission,
            self._standing(decision, track),
            before,
            first_fence=1 + max((f.number for f in fences.values()), default=0),
        )
        with tracing.part("record", spec.incident, reason=spec.reason, admission=admission.state) as part:
            record = await self._writer.open(device, before, spec, part)
        if record is None:
            self._room.withdraw(device)
            return AT_ONCE
        self._room.keep(device)
        self._metrics.opened(spec.reason)
        self._told[device] = (spec.incident, track.outline(self._policy))
        self._cared_for[device] = spec.incident
        log.info("incident_opened", incident=spec.incident, why=decision.message, admission=admission.state)
        try:
            if record.admitted:
                await self._writer.fence(record)
        finally:
            self._caretaker.opened(device)  # the incident fences too
        return None

    # A device with an open incident.

    async def _keep(self, device: DeviceKey, record: Record) -> timedelta | None:
        if record.admitted:
            self._room.keep(device)
        if self._cared_for.get(device) != record.spec.incident:
            self._cared_for[device] = record.spec.incident
            self._caretaker.look(device)
            if record.status.incident != record.spec.incident:
                tracing.begin_story(record)  # whoever wrote it may not have come to tell so
        if record.disowned is not None:
            return await self._give_up(device, record, record.disowned)
        decision = self._decide(device, record)
        if decision.action is Action.RAISE:
            return await self._raise(device, record, decision)
        ruling = self._room.ruling(record)
        if ruling is not None:
            return await self._admit(device, record, ruling)
        if self._never_fenced(record):
            return await self._fence_late(device)
        if self._fence_lost(record):
            await self._tell_lost(device, record)
        else:
            self._lost.pop(device, None)  # put back in place, it can be changed again
        self._tell(device, record, decision)
        return None

    async def _raise(self, device: DeviceKey, record: Record, decision: Decision) -> timedelta | None:
        """Write that a Suspect is Unhealthy: the same incident goes on, admitted or held."""
        if not await self._office.may_act():
            return WHILE_PAUSED
        track = self._directory.track(device)
        admission = record.spec.admission
        if not record.admitted:
            admission = self._admission(decision, track, record)
        with tracing.part("raise", record.spec.incident, why=decision.message, admission=admission.state):
            written = await self._writer.write(
                device, record, raised(decision, admission, self._standing(decision, track), record)
            )
        if written is None:
            self._room.withdraw(device)
            return AT_ONCE
        self._room.keep(device)
        log.info("suspect_raised", incident=record.spec.incident, why=decision.message, admission=admission.state)
        if written.admitted:
            await self._after_admission(written)
        else:
            self._tell(device, written, decision, known=record.spec.severity)
        return None

    async def _admit(self, device: DeviceKey, record: Record, ruling: Ruling) -> timedelta | None:
        """Write the guard's word on an incident that waited for it."""
        if not await self._office.may_act():
            return WHILE_PAUSED  # the promise stands
        admission = admission_of(ruling.state, ruling.by, ruling.numbers, self._now())
        with tracing.part("admit", record.spec.incident, admission=ruling.state, numbers=ruling.numbers):
            written = await self._writer.write(device, record, admitted_now(record, admission, self._office.term))
        if written is None:
            self._room.withdraw(device)
            return AT_ONCE
        self._room.keep(device)
        if written.admitted:
            log.info("incident_admitted", incident=record.spec.incident, by=ruling.by, numbers=ruling.numbers)
            await self._after_admission(written, waited=True)
        return None

    async def _after_admission(self, record: Record, *, waited: bool = False) -> None:
        if self._never_fenced(record):
            await self._writer.fence(record, waited=waited)
        spec = record.spec
        word = Admitted(by=spec.admission.by, numbers=spec.admission.numbers, severity=spec.severity)
        self._signals.admit(spec.incident, word)

    async def _fence_late(self, device: DeviceKey) -> timedelta | None:
        """Fence what was admitted and never fenced: whoever wrote the record did not get further."""
        if not await self._office.may_act():
            return WHILE_PAUSED
        live = await self._writer.reread(device)
        if live is not None and not live.closed and self._never_fenced(live):
            await self._writer.fence(live, waited=True)
        return None

    def _never_fenced(self, record: Record) -> bool:
        """Whether an admitted incident has not come to its first fence; later ones are its own to put."""
        spec, status = record.spec, record.status
        return (
            record.admitted
            and status.counters.fence < spec.first_fence
            and status.phase is not Phase.RELEASING
            and spec.key.numbered(spec.first_fence) not in self._books.fences(spec.key)
            and spec.policy_hash in {"", self._policy.digest}
        )

    def _fence_lost(self, record: Record) -> bool:
        """Whether the fence that the incident knows is gone, going, or not what it was, as far as our books say."""
        spec, status = record.spec, record.status
        known = status.fence
        if status.incident != spec.incident or not known.uid or status.phase is Phase.RELEASING:
            return False
        if known.name != spec.key.numbered(status.counters.fence):
            return False  # the next one is already on its way
        fence = self._books.fences(spec.key).get(known.name)
        if fence is None or fence.uid != known.uid or fence.terminating:
            return True
        # One that lets in who has opted in does so by the incident's own effect, or a hand changed it.
        own = target_of(record).took(RAMP_STEP, fence.effect_key)
        return not any(fence.matches(spec.key, spec.incident, shadow=shadow, ramping=own) for shadow in (False, True))

    async def _tell_lost(self, device: DeviceKey, record: Record) -> None:
        """Find out live whether the fence is lost, for a release deletes fences too and two watches race; tell once."""
        if self._lost.get(device) == record.status.fence.uid:
            return
        await self._writer.reread_fences(device)
        live = await self._writer.reread(device)
        if live is None or live.closed or not self._fence_lost(live):
            return
        spec = live.spec
        log.warning("fence_lost", incident=spec.incident, fence=live.status.fence.name)
        self._lost[device] = live.status.fence.uid
        message = f"fence {live.status.fence.name} was taken away"
        word = Observed(health=spec.severity, reason=spec.reason, message=message, fence_lost=True, at=self._now())
        self._signals.tell(spec.incident, word, known=spec.severity)

    async def _give_up(self, device: DeviceKey, record: Record, word: Disowning) -> timedelta | None:
        """Have the incident read that a person gives the device up; nothing else is decided about it any more."""
        spec = record.spec
        if self._given_up.get(device) != word:
            self._given_up[device] = word
            log.warning("device_given_up", incident=spec.incident, by=word.by, why=tamed(word.reason))
            message = f"given up by {word.by}"
            told = Observed(health=spec.severity, reason=spec.reason, message=message, disowned=True, at=self._now())
            self._signals.tell(spec.incident, told, known=spec.severity)
        if self._fence_lost(record):
            await self._tell_lost(device, record)
        return None

    def _tell(self, device: DeviceKey, record: Record, decision: Decision, known: Health | None = None) -> None:
        """Tell an open incident what changed; repetitions are none."""
        finding = decision.finding
        word = (record.spec.incident, self._directory.track(device).outline(self._policy))
        if finding is None or self._told.get(device) == word:
            return
        if record.paused:
            return  # it reads for itself when it goes on; a device that flaps must not fill its history till then
        self._told[device] = word
        observed = Observed(health=finding.health, reason=finding.reason, message=finding.message, at=self._now())
        self._signals.tell(record.spec.incident, observed, known=known or record.spec.severity)

    # Both.

    def _decide(self, device: DeviceKey, record: Record | None) -> Decision:
        return decide(self._directory.track(device), record, self._policy, trusted=self._directory.trusted)

    def _admission(
        self,
        decision: Decision,
        track: Track,
        record: Record | None = None,
    ) -> Admission:
        """Ask the guard, at once; a Suspect is not asked for."""
        if decision.severity is not Health.UNHEALTHY:
            return Admission()
        since = (record.spec.first_bad_at if record else track.first_bad_at) or self._now()
        policy_hash = record.spec.policy_hash if record else ""
        ruling = self._room.ask(Candidate(track.device, decision.severity, since, policy_hash=policy_hash))
        return admission_of(ruling.state, ruling.by, ruling.numbers, self._now())

    def _standing(self, decision: Decision, track: Track) -> Standing:
        device = track.device
        node = decision.finding.node if decision.finding else ""
        attribute = self._policy.probe.identity_attribute(device.driver)
        return Standing(
            term=self._office.term,
            namespace_id=self._office.namespace_id,
            actor=self._office.actor,
            policy=self._policy,
            first_bad_at=track.first_bad_at or self._now(),
            hardware_id=self._directory.pools.hardware_id(device, attribute),
            node=node,
            lease_version=self._directory.lease_version(node),
        )
