"""`sickbay run`, `watcher`, `worker` and `install` as a person meets them: real processes on a lab of their own.

One lab goes from bare to installed, so the tests of this file stand in that order.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from k8s.lab.lab import Lab
from k8s.lab.temporal import TemporalOptions

pytestmark = pytest.mark.lab

ROOT = Path(__file__).parents[2]
NOWHERE = "127.0.0.1:1"
"""Nobody listens on port 1."""


@pytest.fixture(scope="module")
async def bare(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    """Start a lab on which nothing is installed, with a Temporal namespace that has room for two more keywords."""
    database = tmp_path_factory.mktemp("temporal") / "temporal.db"
    others = {f"Other{i}": "Keyword" for i in range(8)}
    async with Lab.start(temporal=TemporalOptions(database=database, search_attributes=others)) as lab:
        yield lab


async def sickbay(*arguments: str) -> Process:
    """Start a command."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "sickbay", *arguments, cwd=ROOT, stdout=PIPE, stderr=PIPE
    )


async def refused(*arguments: str) -> tuple[int, str]:
    """Run a command that must fail; give its status and the one line that says why."""
    process = await sickbay(*arguments)
    _, err = await asyncio.wait_for(process.communicate(), 30)
    lines = [line for line in err.decode().splitlines() if line.startswith("error: ")]
    assert "Traceback" not in err.decode()
    assert len(lines) == 1, err.decode()
    return process.returncode or 0, lines[0]


@asynccontextmanager
async def running(*arguments: str) -> AsyncIterator[tuple[Process, str]]:
    """Run a process until the end of the block; give it and its health address."""
    process = await sickbay(*arguments, "--listen", "127.0.0.1:0", "--log-format", "json")
    try:
        assert process.stderr
        async with asyncio.timeout(30):
            while line := await process.stderr.readline():
                event = json.loads(line)
                if event["event"] == "process_started":
                    break
            else:
                raise AssertionError("it ended before it had started")
        drain = asyncio.create_task(process.stderr.read())
        yield process, event["health"]
        if process.returncode is None:
            process.terminate()
        assert await asyncio.wait_for(process.wait(), 20) == 0
        await drain
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def until(address: str, *missing: str, told: str = "") -> dict[str, Any]:
    """Wait until /readyz misses exactly these checks, and one of all tells this; give the whole answer."""
    async with asyncio.timeout(30), aiohttp.ClientSession() as session:
        while True:
            async with session.get(f"{address}/readyz") as answer:
                body: dict[str, Any] = await answer.json()
                assert (answer.status == 200) == body["ready"] == (not body["missing"])
                if set(body["missing"]) == set(missing) and any(told in c["message"] for c in body["checks"].values()):
                    return body


def connection(lab: Lab, kubeconfig: Path | None = None) -> list[str]:
    """Name a lab to a command; as its administrator unless told otherwise."""
    return ["--kubeconfig", str(kubeconfig or lab.kubeconfig), "--temporal-address", lab.temporal.address]


@pytest.mark.parametrize("command", ["run", "watcher", "worker"])
async def test_a_kubeconfig_that_is_not_there_is_named(command: str) -> None:
    """Status 2: mend the input."""
    status, line = await refused(command, "--kubeconfig", "/nowhere/config")
    assert status == 2
    assert re.match(r"error: .*'/nowhere/config'.*--kubeconfig", line)


async def test_a_cluster_that_does_not_answer_is_named(tmp_path: Path, bare: Lab) -> None:
    """Status 3: try again when it is up."""
    elsewhere = tmp_path / "config"
    elsewhere.write_text(re.sub(r"https://127.0.0.1:\d+", f"https://{NOWHERE}", bare.kubeconfig.read_text()))
    status, line = await refused("run", *connection(bare, elsewhere))
    assert status == 3
    assert re.match(rf"error: the cluster does not answer: .*{NOWHERE}.*--kubeconfig", line)


async def test_a_wrong_policy_is_refused_before_anything_is_connected(tmp_path: Path) -> None:
    """Status 2, with file, line, key and remedy."""
    file = tmp_path / "policy.yaml"
    file.write_text("apiVersion: sickbay.dev/v1alpha1\nkind: RemediationPolicy\nconfrim: 3s\n", encoding="utf-8")
    status, line = await refused("run", "--policy", str(file))
    assert (status, line) == (2, f"error: {file}:3: confrim: unknown key; did you mean confirm?")


async def test_a_cluster_without_our_records_is_to_be_installed(bare: Lab) -> None:
    """Status 2, and the command that mends it."""
    status, line = await refused("run", *connection(bare))
    assert status == 2
    assert line.endswith("has no devicequarantines.sickbay.dev; run 'sickbay install'")


async def test_install_needs_temporal_and_a_name(bare: Lab) -> None:
    """It writes down whose incidents and which cluster these are."""
    admin = ["--kubeconfig", str(bare.kubeconfig)]
    status, line = await refused("install", *admin, "--temporal-address", NOWHERE)
    assert status == 3
    assert f"Temporal at {NOWHERE}" in line
    status, line = await refused("install", *connection(bare))
    assert (status, line) == (2, "error: this cluster has no name yet; give it one for ever with --cluster NAME")


async def test_install_can_be_repeated_and_keeps_the_name(bare: Lab) -> None:
    """The second time the name is known; another one is refused."""
    for arguments in (["--cluster", "east"], []):
        process = await sickbay("install", *connection(bare), *arguments)
        out, err = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0, err.decode()
        assert out.decode().endswith("as cluster 'east'.\n")
    status, line = await refused("install", *connection(bare), "--cluster", "west")
    assert status == 2
    assert "--cluster east" in line


async def test_search_attributes_that_are_not_to_be_had_are_a_warning(bare: Lab) -> None:
    """At the installation and at the start, with those that are lacking and what to do; neither fails."""
    process = await sickbay("install", *connection(bare))
    _, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    (line,) = [line for line in err.decode().splitlines() if line.startswith("warning: ")]
    assert "does not take SickbayNode, SickbayOutcome, SickbayReason, SickbayCluster: " in line
    assert "cannot have more than 10 search attribute" in line
    assert "search-attribute create --namespace default --name SickbayNode --type Keyword" in line
    account = await bare.kubeconfig_for("sickbay", "sickbay")
    process = await sickbay("run", *connection(bare, account), "--listen", "127.0.0.1:0", "--log-format", "json")
    assert process.stderr
    async with asyncio.timeout(30):
        while event := json.loads(await process.stderr.readline()):
            if event["event"] == "search_attributes_not_registered":
                break
    assert event["lacking"] == ["SickbayNode", "SickbayOutcome", "SickbayReason", "SickbayCluster"]
    assert "sickbay install" in event["remedy"]
    process.terminate()
    await process.communicate()
    assert process.returncode == 0


async def test_an_administrator_is_told_whom_to_act_as(bare: Lab) -> None:
    """The admission policies would refuse each write later."""
    status, line = await refused("run", *connection(bare))
    assert status == 2
    assert "nobody but system:serviceaccount:sickbay:sickbay may write records" in line


async def test_rights_that_are_missing_are_named(bare: Lab) -> None:
    """Status 2, with verb and resource, and the command that gives them back."""
    account = await bare.kubeconfig_for("sickbay", "sickbay")
    binding = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-node-lease/rolebindings/sickbay"
    await bare.gateway.request("DELETE", binding)
    status, line = await refused("run", *connection(bare, account))
    assert status == 2
    assert "may not get leases.coordination.k8s.io in namespace kube-node-lease, list leases" in line
    process = await sickbay("install", *connection(bare))
    await process.communicate()
    assert process.returncode == 0


async def test_a_worker_without_temporal_ends_with_status_3(bare: Lab) -> None:
    """It could do nothing at all."""
    account = await bare.kubeconfig_for("sickbay", "sickbay")
    status, line = await refused("worker", "--kubeconfig", str(account), "--temporal-address", NOWHERE)
    assert status == 3
    assert re.match(rf"error: Temporal at {NOWHERE}, namespace 'default': cannot connect: .*--temporal-address", line)


@pytest.mark.parametrize(("command", "check"), [("worker", "worker"), ("watcher", "watch")])
async def test_half_of_the_work_is_ready_and_stops_cleanly(bare: Lab, command: str, check: str) -> None:
    """Split for scale, each process says that it is ready, and ends with status 0 when asked to."""
    account = await bare.kubeconfig_for("sickbay", "sickbay")
    async with running(command, *connection(bare, account)) as (_, health):
        ready = await until(health)
        assert set(ready["checks"]) == {"cluster", "temporal", check}


async def test_run_without_temporal_says_so_and_connects_when_it_is_there(bare: Lab) -> None:
    """It stays, names what is missing, and becomes ready by itself; gone again is told again."""
    account = await bare.kubeconfig_for("sickbay", "sickbay")
    await bare.temporal.stop()
    async with running("run", *connection(bare, account)) as (_, health):
        await until(health, "temporal", "worker", told="cannot connect")
        await bare.temporal.start()
        await until(health)
        await bare.temporal.kill()
        await until(health, "temporal")
        await bare.temporal.start()
        await until(health)
