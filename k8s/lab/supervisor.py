"""The background process of ``sickbay lab up``: runs one lab and does what it is asked until ``down`` or a signal.

Its first line on standard output tells how the start went; after that it has no output but its log.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import msgspec

from k8s.lab.control import SOCKET, Reply, Request, Summary
from k8s.lab.lab import Lab
from k8s.lab.nodes.fleet import NodeShape
from k8s.lab.temporal import TemporalOptions
from k8s.lab.temporal_postgres import PostgresOptions
from sickbay import errors

_PATH_LIMIT: Final = 100
"""Bytes of a unix socket's path; macOS takes 104, Linux 108."""


class Supervisor:
    """Answers requests for one lab.

    Attributes:
        ended: set when someone asked for its end.
    """

    def __init__(self, name: str, lab: Lab) -> None:
        self.ended = asyncio.Event()
        self._name = name
        self._lab = lab
        self._waiting: list[asyncio.StreamWriter] = []

    def summary(self) -> Summary:
        """Tell how the lab is."""
        return Summary(
            name=self._name,
            pid=os.getpid(),
            directory=str(self._lab.directory),
            kubeconfig=str(self._lab.kubeconfig),
            temporal=self._lab.temporal.address,
            ui=self._lab.temporal.ui_url,
            nodes=self._lab.fleet.describe(),
        )

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection. ``down`` is answered by its end, when nothing of the lab is left."""
        try:
            request = msgspec.json.decode(await reader.readline(), type=Request)
            if request.verb == "down":
                self._waiting.append(writer)
                self.ended.set()
                return
            reply = await self._reply(request)
        except msgspec.DecodeError as error:
            reply = Reply(error=f"request: {error}", exit_status=errors.UsageError.exit_status)
        writer.write(msgspec.json.encode(reply))
        writer.close()

    async def release(self) -> None:
        """Let those who asked for the end know of it."""
        for writer in self._waiting:
            writer.close()

    async def _reply(self, request: Request) -> Reply:
        fleet, node, device = self._lab.fleet, request.node, request.device
        try:
            match request.verb:
                case "break" if request.under_load:
                    await fleet.break_under_load(node, device, message=request.message)
                case "break":
                    await fleet.break_device(node, device, health=request.health, message=request.message)
                case "heal":
                    await fleet.heal(node, device)
                case "swap":
                    await fleet.swap(node, device)
                case "lose-driver":
                    await fleet.lose_driver(node)
                case "regain-driver":
                    await fleet.regain_driver(node)
        except errors.SickbayError as error:
            return _refusal(error)
        return Reply(self.summary())


async def run(name: str, nodes: int, devices: int, temporal: TemporalOptions | PostgresOptions) -> None:
    """Run a lab until it is told to end."""
    async with AsyncExitStack() as last, Lab.start(name=name, temporal=temporal) as lab:
        socket = lab.directory / SOCKET
        if len(os.fsencode(socket)) > _PATH_LIMIT:
            raise errors.UsageError(f"TMPDIR: {socket} is too long for a socket; set a shorter TMPDIR")
        _log_to(lab.directory / "supervisor.log")
        if nodes:
            await lab.fleet.add(nodes, NodeShape(devices=devices))
        supervisor = Supervisor(name, lab)
        last.push_async_callback(supervisor.release)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, supervisor.ended.set)
        async with await asyncio.start_unix_server(supervisor.serve, socket):
            _tell(Reply(supervisor.summary()))
            await supervisor.ended.wait()


def main(arguments: list[str]) -> int:
    """Run from `k8s.lab.control.launch`: name, nodes, devices, database, and perhaps the word ``postgres``."""
    name, nodes, devices, database, *postgres = arguments
    dev = TemporalOptions(database=Path(database) if database else None)
    try:
        asyncio.run(run(name, int(nodes), int(devices), PostgresOptions() if postgres else dev))
    except errors.SickbayError as error:
        _tell(_refusal(error))
        return error.exit_status
    return 0


def _refusal(error: errors.SickbayError) -> Reply:
    return Reply(error=str(error), exit_status=error.exit_status)


def _tell(reply: Reply) -> None:
    """Write the one line that `launch` waits for; nobody reads a second one."""
    sys.stdout.buffer.write(msgspec.json.encode(reply) + b"\n")
    sys.stdout.flush()


def _log_to(path: Path) -> None:
    with path.open("ab") as log:
        os.dup2(log.fileno(), sys.stderr.fileno())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
