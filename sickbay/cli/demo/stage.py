"""The demo, from curtain to curtain: start a lab, install, let a device fail, watch, sum up."""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack
from typing import Final
from urllib.parse import quote

from k8s.install import install
from k8s.lab.audit import AuditLog
from k8s.lab.lab import Lab
from k8s.lab.nodes.fleet import NodeShape
from k8s.lab.sickbay_process import SickbayProcess
from k8s.lab.temporal import NAMESPACE as TEMPORAL_NAMESPACE
from k8s.lab.temporal import TemporalOptions
from k8s.lab.temporal_postgres import PostgresOptions
from k8s.records import Records
from sickbay import errors
from sickbay.cli.demo import ending, job, scene, witness
from sickbay.cli.demo.job import CLUSTER, LOOK, Seat
from sickbay.cli.demo.view import View
from sickbay.model.device import DeviceKey
from sickbay.model.record import Phase, Record
from sickbay.telemetry import logging
from sickbay.temporal import Temporal

NODES: Final = 2
DEVICES: Final = 4

WITHIN: Final = 120.0
"""Seconds from the fault to the release after which the demo has failed."""

_LOOKS_AGAIN: Final = re.compile(r" \(looks again by \S+ (\S+)\)$")
"""How an incident ends its headline, with date and time."""

_TIMED: Final = frozenset({Phase.SOAKING, Phase.RAMPING})
"""Phases whose headline names the time at which they are over: a second one beside it only puzzles."""


async def play(*, keep: bool, verbose: bool, postgres: bool = False) -> bool:
    """Play the demo and say whether every step happened.

    Args:
        keep: at the end leave everything running until interrupted.
        verbose: sum up with every request.
        postgres: with the real Temporal server on PostgreSQL.
    """
    logging.configure(logging.Level.WARNING, logging.Format.CONSOLE)
    view = View(title="One incident, from fault to release")
    async with AsyncExitStack() as stack:
        view.say("lab", "starts a real Kubernetes control plane and a real Temporal server ...")
        lab = await stack.enter_async_context(Lab.start(temporal=PostgresOptions() if postgres else TemporalOptions()))
        view.say("lab", f"Kubernetes 1.37.2 and Temporal are ready; Temporal UI: {lab.temporal.ui_url}")
        temporal = Temporal(lab.temporal.address, namespace=TEMPORAL_NAMESPACE)
        await install(lab.gateway, cluster=CLUSTER, namespace_id=await temporal.namespace_id())
        await temporal.register_attributes()
        await lab.fleet.add(NODES, NodeShape(devices=DEVICES))
        view.say("lab", f"Sickbay is installed; {NODES} nodes with {DEVICES} devices each are up")
        sickbay = await SickbayProcess.start(lab, policy=scene.POLICY)
        stack.push_async_callback(sickbay.process.stop)
        await sickbay.acts()
        view.say("sickbay", f"leads, under its own account and with its own rights only; log: {sickbay.process.log}")
        seat = await job.start(lab)
        view.say("job", f"pod {seat.pod} runs on {seat.key.device} of {seat.key.pool}")
        since_fault = AuditLog(lab.audit_log, from_end=True)
        with view:
            view.zero()
            message = "Xid 79: GPU has fallen off the bus"
            await lab.fleet.break_device(seat.key.pool, seat.key.device, message=message)
            view.say("device", f"{seat.key.device} of {seat.key.pool} reports Unhealthy: {message}")
            record = await _watch(lab, temporal, view, seat)
        ok = await _sum_up(lab, view, seat, record, since_fault, verbose=verbose)
        link = "none was opened" if record is None else _link(lab, record)
        if not keep:
            ending.hint(view.console, link)
            return ok
        ending.invite(view.console, lab, sickbay, link)
        await ending.interrupted()
        return ok


async def _watch(lab: Lab, temporal: Temporal, view: View, seat: Seat) -> Record | None:
    """Look on until the record is closed; play the part of the repair, and of a job that waits for the device.

    Returns:
        The record as last seen, None if there was none in time.
    """
    records, audit = Records(lab.gateway), AuditLog(lab.audit_log)
    record: Record | None = None
    repairs = 0
    invited = linked = False
    try:
        async with asyncio.timeout(WITHIN):
            while True:
                _tell_acts(view, audit)
                record = await _record(records, seat.key) or record
                if record is not None:
                    if not linked:
                        linked = True
                        view.say("sickbay", f"incident in the Temporal UI: {_link(lab, record)}")
                    view.phase(*await _standing(temporal, record))
                    if not invited and record.status.phase is not None:
                        invited = True
                        await job.create(lab.gateway, scene.latecomer(seat.uuid))
                        view.say("job", f"pod {scene.WAITING} asks for exactly this device, and has to wait")
                    tried, resting = record.status.counters.probe, record.status.phase is Phase.RECOVERING
                    if resting and repairs == 0:
                        repairs = 1
                        await lab.fleet.heal(seat.key.pool, seat.key.device)
                        await lab.fleet.break_under_load(seat.key.pool, seat.key.device)
                        view.say("device", "somebody resets it: now it is well, as long as nobody uses it")
                    if resting and repairs == 1 and tried > 1:
                        repairs = 2
                        await lab.fleet.heal(seat.key.pool, seat.key.device)
                        view.say("device", "a technician repairs it: the next canary will find it well")
                    if record.closed:
                        _tell_acts(view, audit)
                        return record
                await asyncio.sleep(LOOK)
    except TimeoutError:
        view.say("sickbay", f"did not release the device within {WITHIN:.0f} s")
        return record


def _tell_acts(view: View, audit: AuditLog) -> None:
    for entry in audit.read():
        if witness.worth_telling(entry):
            act = witness.Act.of(entry)
            view.say("api", f"{entry.code} {act.verb} {act.what}")


async def _record(records: Records, key: DeviceKey) -> Record | None:
    try:
        return await records.get(key.record_name)
    except errors.NotFound:
        return None


async def _standing(temporal: Temporal, record: Record) -> tuple[str, str]:
    """Read the incident's own headline: what an operator sees first in the Temporal UI."""
    if record.admitted and record.status.phase is None:  # it is fenced, whatever its incident has come to say
        return str(Phase.QUARANTINED), "begins"
    return standing(await temporal.headline(record.spec.incident), record.status.phase or Phase.SUSPECT)


def standing(headline: str, otherwise: Phase) -> tuple[str, str]:
    """Split a headline into phase and why.

    The time by which the incident looks again is told without its date; mostly it goes on before, by itself.

    Args:
        headline: of an incident, ``""`` if it gives none now.
        otherwise: the phase if there is no headline.
    """
    phase, _, why = headline.partition(": ")
    phase = phase or str(otherwise)
    return phase, _LOOKS_AGAIN.sub("" if phase in _TIMED else r" (looks again by \1)", why) or "begins"


def _link(lab: Lab, record: Record) -> str:
    incident = quote(record.spec.incident, safe="")
    return f"{lab.temporal.ui_url}/namespaces/{TEMPORAL_NAMESPACE}/workflows/{incident}"


async def _sum_up(
    lab: Lab, view: View, seat: Seat, record: Record | None, since_fault: AuditLog, *, verbose: bool
) -> bool:
    """Tell from the audit log what was done, and what should have been and was not."""
    log = AuditLog(lab.audit_log).read()
    checks = witness.counted(log)
    if verbose:
        view.console.print(ending.requests(witness.acts(log)))
    view.console.print(ending.summary(checks))
    problems = [f"{c.step}: {c.seen} times, not {c.times}" for c in checks if not c.ok]
    moved = await job.seat(lab)
    if moved is None or moved.key == seat.key:
        problems.append("the job does not run on another device")
    if not await job.runs(lab, scene.WAITING):
        problems.append("the pod that waited for the device was not scheduled to it by itself")
    if record is None or record.status.phase is not Phase.RELEASED:
        problems.append("the device was not released")
    elsewhere = "nowhere" if moved is None else f"{moved.key.device} of {moved.key.pool}"
    story = (
        f"{seat.key.device} of {seat.key.pool} failed and was fenced; the job moved to {elsewhere}. A canary found "
        "that it bore no load; once repaired it passed probe, canary and soak, and was released."
    )
    fenced_after = witness.fenced_after(since_fault.read(), scene.NAMESPACE, seat.pod)
    return ending.verdict(view.console, problems, fenced_after, story)
