"""The Temporal server on PostgreSQL, told what the compose file tells it: kill -9 of either, with incidents everywhere.

They need PostgreSQL on the machine, and some minutes to build the server once: `make soak` runs them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from k8s.lab.postgres import find_postgres
from k8s.lab.temporal_postgres import PostgresOptions, TemporalOnPostgres
from sickbay import errors
from tests.crash.harness import Ward
from tests.crash.test_kill import parked_everywhere
from tests.deploy import compose

pytestmark = [pytest.mark.lab, pytest.mark.crash, pytest.mark.soak]


@pytest.fixture(scope="module")
async def opened_on_postgres(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ward]:
    """Start a lab whose Temporal server is the one of the compose file."""
    try:
        find_postgres()
    except errors.UnavailableError as missing:
        pytest.skip(str(missing))
    options = PostgresOptions(environment=compose.environment("temporal"), ui=False)
    async with Ward.open(tmp_path_factory.mktemp("postgres"), options) as ward:
        yield ward


@pytest.fixture
async def on_postgres(opened_on_postgres: Ward) -> AsyncIterator[Ward]:
    """Give it to one test; no `sickbay run` outlives its test."""
    opened_on_postgres.begin()
    yield opened_on_postgres
    await opened_on_postgres.end_sickbays()


def server_of(ward: Ward) -> TemporalOnPostgres:
    """Give the server and its database."""
    server = ward.lab.temporal
    assert isinstance(server, TemporalOnPostgres)
    return server


async def test_server_and_database_killed_at_every_point(on_postgres: Ward) -> None:
    """Both at once, as a machine does that loses power: every incident ends Released, every effect happened once."""
    sickbay = await on_postgres.sickbay()
    seats, parked = await parked_everywhere(on_postgres, sickbay, "power")
    await server_of(on_postgres).database.kill()
    await on_postgres.kill_temporal()
    for place in parked:
        place.release()
    await on_postgres.lab.temporal.start()
    await on_postgres.released(seats, by=sickbay)
    findings = on_postgres.verdict()
    assert findings.violations == [], findings


async def test_server_killed_at_every_point(on_postgres: Ward) -> None:
    """What was under way is carried out while it is away."""
    sickbay = await on_postgres.sickbay()
    seats, parked = await parked_everywhere(on_postgres, sickbay, "server")
    await on_postgres.kill_temporal()
    for place in parked:
        place.release()
    await on_postgres.lab.temporal.start()
    await on_postgres.released(seats, by=sickbay)
    findings = on_postgres.verdict()
    assert findings.violations == [], findings


async def test_postmaster_killed_at_every_point(on_postgres: Ward) -> None:
    """The server waits for its database, and goes on with it without being started anew."""
    server = server_of(on_postgres)
    assert server._process is not None
    pid = server._process.pid
    sickbay = await on_postgres.sickbay()
    seats, parked = await parked_everywhere(on_postgres, sickbay, "postmaster")
    await server.database.kill()
    on_postgres.kills += 1
    for place in parked:
        place.release()
    await sickbay.says("alert_began", alert="TemporalUnavailable")
    await server.database.start()
    await on_postgres.released(seats, by=sickbay)
    assert (server.running, server._process.pid) == (True, pid)
    findings = on_postgres.verdict()
    assert findings.violations == [], findings
