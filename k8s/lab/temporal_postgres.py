"""Temporal as it runs in production: the server itself, on PostgreSQL, in place of the dev server."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import CountWorkflowExecutionsRequest, RegisterNamespaceRequest
from temporalio.service import ConnectConfig, RPCError, RPCStatusCode, ServiceClient

from k8s.lab.postgres import Login, Postgres
from k8s.lab.temporal import NAMESPACE, TemporalOptions, TemporalServer
from k8s.lab.temporal_ui import TemporalUi
from sickbay import errors

ENVIRONMENT: Final[Mapping[str, str]] = {
    "DB": "postgres12",
    "POSTGRES_USER": "temporal",
    "POSTGRES_PWD": "temporal",
    "DBNAME": "temporal",
    "VISIBILITY_DBNAME": "temporal_visibility",
    "NUM_HISTORY_SHARDS": "4",
    "LOG_LEVEL": "warn",
    "TEMPORAL_ALLOW_NO_AUTH": "true",
}
"""What the server is told besides addresses and ports, which a lab chooses itself."""

_RETENTION: Final = Duration(seconds=24 * 3600)
_SERVICES: Final = ("FRONTEND", "HISTORY", "MATCHING", "WORKER")
_SCHEMA: Final = "postgresql/v12"
"""Of the two schemas that are in the tool; fit for every later version, too."""


@dataclass(frozen=True)
class PostgresOptions:
    """How a server on PostgreSQL differs from the usual.

    Attributes:
        environment: of the server, in the names of its official image; addresses and ports in it are replaced by the
            lab's own.
        ui: whether to run the web UI, too.
    """

    environment: Mapping[str, str] = field(default_factory=lambda: ENVIRONMENT)
    ui: bool = True


class TemporalOnPostgres(TemporalServer):
    """A Temporal server that keeps everything in PostgreSQL; the two can be killed and started apart.

    Attributes:
        address: ``host:port`` of the gRPC frontend; namespace `NAMESPACE`.
        ui_url: of the web UI; empty if there is none.
        metrics_url: of the server's own metrics.
        database: the PostgreSQL server.
    """

    _ports_wanted: ClassVar = 2 * len(_SERVICES) + 2

    def __init__(
        self,
        *,
        programs: Path,
        postgres: Path,
        ui: Path | None,
        lifeline: Path,
        directory: Path,
        options: PostgresOptions,
    ) -> None:
        """Nothing runs yet: call `start`.

        Args:
            programs: directory of ``server`` and ``sql``, see `k8s.lab.build`.
            postgres: directory of PostgreSQL's programs.
            ui: the UI server, None for none.
            lifeline: the control plane's binary, which ends the servers when we end.
            directory: for logs and data.
            options: see there.
        """
        super().__init__(command=programs / "server", lifeline=lifeline, directory=directory, options=TemporalOptions())
        self.metrics_url = ""
        self._ui = None if ui is None else TemporalUi(program=ui, lifeline=lifeline, directory=directory)
        self._tool = programs / "sql"
        self._directory = directory
        self._given = options.environment
        login = Login(user=self._given["POSTGRES_USER"], password=self._given["POSTGRES_PWD"])
        self.database = Postgres(programs=postgres, lifeline=lifeline, directory=directory, login=login)

    async def start(self) -> None:
        """Start the database and then the server, whichever does not run, and wait until the namespace answers.

        Raises:
            UnavailableError: one of them ended, or was not ready in time.
        """
        if not self.database.running:
            await self.database.start()
        if not self._ports:
            await asyncio.to_thread(self._make_schemas)
        await super().start()
        if self._ui is not None and not self.ui_url:
            await self._ui.start(self.address)
            self.ui_url = self._ui.url

    async def remove(self) -> None:
        """End all of it for good, and remove the data."""
        if self._ui is not None:
            await self._ui.kill()
        await self.kill()
        await self.database.remove()

    def _make_schemas(self) -> None:
        """Make databases and tables, as deploy/temporal/schema.sh does; what is there stays."""
        for database, schema in (
            (self._given["DBNAME"], f"{_SCHEMA}/temporal"),
            (self._given["VISIBILITY_DBNAME"], f"{_SCHEMA}/visibility"),
        ):
            self._run_tool(database, "create")
            self._run_tool(database, "setup-schema", "-v", "0.0")
            self._run_tool(database, "update-schema", "--schema-name", schema)

    def _run_tool(self, database: str, *verb: str) -> None:
        where = {
            "SQL_PLUGIN": self._given["DB"],
            "SQL_HOST": "127.0.0.1",
            "SQL_PORT": str(self.database.port),
            "SQL_USER": self._given["POSTGRES_USER"],
            "SQL_PASSWORD": self._given["POSTGRES_PWD"],
        }
        done = subprocess.run(  # noqa: S603 - a program that we built, fixed arguments
            [self._tool, "--db", database, *verb],
            env=where,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        with self._log.open("ab") as log:
            log.write(done.stdout)
        if done.returncode != 0:
            raise errors.UnavailableError(f"Temporal's tables could not be made ({' '.join(verb)}); see {self._log}")

    def _invocation(self, ports: list[int]) -> list[str | Path]:
        self.metrics_url = f"http://127.0.0.1:{ports[1]}/metrics"
        return [self._command, "start"]

    def _environment(self, ports: list[int]) -> Mapping[str, str]:
        frontend, metrics, http, *others = ports
        dynamic = self._directory / "temporal-dynamic.yaml"
        dynamic.write_text("{}\n", encoding="utf-8")  # without the file the server does not start
        services = [frontend, *others]
        names = [f"{service}_{kind}_PORT" for kind in ("GRPC", "MEMBERSHIP") for service in _SERVICES]
        return {
            **self._given,
            "DB_PORT": str(self.database.port),
            "POSTGRES_SEEDS": "127.0.0.1",
            "BIND_ON_IP": "127.0.0.1",
            "TEMPORAL_BROADCAST_ADDRESS": "127.0.0.1",
            "FRONTEND_HTTP_PORT": str(http),
            "PROMETHEUS_ENDPOINT": f"127.0.0.1:{metrics}",
            "DYNAMIC_CONFIG_FILE_PATH": str(dynamic),
            **{name: str(port) for name, port in zip(names, services, strict=True)},
        }

    async def _serving(self) -> bool:
        """Tell whether the namespace takes work; made here if it is not there, for a server has none of itself."""
        try:
            async with asyncio.timeout(2):
                client = await ServiceClient.connect(ConnectConfig(target_host=self.address))
                service = client.workflow_service
                try:
                    await service.count_workflow_executions(CountWorkflowExecutionsRequest(namespace=NAMESPACE))
                except RPCError as error:
                    if error.status is RPCStatusCode.NOT_FOUND:
                        await service.register_namespace(
                            RegisterNamespaceRequest(
                                namespace=NAMESPACE, workflow_execution_retention_period=_RETENTION
                            )
                        )
                    return False
        except (RPCError, RuntimeError, TimeoutError):  # the client tells a refused connection as RuntimeError
            return False
        return True
