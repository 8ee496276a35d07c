"""The life of a lab: side by side with another, through crashes of its parts, to an end that leaves nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from temporalio.client import Client

from k8s.gateway import decode
from k8s.lab.lab import Lab
from k8s.lab.nodes.fleet import NodeShape
from k8s.lab.temporal import TemporalOptions
from sickbay import errors
from tests.k8s.cluster import create_pod, create_template, until

pytestmark = pytest.mark.lab

START_AND_WAIT = """
import asyncio, signal
from k8s.lab.lab import Lab
from k8s.lab.temporal import TemporalOptions
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore it
async def main():
    async with Lab.start(temporal=TemporalOptions()) as lab:
        pids = [process.pid for process in lab.control_plane.processes.values()]
        print(lab.control_plane.url.rpartition(":")[2], lab.temporal.address.rpartition(":")[2], *pids, flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""


def listens(port: int) -> bool:
    """Tell whether someone listens on a port of loopback."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def runs(pid: int) -> bool:
    """Tell whether a process runs; one that has ended and was not waited for does not."""
    command = ["/bin/ps", "-o", "stat=", "-p", str(pid)]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    return shown.stdout.strip() != "" and not shown.stdout.startswith("Z")


@pytest.mark.crash
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
async def test_nothing_is_left_when_the_launcher_ends(number: signal.Signals) -> None:
    """However it ends: all processes are gone, all ports closed."""
    launcher = await asyncio.create_subprocess_exec(
        sys.executable, "-c", START_AND_WAIT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert launcher.stdout is not None
    api, temporal, *pids = map(int, (await launcher.stdout.readline()).split())
    assert len(pids) == 4
    assert listens(api)
    assert listens(temporal)
    os.kill(launcher.pid, number)
    await asyncio.wait_for(launcher.wait(), 30)

    async def nothing() -> bool:
        return not listens(api) and not listens(temporal) and not any(runs(pid) for pid in pids)

    await until(nothing, within=10)


async def test_an_error_inside_comes_out_as_it_is() -> None:
    """Whoever uses a lab sees their own errors, not groups of them."""
    with pytest.raises(errors.UsageError, match="mine"):
        async with Lab.start():
            raise errors.UsageError("mine")


async def test_two_labs_run_side_by_side(lab: Lab) -> None:
    """Each with its own objects, directory and ports; the end of one is nothing to the other."""
    async with Lab.start() as other:
        assert other.control_plane.url != lab.control_plane.url
        (node,) = await other.fleet.add(1, NodeShape(prefix="other"))
        nodes = decode(await lab.gateway.request("GET", "/api/v1/nodes"))["items"]
        assert node not in [item["metadata"]["name"] for item in nodes]
        directory = other.directory
        assert directory.is_dir()
    assert not directory.exists()
    await lab.gateway.request("GET", "/readyz")


@pytest.mark.crash
async def test_everything_goes_on_after_the_api_server_crashed() -> None:
    """Same address, same objects; nodes, scheduler and controllers find back by themselves."""
    async with Lab.start() as lab:
        (node,) = await lab.fleet.add(1, NodeShape(devices=2))
        await create_template(lab.gateway, "default", "one", "gpu.sickbay.dev")
        for name in ("before", "after"):
            await create_pod(lab.gateway, "default", name, template="one")

            async def running(pod: str = name) -> bool:
                found = decode(await lab.gateway.request("GET", f"/api/v1/namespaces/default/pods/{pod}"))
                return bool(found["status"]["phase"] == "Running")

            await until(running)
            if name == "before":
                url = lab.control_plane.url
                await lab.restart_api_server()
                assert lab.control_plane.url == url
        await lab.fleet.break_device(node, "gpu-0", message="after the crash")
        statuses = await lab.gateway.request("GET", "/api/v1/namespaces/default/pods")
        assert b"after the crash" in statuses


@pytest.mark.crash
@pytest.mark.parametrize("end", ["kill", "stop"])
async def test_temporal_keeps_its_histories_in_a_file(tmp_path: Path, end: str) -> None:
    """A workflow started before the end of the server is there after its start, at the same address."""
    async with Lab.start(temporal=TemporalOptions(database=tmp_path / "temporal.db")) as lab:
        address, ui = lab.temporal.address, lab.temporal.ui_url
        client = await Client.connect(address)
        await client.start_workflow("anything", id="kept", task_queue="nobody")
        await getattr(lab.temporal, end)()
        assert not lab.temporal.running
        assert not listens(int(address.rpartition(":")[2]))
        await lab.temporal.start()
        assert (lab.temporal.address, lab.temporal.ui_url) == (address, ui)
        client = await Client.connect(address)
        description = await client.get_workflow_handle("kept").describe()
        assert description.workflow_type == "anything"


async def test_two_hundred_nodes_stand_in_seconds() -> None:
    """1,600 devices, renewed Leases, and pods can be scheduled to all of them."""
    async with Lab.start() as lab:
        started = time.monotonic()
        await lab.fleet.add(200, NodeShape(devices=8))
        took = time.monotonic() - started
        slices = decode(await lab.gateway.request("GET", "/apis/resource.k8s.io/v1/resourceslices"))["items"]
        assert sum(len(item["spec"]["devices"]) for item in slices) == 1600
        print(f"200 nodes with 8 devices each stood after {took:.1f} s")  # noqa: T201 - the figure
        assert took < 30
