"""The commands that only look, as a person types them, on a real cluster."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from k8s.control import ControlMap
from k8s.fences import Fences
from k8s.lab.lab import Lab
from k8s.lab.nodes.fleet import NodeShape
from k8s.records import Records
from sickbay.model.record import Phase, Record, RecordStatus
from tests.installation import OPERATORS, Installation, a_device, record_spec
from tests.sickbay.cli.commands import ROOT, Shown
from tests.sickbay.cli.commands import sickbay as run

pytestmark = pytest.mark.lab


@dataclass(frozen=True)
class Patient:
    """A fenced device of a node of its own, and how to ask for it.

    Attributes:
        record: its record.
        environment: of a command.
    """

    record: Record
    environment: dict[str, str]

    @property
    def device(self) -> str:
        """Slice pool and device."""
        return f"{self.record.spec.device.pool}/{self.record.spec.device.device}"

    async def __call__(self, *arguments: str) -> Shown:
        """Run a command; Temporal is not there."""
        return await run(*arguments, environment=self.environment)


@pytest.fixture(scope="module")
async def patient(sickbay: Installation, lab: Lab) -> AsyncIterator[Patient]:
    """Put a device out of service, without any process of Sickbay."""
    (node,) = await lab.fleet.add(1, NodeShape(devices=2, prefix="ward"))
    key = a_device(pool=node, device="gpu-1")
    records = Records(sickbay.gateway)
    record = await records.create(key, record_spec(key, node=node, message="Xid 79", term=await sickbay.lead()))
    await Fences(sickbay.gateway).put(key, 1, incident=record.spec.incident, effect_key="e")
    status = RecordStatus(incident=record.spec.incident, run=1, phase=Phase.QUARANTINED)
    record = await records.write_status(record, status)
    where = {"KUBECONFIG": str(lab.kubeconfig), "SICKBAY_TEMPORAL_ADDRESS": "127.0.0.1:9"}
    yield Patient(record, where)
    await lab.fleet.remove(node)


async def test_lists_hold_the_device(patient: Patient) -> None:
    """As a table, and in each of the other forms the same thing."""
    table = await patient("get", "incidents", patient.device)
    assert table.status == 0, table.error
    assert table.out.split()[:7] == ["NAME", "DEVICE", "NODE", "REASON", "PHASE", "ASKS", "AGE"]
    assert (
        f"{patient.record.name}   {patient.device}   {patient.record.spec.node}   Reported   Quarantined" in table.out
    )
    one = json.loads((await patient("get", "device", patient.device, "-o", "json")).out)
    assert (one["state"], one["fence"], one["quarantine"]) == ("Quarantined", "Stands", patient.record.name)
    listed = yaml.safe_load((await patient("get", "dq", "-o", "yaml", "--node", patient.record.spec.node)).out)
    assert [item["metadata"]["name"] for item in listed["items"]] == [patient.record.name]
    named = await patient("get", "devices", "-o", "name", "--node", patient.record.spec.node, "--phase", "inservice")
    assert named.out == f"gpu.sickbay.dev/{patient.record.spec.node}/gpu-0\n"


async def test_without_temporal_the_cluster_explains(patient: Patient) -> None:
    """Phase, what was said, fence; and that Temporal did not answer."""
    told = await patient("explain", *patient.device.split("/"))
    assert told.status == 0, told.error
    assert "State        Quarantined\n" in told.out
    assert "Said         Unhealthy (Reported): Xid 79\n" in told.out
    assert f"Fence        DeviceTaintRule {patient.record.name}-1, sickbay.dev/quarantine:NoSchedule\n" in told.out
    assert "Temporal     Temporal at 127.0.0.1:9" in told.out


async def test_a_pause_of_the_installation_is_told_beside_what_there_is(
    patient: Patient, sickbay: Installation
) -> None:
    """On stderr, so that scripts read the same rows; an open incident's explanation has it as a fact."""
    told = "paused by ann until somebody resumes: new incidents wait\n"
    async with sickbay.as_user("ann", OPERATORS) as ann:
        control = ControlMap(ann)
        await control.pause(who="ann", why="firmware")
        try:
            assert (await patient("get", "devices")).error == told
            assert (await patient("get", "incidents", "--node", "none")).error == f"{told}No incidents found.\n"
            assert (await patient("explain", f"{patient.record.spec.node}/gpu-0")).error == told
            open_one = await patient("explain", patient.device)
            assert "Paused       the whole installation, by ann, until somebody resumes: firmware\n" in open_one.out
            assert told not in open_one.error
        finally:
            await control.resume()
    assert (await patient("get", "devices")).error == ""


async def test_what_is_described_is_the_record(patient: Patient) -> None:
    """By the record's name, and by the device's."""
    by_name = await patient("describe", "quarantine", patient.record.name)
    assert by_name.out == (await patient("describe", "dq", patient.device)).out
    assert "Verified     no\n" in by_name.out


async def test_events_fall_back_to_the_record(patient: Patient) -> None:
    """The story is on stdout, that it is short on stderr."""
    told = await patient("events", patient.record.name)
    assert told.status == 0
    assert "first bad word: Unhealthy (Reported) Xid 79" in told.out
    assert told.error.startswith("only what the record knows: Temporal at 127.0.0.1:9")


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["get", "incidents", "nobody"], 1, "no incidents of the name 'nobody'; see sickbay get incidents"),
        (["get", "incidents", "nobody", "--watch"], 1, "no incidents of the name 'nobody'; see sickbay get incidents"),
        (["explain", "nobody"], 1, "nothing is named 'nobody'; see sickbay get devices, sickbay get quarantines"),
        (["get", "pods"], 2, "'pods' is none of incidents, devices, quarantines"),
        (["describe", "device", "gpu-0"], 2, "'device' is none of incident, quarantine; sickbay explain NAME tells"),
        (["get", "devices", "--phase", "odd"], 2, "'odd' is not one of"),
        (["get", "devices", "-o", "xml"], 2, "'xml' is not one of 'table', 'wide', 'json', 'yaml', 'name'"),
        (["get", "devices", "--kubeconfig", "none"], 2, "none"),
    ],
)
async def test_a_slip_is_told_with_its_status(patient: Patient, arguments: list[str], status: int, told: str) -> None:
    """1: not there; 2: not understood."""
    shown = await patient(*arguments)
    assert shown.status == status
    assert told in shown.error
    assert "Traceback" not in shown.error


async def test_who_may_not_look_is_told_whom_to_ask(patient: Patient, lab: Lab) -> None:
    """The group that may, and not the account that acts."""
    stranger = await lab.kubeconfig_for("default", "default")
    shown = await patient("get", "incidents", "--kubeconfig", str(stranger))
    assert shown.status == 2
    assert "members of group sickbay:operators may look" in shown.error


async def test_a_watch_prints_what_changes(patient: Patient, sickbay: Installation) -> None:
    """One line for what there is, one for each change, and 130 after Ctrl-C."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "sickbay", "get", "incidents", patient.device, "--watch", "--no-headers"),
        cwd=ROOT,
        env={**os.environ, **patient.environment, "PYTHONUNBUFFERED": "1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        assert b"Quarantined" in await process.stdout.readline()
        status = patient.record.status.model_copy(update={"phase": Phase.EVACUATING})
        changed = await Records(sickbay.gateway).write_status(patient.record, status)
        assert b"Evacuating" in await process.stdout.readline()
        await Records(sickbay.gateway).write_status(changed, patient.record.status)
        assert b"Quarantined" in await process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 130


async def test_names_are_completed_from_the_cluster(patient: Patient) -> None:
    """A shell, and kubectl, offer what there is."""
    node = patient.record.spec.node
    for words, offered in (
        (patient.record.name[:12], [patient.record.name]),
        (f"{node}/", [f"{node}/gpu-0", f"{node}/gpu-1"]),
        (f"{node} gpu", ["gpu-0", "gpu-1"]),
    ):
        line = {"COMP_WORDS": f"sickbay explain {words}", "COMP_CWORD": str(1 + len(words.split()))}
        shown = await run(environment={**patient.environment, **line, "_SICKBAY_COMPLETE": "bash_complete"})
        assert shown.out.splitlines() == [f"plain,{name}" for name in offered]
    code = (
        "import sys; sys.argv[1:] = ['get', 'dq', 'sickbay-']; from sickbay.cli.completion import for_kubectl as f; f()"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code,
        cwd=ROOT, env={**os.environ, **patient.environment}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    assert patient.record.name in out.decode().splitlines()
    assert out.decode().endswith(":4\n")


async def test_it_is_a_plugin_of_kubectl(tmp_path: Path) -> None:
    """Help names the command as it was called."""
    script = tmp_path / "kubectl-sickbay"
    script.write_text(f"#!{sys.executable}\nfrom sickbay.cli.main import main\nmain()\n", encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(script), "get", "--help",
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    assert out.decode().startswith("Usage: kubectl sickbay get [OPTIONS] incidents|devices|quarantines [NAME]...\n")
