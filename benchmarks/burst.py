"""A burst: a thousand devices turn bad at once, the guard lets all of them, and nobody is evicted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from benchmarks.actors import Mode, failed, processes, sickbay
from benchmarks.figures import Target
from benchmarks.machine import Meter, Usage
from benchmarks.stage import Seat, seated, stage
from benchmarks.witness import Request, Witness, place
from k8s.lab.lab import Lab
from k8s.lab.nodes.fleet import DRIVER, NodeShape
from k8s.lab.temporal import NAMESPACE as TEMPORAL_NAMESPACE
from k8s.records import Records
from sickbay import errors
from sickbay.model.policy import Policy

DEVICES: Final = 8
WITHIN: Final = 180.0
"""Seconds for the fences, and then for the incidents; what has not happened by then is told as missing."""

LOOK: Final = 0.25
"""Seconds between two looks into the log, which cost time on the machine that is measured."""

READS: Final = 16
"""Histories read at once, when the burst is over."""

FENCES: Final = 1.5
"""The last fence may come after so many times what writing the statuses took."""

FIRST_ACTIVITY: Final = 40.0
"""Seconds from the first status until every incident is past its first activity."""

POLICY: Final = Policy.model_validate(
    {
        "mode": "enforce",
        "guard": {"share": 1.0, "ceiling": 2000, "perMinute": 100_000},
        "migration": {"enabled": False},
    }
)


@dataclass(frozen=True)
class Burst:
    """What a burst took. Times are seconds after the API server received the first status.

    Attributes:
        devices: that turned bad.
        nodes: that hold them, and as many again that did not.
        statuses: when the last status was written.
        records: when the last record was, None if not all were; so for all that follow.
        fences: when the last fence stood.
        first_activities: when the last incident's first activity had completed, by its history in Temporal.
        words: when the last incident had written its record's status for the first time: its second activity.
        fenced: how many devices were.
        begun: how many incidents were past their first activity.
        until_fenced: who used the machine until all were fenced, `LOOK` more or less.
        usage: and until all had written their first word.
    """

    mode: Mode
    devices: int
    nodes: int
    statuses: float
    records: float | None
    fences: float | None
    first_activities: float | None
    words: float | None
    fenced: int
    begun: int
    until_fenced: Usage
    usage: Usage

    @property
    def targets(self) -> list[Target]:
        """What is to hold."""
        ratio = None if self.fences is None else self.fences / self.statuses
        return [
            Target("burst: last fence over last status", ratio, FENCES),
            Target("burst: all incidents past their first activity", self.first_activities, FIRST_ACTIVITY, unit="s"),
        ]


async def burst(mode: Mode, devices: int, nodes: int, logs: Path | None = None) -> Burst:
    """Measure on a fresh lab.

    Args:
        mode: how Sickbay's processes are cut.
        devices: that turn bad at once.
        nodes: of eight devices each, more than `devices` in all: one is broken before, to see that somebody leads.
        logs: see `stage`.

    Raises:
        UsageError: the nodes have too few devices.
        UnavailableError: Sickbay did not begin to work.
    """
    if nodes * DEVICES <= devices:
        raise errors.UsageError(f"--nodes: {nodes} nodes of {DEVICES} devices have no {devices} + 1; use more")
    async with stage(logs) as lab:
        await lab.fleet.add(nodes, NodeShape(devices=DEVICES))
        first, *seats = await seated(lab.gateway, DRIVER, "job", devices + 1)
        async with sickbay(lab, mode, POLICY) as pids:
            await _warm(lab, first)
            witness = Witness(lab.audit_log)
            meter = Meter(processes(lab, pids))
            await asyncio.gather(*(lab.fleet.break_device(s.device.pool, s.device.device) for s in seats))
            await witness.until(lambda: _fenced(witness, seats), within=WITHIN, pause=LOOK)
            until_fenced = meter.read()
            await witness.until(lambda: _begun(witness, seats), within=WITHIN, pause=LOOK)
            usage = meter.read()
        completed = await _first_activities(lab, seats)
    return _told(mode, nodes, seats, witness, completed, until_fenced, usage)


async def _warm(lab: Lab, seat: Seat) -> None:
    """Break one device, and wait until its incident has spoken."""
    witness = Witness(lab.audit_log)
    await lab.fleet.break_device(seat.device.pool, seat.device.device)
    if not await witness.until(lambda: seat.device.record_name in witness.words, within=60):
        raise failed(lab, f"the incident of {seat.device} did not begin within 60 s")


def _fenced(witness: Witness, seats: Sequence[Seat]) -> bool:
    return all(place(seat.device) in witness.fences for seat in seats)


def _begun(witness: Witness, seats: Sequence[Seat]) -> bool:
    return all(seat.device.record_name in witness.words for seat in seats)


async def _first_activities(lab: Lab, seats: Sequence[Seat]) -> list[float]:
    """Read from the histories when each incident's first activity completed, in seconds since the epoch."""
    ours = {seat.device.record_name for seat in seats}
    records = (await Records(lab.gateway).list()).records
    client = await Client.connect(lab.temporal.address, namespace=TEMPORAL_NAMESPACE)
    room = asyncio.Semaphore(READS)

    async def first(incident: str) -> float | None:
        async with room:
            async for event in client.get_workflow_handle(incident).fetch_history_events():
                if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
                    return event.event_time.ToMicroseconds() / 1e6
        return None

    times = await asyncio.gather(*(first(record.spec.incident) for record in records if record.name in ours))
    return [time for time in times if time is not None]


def _told(
    mode: Mode,
    nodes: int,
    seats: Sequence[Seat],
    witness: Witness,
    completed: Sequence[float],
    until_fenced: Usage,
    usage: Usage,
) -> Burst:
    statuses = [witness.statuses[seat.namespace, seat.pod] for seat in seats]
    zero = min(request.received for request in statuses)

    def last(requests: Sequence[Request]) -> float | None:
        return max(r.answered for r in requests) - zero if len(requests) == len(seats) else None

    fences = [witness.fences[place(s.device)] for s in seats if place(s.device) in witness.fences]
    records = [witness.records[place(s.device)] for s in seats if place(s.device) in witness.records]
    names = [seat.device.record_name for seat in seats]
    words = [witness.words[name][0][1] for name in names if name in witness.words]
    return Burst(
        mode=mode,
        devices=len(seats),
        nodes=nodes,
        statuses=max(request.answered for request in statuses) - zero,
        records=last(records),
        fences=last(fences),
        first_activities=max(completed) - zero if len(completed) == len(seats) else None,
        words=last(words),
        fenced=len(fences),
        begun=len(completed),
        until_fenced=until_fenced,
        usage=usage,
    )
