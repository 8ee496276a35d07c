"""Ask a lab that runs in a background process, or start one: what ``sickbay lab`` does.

One request and one answer, a line of JSON each, over a unix socket in the lab's directory.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Final, Literal

import msgspec

from k8s.lab.directory import labs_root, running_labs
from k8s.lab.nodes.fleet import Health, NodeState
from sickbay import errors

SOCKET: Final = "control.sock"
DEFAULT_NAME: Final = "default"


class Request(msgspec.Struct, frozen=True):
    """What a person wants of a lab."""

    verb: Literal["status", "break", "heal", "swap", "lose-driver", "regain-driver", "down"]
    node: str = ""
    device: str = ""
    health: Health = Health.UNHEALTHY
    message: str = ""
    under_load: bool = False


class Summary(msgspec.Struct, frozen=True):
    """A running lab.

    Attributes:
        name: of the lab.
        pid: of the process that runs it.
        directory: certificates, data, logs; gone when the lab is down.
        kubeconfig: the admin's.
        temporal: ``host:port`` of the frontend.
        ui: URL of Temporal's web UI.
        nodes: how they are.
    """

    name: str
    pid: int
    directory: str
    kubeconfig: str
    temporal: str
    ui: str
    nodes: list[NodeState]


class Reply(msgspec.Struct, frozen=True):
    """An answer: how the lab is, or what was wrong with the request."""

    summary: Summary | None = None
    error: str = ""
    exit_status: int = 0


async def ask(name: str, request: Request) -> Summary | None:
    """Send one request to a running lab; None after ``down``, when all of it is gone.

    Raises:
        UsageError: no such lab runs, or the request names something that it has not.
        UnavailableError: it does not answer.
    """
    directory = labs_root() / name
    running = await asyncio.to_thread(running_labs)
    if directory not in running:
        others = ", ".join(path.name for path in running if (path / SOCKET).exists()) or "none"
        raise errors.UsageError(f"no lab named {name!r} is running (running: {others}); start it: sickbay lab up")
    try:
        reader, writer = await asyncio.open_unix_connection(directory / SOCKET)
    except OSError as error:
        raise errors.UnavailableError(f"lab {name!r} does not answer: {error}; see {directory}") from error
    try:
        writer.write(msgspec.json.encode(request) + b"\n")
        return _opened(await reader.read())
    finally:
        writer.close()


def launch(name: str, *, nodes: int, devices: int, database: Path | None, postgres: bool = False) -> Summary:
    """Start a lab in a process of its own, and return when it is ready. Blocks.

    Args:
        name: of the lab.
        nodes: how many.
        devices: of each node.
        database: file of Temporal's dev server, None for memory.
        postgres: with the real Temporal server on PostgreSQL, and no database file.

    Raises:
        UsageError: the name is taken or cannot be used.
        UnavailableError: it could not be started.
    """
    arguments = [name, str(nodes), str(devices), str(database.resolve()) if database else ""]
    arguments += ["postgres"] if postgres else []
    with subprocess.Popen(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-m", "k8s.lab.supervisor", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,  # it outlives this terminal
    ) as supervisor:
        assert supervisor.stdout is not None
        try:
            line = supervisor.stdout.readline()
        except KeyboardInterrupt:
            supervisor.terminate()
            raise
        summary = _opened(line)
        if summary is None:
            raise errors.UnavailableError("the lab's process ended without a word; what it wrote is above")
        supervisor.returncode = 0  # it goes on without us: do not wait for its end
    return summary


def _opened(line: bytes) -> Summary | None:
    if not line:
        return None
    reply = msgspec.json.decode(line, type=Reply)
    if reply.error:
        kind = errors.UsageError if reply.exit_status == errors.UsageError.exit_status else errors.UnavailableError
        raise kind(reply.error)
    return reply.summary
