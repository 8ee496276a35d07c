"""The steps around the Temporal server of the compose file, run as they stand there on real servers.

They need PostgreSQL on the machine, and some minutes to build the server once: `make soak` runs them. What becomes of
incidents on this server when parts of it are killed is in tests/crash/test_postgres.py.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import aiohttp
import pytest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client

from k8s.lab.build import TEMPORAL_SERVER, TEMPORAL_UI, ensure_binary, ensure_built, say_on_stderr
from k8s.lab.postgres import Login, find_postgres
from k8s.lab.temporal_postgres import PostgresOptions, TemporalOnPostgres
from k8s.lab.tools import find_temporal
from sickbay import errors
from tests.deploy import compose
from tests.psql import ask

pytestmark = pytest.mark.soak


class Parts(NamedTuple):
    """What is run: a server on its database, and the tools by the names that the image gives them."""

    server: TemporalOnPostgres
    postgres: Path
    tools: Path


@pytest.fixture(scope="module")
async def parts(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Parts]:
    """Start the server by the compose file's environment."""
    try:
        postgres = find_postgres()
    except errors.UnavailableError as missing:
        pytest.skip(str(missing))
    directory = tmp_path_factory.mktemp("compose")
    programs = await asyncio.to_thread(ensure_built, TEMPORAL_SERVER)
    tools = directory / "tools"
    tools.mkdir()
    (tools / "temporal-sql-tool").symlink_to(programs / "sql")
    (tools / "temporal").symlink_to(await asyncio.to_thread(find_temporal, say_on_stderr))
    server = TemporalOnPostgres(
        programs=programs,
        postgres=postgres,
        ui=await asyncio.to_thread(ensure_built, TEMPORAL_UI),
        lifeline=await asyncio.to_thread(ensure_binary),
        directory=directory,
        options=PostgresOptions(environment=compose.environment("temporal")),
    )
    await server.start()
    yield Parts(server, postgres, tools)
    await server.remove()


def run(parts: Parts, service: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run the command of a service, with its variables and these changes; mounted files are those of the tree."""
    told = compose.services()[service]
    (shell, mounted) = told["command"]
    (script,) = (mount["source"] for mount in told["volumes"] if mount["target"] == mounted)
    path = f"{parts.tools}{os.pathsep}/usr/bin{os.pathsep}/bin"
    environment = {**told["environment"], **changes, "PATH": path, "HOME": str(parts.tools)}
    return subprocess.run(
        [f"/bin/{shell}", script],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=120,
    )


def query(parts: Parts, database: str, statement: str) -> str:
    """Ask the database as its owner."""
    told = compose.environment("postgres")
    login = Login(told["POSTGRES_USER"], told["POSTGRES_PASSWORD"])
    return ask(parts.postgres, parts.server.database.port, login, statement, database=database)


def emptied(parts: Parts) -> None:
    """Take both databases away, from under the server."""
    for name in ("temporal", "temporal_visibility"):
        assert query(parts, "postgres", f"drop database {name} with (force)") == "DROP DATABASE"


async def test_the_schema_step_makes_what_the_server_needs(parts: Parts) -> None:
    """On an empty database; repeated, as at every start of the whole, it changes nothing; the server runs on it."""
    port = str(parts.server.database.port)
    await parts.server.kill()
    await asyncio.to_thread(emptied, parts)
    versions = []
    for _ in range(2):
        made = await asyncio.to_thread(run, parts, "temporal-schema", SQL_HOST="127.0.0.1", SQL_PORT=port)
        assert made.returncode == 0, made.stdout
        both = ("temporal", "temporal_visibility")
        versions.append([query(parts, name, "select curr_version from schema_version") for name in both])
    assert versions[0] == versions[1]
    assert all(re.fullmatch(r"1\.\d+", version) for version in versions[0])
    await parts.server.start()


async def test_the_schema_step_fails_loudly(parts: Parts) -> None:
    """A wrong password is its end, and Temporal is not started on half a database."""
    port = str(parts.server.database.port)
    told = {"SQL_HOST": "127.0.0.1", "SQL_PORT": port, "SQL_PASSWORD": "wrong"}
    made = await asyncio.to_thread(lambda: run(parts, "temporal-schema", **told))
    assert made.returncode != 0
    assert "password authentication failed" in made.stdout


async def test_the_namespace_step_makes_it_once(parts: Parts) -> None:
    """With the retention that is asked for; repeated, it leaves the namespace as it is."""
    told = {"TEMPORAL_ADDRESS": parts.server.address, "TEMPORAL_NAMESPACE": "made"}
    for retention in ("720h", "24h"):
        made = await asyncio.to_thread(lambda: run(parts, "temporal-namespace", **told, RETENTION=retention))  # noqa: B023
        assert made.returncode == 0, made.stdout
    client = await Client.connect(parts.server.address)
    found = await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace="made"))
    assert found.config.workflow_execution_retention_ttl.ToTimedelta().days == 30


async def test_the_server_has_metrics_and_the_ui_pages(parts: Parts) -> None:
    """What Prometheus scrapes and what a person opens."""
    async with aiohttp.ClientSession() as session:
        async with session.get(parts.server.metrics_url) as answer:
            assert "service_requests" in await answer.text()
        async with session.get(f"{parts.server.ui_url}/api/v1/namespaces") as answer:
            assert '"name":"default"' in (await answer.text()).replace(" ", "")
        async with session.get(parts.server.ui_url) as answer:
            assert answer.ok
            assert "text/html" in answer.headers["content-type"]
