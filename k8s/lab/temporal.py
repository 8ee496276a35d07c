"""Temporal's dev server with its web UI, as a process on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.service import ConnectConfig, RPCError, ServiceClient

from k8s.lab.process import GO, POLL, Process, free_ports, retry_ports

NAMESPACE: Final = "default"
_READY_WITHIN: Final = 60.0


@dataclass(frozen=True)
class TemporalOptions:
    """How the dev server differs from the usual.

    Attributes:
        database: SQLite file that survives a restart; None keeps everything in memory, and a restart loses it.
        search_attributes: name → type (Keyword, Int, …), registered at start.
        flags: further command line flags.
    """

    database: Path | None = None
    search_attributes: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()


class TemporalServer:
    """A Temporal dev server that can be killed, stopped and started again on the same ports.

    Attributes:
        address: ``host:port`` of the gRPC frontend; namespace `NAMESPACE`.
        ui_url: of the web UI.
    """

    _ports_wanted: ClassVar = 4

    def __init__(self, *, command: Path, lifeline: Path, directory: Path, options: TemporalOptions) -> None:
        """Nothing runs yet: call `start`.

        Args:
            command: the ``temporal`` command line.
            lifeline: the control plane's binary, which ends the server when we end.
            directory: for the log.
            options: see there.
        """
        self.address = ""
        self.ui_url = ""
        self._command = command
        self._lifeline = lifeline
        self._log = directory / "temporal.log"
        self._options = options
        self._ports: list[int] = []
        self._process: Process | None = None

    @property
    def running(self) -> bool:
        """Whether the server's process is there."""
        return self._process is not None and self._process.running

    async def start(self) -> None:
        """Start, on the same ports as before if there was a before, and wait until the namespace answers.

        Raises:
            UnavailableError: it ended, or was not ready in time.
        """
        chosen = bool(self._ports)
        await retry_ports(lambda: self._start(self._ports if chosen else free_ports(self._ports_wanted)))

    async def stop(self) -> None:
        """End the server in order, as an operator would. Without a database file all is lost."""
        if self._process is not None:
            await self._process.stop()
            await self._until_closed()

    async def kill(self) -> None:
        """End the server as a crash would."""
        if self._process is not None:
            await self._process.kill()
            await self._until_closed()

    async def remove(self) -> None:
        """End all that belongs to the server, for good."""
        await self.kill()

    async def _start(self, ports: list[int]) -> None:
        self._ports = ports
        self.address = f"127.0.0.1:{ports[0]}"
        self._process = await Process.start(
            "temporal",
            [*(self._lifeline, "lifeline", "--"), *self._invocation(ports)],
            log=self._log,
            environment={**GO, **self._environment(ports)},
        )
        try:
            await self._process.until(self._serving, within=_READY_WITHIN)
        except BaseException:
            await self._process.kill()
            raise

    def _invocation(self, ports: list[int]) -> list[str | Path]:
        """Give program and arguments; the first port is the frontend's."""
        frontend, http, metrics, ui = ports
        self.ui_url = f"http://127.0.0.1:{ui}"
        database = [f"--db-filename={self._options.database}"] if self._options.database else []
        attributes = [f"--search-attribute={n}={t}" for n, t in self._options.search_attributes.items()]
        return [
            *(self._command, "server", "start-dev"),
            *("--ip=127.0.0.1", f"--port={frontend}", f"--http-port={http}", f"--metrics-port={metrics}"),
            *("--ui-ip=127.0.0.1", f"--ui-port={ui}", "--log-level=warn"),
            *database,
            *attributes,
            *self._options.flags,
        ]

    def _environment(self, ports: list[int]) -> Mapping[str, str]:  # noqa: ARG002 - others need them
        """Give what is added to our environment."""
        return {"TEMPORAL_DISABLE_NEWS_FETCH": "true"}

    async def _until_closed(self) -> None:
        """Wait until the port is closed: we can wait for our child, not for the server, which is its child."""
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self._ports[0])
            except OSError:
                return
            writer.close()
            await asyncio.sleep(POLL)

    async def _serving(self) -> bool:
        """Tell whether the namespace is there; a port that is open promises less."""
        try:
            async with asyncio.timeout(2):
                client = await ServiceClient.connect(ConnectConfig(target_host=self.address))
                await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=NAMESPACE))
        except (RPCError, RuntimeError, TimeoutError):  # the client tells a refused connection as RuntimeError
            return False
        return True
