"""Single faults on a quiet lab: how long until the device is fenced, beside the bare loop in the same run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.actors import Mode, bare_loop, failed, processes, sickbay
from benchmarks.figures import Spread, Target
from benchmarks.machine import Meter, Usage
from benchmarks.stage import NAMESPACE, Seat, seated, stage
from benchmarks.timeline import Timeline
from benchmarks.witness import Witness, place
from k8s.lab.lab import Lab
from k8s.lab.nodes.fleet import NodeShape
from k8s.resources import PODS
from sickbay.model.policy import Policy
from sickbay.model.record import Phase

OURS: Final = "gpu.sickbay.dev"
BARES: Final = "bare.bench.example"
"""Drivers: each of the two programs has devices of its own, on nodes of their own."""

DEVICES: Final = 8
WARM: Final = 5
"""Faults of each before it counts: leadership, connections, caches, and what Python loads late."""

FENCED_WITHIN: Final = 30.0
REST_WITHIN: Final = 60.0

RATIO: Final = 2.0
"""The p50 may be so many times the bare loop's."""

POLICY: Final = Policy.model_validate(
    {
        "mode": "enforce",
        "match": {"drivers": [OURS]},
        "settle": "0s",
        "guard": {"share": 1.0, "ceiling": 2000, "perMinute": 100_000},
        "migration": {"enabled": False},
        "probe": {"first": "30d", "longest": "30d"},
    }
)
"""Every fault is admitted, and an incident whose pod is gone sleeps: two hundred of them leave the lab quiet."""


@dataclass(frozen=True)
class Comparison:
    """Sickbay beside the bare loop."""

    mode: Mode
    ours: Sequence[Timeline]
    bare: Sequence[Timeline]
    usage: Usage

    @property
    def ratio(self) -> float:
        """Ratio of the medians, from sent to fenced."""
        return Spread.of([t.from_sent for t in self.ours]).p50 / Spread.of([t.from_sent for t in self.bare]).p50

    @property
    def ratio_from_answered(self) -> float:
        """Ratio of the medians, from the answer to the status on: harder, for both share less."""
        ours, bare = ([t.from_answered for t in timelines] for timelines in (self.ours, self.bare))
        return Spread.of(ours).p50 / Spread.of(bare).p50

    @property
    def targets(self) -> list[Target]:
        """What is to hold."""
        return [Target(f"status to fence in {self.mode} mode: p50 over the bare loop's", self.ratio, RATIO)]


def parts(timelines: Sequence[Timeline]) -> Mapping[str, float]:
    """Give the median of each part, in seconds; medians do not add up exactly."""
    by_name: dict[str, list[float]] = {}
    for timeline in timelines:
        for name, seconds in timeline.parts().items():
            by_name.setdefault(name, []).append(seconds)
    return {name: median(values) for name, values in by_name.items()}


async def compare(mode: Mode, faults: int, logs: Path | None = None) -> Comparison:
    """Measure on a fresh lab.

    Args:
        mode: how Sickbay's processes are cut.
        faults: that count, of each program.
        logs: see `stage`.

    Raises:
        UnavailableError: a device was not fenced, or the lab did not come to rest.
    """
    async with stage(logs) as lab:
        count = faults + WARM
        for driver, prefix in ((OURS, "ours"), (BARES, "bare")):
            await lab.fleet.add(ceil(count / DEVICES), NodeShape(devices=DEVICES, driver=driver, prefix=prefix))
        ours = await seated(lab.gateway, OURS, "ours", count)
        bare = await seated(lab.gateway, BARES, "bare", count)
        async with bare_loop(lab, BARES) as bare_pid, sickbay(lab, mode, POLICY) as our_pids:
            witness = Witness(lab.audit_log)
            await _faults(lab, witness, ours[:WARM], bare[:WARM])
            meter = Meter(processes(lab, bare_pid, our_pids))
            await _faults(lab, witness, ours[WARM:], bare[WARM:])
            usage = meter.read()
        return Comparison(
            mode,
            [Timeline.of(seat, witness) for seat in ours[WARM:]],
            [Timeline.of(seat, witness) for seat in bare[WARM:]],
            usage,
        )


async def _faults(lab: Lab, witness: Witness, ours: Sequence[Seat], bare: Sequence[Seat]) -> None:
    """Break one device of each in turn, every other time in the other order."""
    for number, (our_seat, bare_seat) in enumerate(zip(ours, bare, strict=True)):
        if number % 2:
            await _fault(lab, witness, bare_seat)
        await _fault(lab, witness, our_seat)
        await _rest(lab, witness, our_seat)
        if not number % 2:
            await _fault(lab, witness, bare_seat)


async def _fault(lab: Lab, witness: Witness, seat: Seat) -> None:
    await lab.fleet.break_device(seat.device.pool, seat.device.device)
    if not await witness.until(lambda: place(seat.device) in witness.fences, within=FENCED_WITHIN):
        raise failed(lab, f"{seat.device} was not fenced within {FENCED_WITHIN:.0f} s")


async def _rest(lab: Lab, witness: Witness, seat: Seat) -> None:
    """Take the pod away, so that the incident has nothing to do but wait, and wait until it says so."""
    await lab.gateway.request("DELETE", PODS.path(NAMESPACE, seat.pod))
    if not await witness.until(lambda: witness.said(seat.device.record_name, Phase.RECOVERING), within=REST_WITHIN):
        raise failed(lab, f"the incident of {seat.device} did not come to rest within {REST_WITHIN:.0f} s")
