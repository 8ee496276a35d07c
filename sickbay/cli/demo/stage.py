"""The demo, from curtain to curtain: start a lab, install, let a device fail, watch, sum up."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from rich.table import Table

from k8s.gateway import Gateway, decode
from k8s.install import install
from k8s.lab.audit import AuditLog
from k8s.lab.lab import Lab, default_account
from k8s.lab.nodes.fleet import DRIVER, NodeShape
from k8s.lab.sickbay_process import SickbayProcess
from k8s.lab.temporal import NAMESPACE as TEMPORAL_NAMESPACE
from k8s.lab.temporal import TemporalOptions
from k8s.records import Records
from sickbay import errors
from sickbay.cli.demo import scene, witness
from sickbay.cli.demo.view import View
from sickbay.model.device import DeviceKey
from sickbay.model.record import Phase, Record
from sickbay.telemetry import logging
from sickbay.temporal import Temporal

CLUSTER: Final = "demo"
NODES: Final = 2
DEVICES: Final = 4

WITHIN: Final = 120.0
"""Seconds from the fault to the release after which the demo has failed."""

LOOK: Final = 0.15
"""Seconds between two looks of the spectator."""


@dataclass(frozen=True)
class Seat:
    """The device that the job sits on."""

    pod: str
    key: DeviceKey
    uuid: str


async def play(*, keep: bool) -> bool:
    """Play the demo and say whether every step happened.

    Args:
        keep: at the end leave everything running until interrupted.
    """
    logging.configure(logging.Level.WARNING, logging.Format.CONSOLE)
    view = View(title="One incident, from fault to release")
    async with AsyncExitStack() as stack:
        view.say("lab", "starts a real Kubernetes control plane and a real Temporal server ...")
        lab = await stack.enter_async_context(Lab.start(temporal=TemporalOptions()))
        view.say("lab", f"Kubernetes 1.37.2 and Temporal are ready; Temporal UI: {lab.temporal.ui_url}")
        temporal = Temporal(lab.temporal.address, namespace=TEMPORAL_NAMESPACE)
        await install(lab.gateway, cluster=CLUSTER, namespace_id=await temporal.namespace_id())
        await lab.fleet.add(NODES, NodeShape(devices=DEVICES))
        view.say("lab", f"Sickbay is installed; {NODES} nodes with {DEVICES} devices each are up")
        sickbay = await SickbayProcess.start(lab, policy=scene.POLICY)
        stack.push_async_callback(sickbay.process.stop)
        await sickbay.ready()
        view.say("sickbay", f"runs, under its own account and with its own rights only; log: {sickbay.process.log}")
        seat = await _seated(lab)
        view.say("job", f"pod {seat.pod} runs on {seat.key.device} of {seat.key.pool}")
        audit = AuditLog(lab.audit_log, from_end=True)
        with view:
            view.zero()
            message = "Xid 79: GPU has fallen off the bus"
            await lab.fleet.break_device(seat.key.pool, seat.key.device, message=message)
            view.say("device", f"{seat.key.device} of {seat.key.pool} reports Unhealthy: {message}")
            released = await _watch(lab, temporal, view, audit, seat)
        ok = await _sum_up(lab, view, seat, released=released)
        if keep:
            _invite(lab, view)
            await asyncio.Event().wait()
        return ok


async def _create(gateway: Gateway, objects: list[tuple[str, dict[str, Any]]]) -> None:
    for path, body in objects:
        await gateway.request("POST", path, body=body)


async def _seated(lab: Lab) -> Seat:
    """Start the job and find the device that it was given."""
    namespace, *rest = scene.objects()
    await _create(lab.gateway, [namespace])
    await default_account(lab.gateway, scene.NAMESPACE)
    await _create(lab.gateway, rest)
    async with asyncio.timeout(WITHIN):
        while (seat := await _seat(lab)) is None:  # noqa: ASYNC110 - the scheduler is another process
            await asyncio.sleep(LOOK)
    return seat


async def _seat(lab: Lab) -> Seat | None:
    for pod in (await _get(lab.gateway, f"/api/v1/namespaces/{scene.NAMESPACE}/pods"))["items"]:
        if not pod["metadata"]["name"].startswith(scene.JOB) or pod["status"].get("phase") != "Running":
            continue
        if "deletionTimestamp" in pod["metadata"]:
            continue
        claim = pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
        path = f"/apis/resource.k8s.io/v1/namespaces/{scene.NAMESPACE}/resourceclaims/{claim}"
        result = (await _get(lab.gateway, path))["status"]["allocation"]["devices"]["results"][0]
        key = DeviceKey(cluster=CLUSTER, driver=DRIVER, pool=result["pool"], device=result["device"])
        node = next(n for n in lab.fleet.describe() if n.name == key.pool)
        uuid = next(d.uuid for d in node.devices if d.name == key.device)
        return Seat(pod=pod["metadata"]["name"], key=key, uuid=uuid)
    return None


async def _get(gateway: Gateway, path: str) -> Any:
    return decode(await gateway.request("GET", path))


async def _watch(lab: Lab, temporal: Temporal, view: View, audit: AuditLog, seat: Seat) -> bool:
    """Look on until the record is closed; play the part of the repair, and of a job that waits for the device."""
    records = Records(lab.gateway)
    repaired = invited = linked = False
    try:
        async with asyncio.timeout(WITHIN):
            while True:
                await _tell_acts(view, audit)
                record = await _record(records, seat.key)
                if record is not None:
                    if not linked:
                        linked = True
                        view.say("sickbay", f"incident in the Temporal UI: {_link(lab, record)}")
                    view.phase(*await _standing(temporal, record))
                    if not invited and record.status.phase is not None:
                        invited = True
                        await _create(lab.gateway, scene.latecomer(seat.uuid))
                        view.say("job", f"pod {scene.WAITING} asks for exactly this device, and has to wait")
                    if not repaired and record.status.counters.probe > 0 and record.status.phase is Phase.RECOVERING:
                        repaired = True
                        await lab.fleet.heal(seat.key.pool, seat.key.device)
                        view.say("device", "a technician resets it: the next probe will find it well")
                    if record.closed:
                        await _tell_acts(view, audit)
                        return record.status.phase is Phase.RELEASED
                await asyncio.sleep(LOOK)
    except TimeoutError:
        view.say("sickbay", f"did not release the device within {WITHIN:.0f} s")
        return False


async def _tell_acts(view: View, audit: AuditLog) -> None:
    for entry in audit.read():
        if witness.acted(entry):
            act = witness.Act.of(entry)
            view.say("api", f"{entry.code} {act.verb} {act.what}")


async def _record(records: Records, key: DeviceKey) -> Record | None:
    try:
        return await records.get(key.record_name)
    except errors.NotFound:
        return None


async def _standing(temporal: Temporal, record: Record) -> tuple[str, str]:
    """Read the incident's own headline: what an operator sees first in the Temporal UI."""
    phase, _, why = (await temporal.headline(record.spec.incident)).partition(": ")
    return phase or str(record.status.phase or "Admitted"), why or "begins"


def _link(lab: Lab, record: Record) -> str:
    incident = quote(record.spec.incident, safe="")
    return f"{lab.temporal.ui_url}/namespaces/{TEMPORAL_NAMESPACE}/workflows/{incident}"


async def _sum_up(lab: Lab, view: View, seat: Seat, *, released: bool) -> bool:
    """Tell from the audit log what was done, and what should have been and was not."""
    table = Table(title="What Sickbay changed, by the word of the API server's audit log", title_justify="left")
    for column in ("time", "request", "object"):
        table.add_column(column)
    for act in witness.acts(lab.audit_log):
        table.add_row(act.at, act.verb, act.what)
    view.console.print(table)
    problems = witness.missing(lab.audit_log)
    moved = await _seat(lab)
    if moved is None or moved.key == seat.key:
        problems.append("the job does not run on another device")
    if not await _runs(lab, scene.WAITING):
        problems.append("the pod that waited for the device was not scheduled to it by itself")
    if not released:
        problems.append("the device was not released")
    for problem in problems:
        view.console.print(f"[red]missing:[/red] {problem}")
    if not problems and moved is not None:
        view.console.print(
            f"[green]Every step happened.[/green] {seat.key.device} of {seat.key.pool} failed, was fenced, probed and "
            f"released; the job moved to {moved.key.device} of {moved.key.pool}."
        )
    return not problems


async def _runs(lab: Lab, pod: str) -> bool:
    path = f"/api/v1/namespaces/{scene.NAMESPACE}/pods/{pod}"
    try:
        async with asyncio.timeout(10):
            while (await _get(lab.gateway, path))["status"].get("phase") != "Running":  # noqa: ASYNC110
                await asyncio.sleep(LOOK)
    except TimeoutError:
        return False
    return True


def _invite(lab: Lab, view: View) -> None:
    view.console.print(
        f"\nEverything is left running until Ctrl-C:\n  export KUBECONFIG={lab.kubeconfig}\n"
        f"  kubectl get dq\n  Temporal UI: {lab.temporal.ui_url}"
    )
