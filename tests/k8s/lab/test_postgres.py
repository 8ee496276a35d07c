"""PostgreSQL in a lab: found on the machine, killed and started again, gone with the lab."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from k8s.lab import postgres
from k8s.lab.build import ensure_binary
from k8s.lab.postgres import Login, Postgres, find_postgres
from sickbay import errors
from tests.psql import ask

LOGIN = Login(user="someone", password="it's a secret")


@pytest.fixture
def programs() -> Path:
    """Where PostgreSQL is; a machine without it skips the test and says how to get it."""
    try:
        return find_postgres()
    except errors.UnavailableError as missing:
        pytest.skip(str(missing))


@pytest.fixture
async def server(programs: Path, tmp_path: Path) -> AsyncIterator[Postgres]:
    """Prepare a server that does not run yet."""
    lifeline = await asyncio.to_thread(ensure_binary)
    prepared = Postgres(programs=programs, lifeline=lifeline, directory=tmp_path, login=LOGIN)
    yield prepared
    await prepared.remove()


def put(directory: Path, *names: str) -> None:
    """Put empty programs into a directory."""
    directory.mkdir(parents=True)
    for name in names:
        (directory / name).write_text("", encoding="utf-8")
        (directory / name).chmod(0o755)


def test_the_newest_whole_installation_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By number, not by spelling; a client's package alone does not do."""
    monkeypatch.setattr(postgres, "_INSTALLED", (f"{tmp_path}/*/bin",))
    monkeypatch.setenv("PATH", "/nowhere")
    for version in ("9.6", "15"):
        put(tmp_path / version / "bin", "initdb", "postgres", "pg_isready")
    put(tmp_path / "17" / "bin", "psql", "pg_isready")
    assert find_postgres() == tmp_path / "15" / "bin"


def test_a_machine_without_it_is_told_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line with the command to run."""
    monkeypatch.setattr(postgres, "_INSTALLED", ())
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(errors.UnavailableError, match=r"not on this machine.*apt-get install postgresql"):
        find_postgres()


async def test_what_was_committed_survives_a_kill(server: Postgres, programs: Path) -> None:
    """The same port, the same data; it asks for the password."""
    await server.start()
    port = server.port
    await asyncio.to_thread(ask, programs, port, LOGIN, "create table t as select 41 + 1 as answer")
    await server.kill()
    assert not server.running
    await server.start()
    assert (server.port, server.running) == (port, True)
    assert await asyncio.to_thread(ask, programs, port, LOGIN, "select answer from t") == "42"
    guessed = await asyncio.to_thread(ask, programs, port, Login(LOGIN.user, "guessed"), "select 1")
    assert "password authentication failed" in guessed


async def test_its_data_is_gone_with_it(server: Postgres) -> None:
    """Root's, too, which lies outside the lab's directory."""
    await server.start()
    assert server._data.exists()
    home = server._elsewhere.path if server._elsewhere else server._data
    await server.remove()
    assert not server.running
    assert server._elsewhere is None
    assert not home.exists()
