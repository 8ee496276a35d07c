"""One lab: a control plane, perhaps a Temporal server, and nodes; started together, ended together."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from k8s.gateway import Gateway
from k8s.lab.accounts import account_kubeconfig
from k8s.lab.build import TEMPORAL_SERVER, TEMPORAL_UI, ensure_binary, ensure_built, say_on_stderr
from k8s.lab.controlplane import ADMIN, NODES, ControlPlane, ControlPlaneOptions
from k8s.lab.directory import LabDirectory
from k8s.lab.nodes.fleet import Fleet
from k8s.lab.nodes.standin import StandInFleet
from k8s.lab.postgres import find_postgres
from k8s.lab.process import POLL, together
from k8s.lab.temporal import TemporalOptions, TemporalServer
from k8s.lab.temporal_postgres import PostgresOptions, TemporalOnPostgres
from k8s.lab.tools import Say, find_temporal
from sickbay import errors

_ACCOUNT_WITHIN: Final = 30.0
"""Seconds for the controller manager to make a namespace's default account."""


class Lab:
    """A running lab; make one by `Lab.start`.

    Attributes:
        directory: of this lab alone, removed at its end: certificates, data, one log per process.
        control_plane: the components.
        gateway: requests as admin, who may do everything.
        fleet: the nodes.
    """

    def __init__(
        self,
        directory: Path,
        control_plane: ControlPlane,
        gateway: Gateway,
        fleet: Fleet,
        temporal: TemporalServer | None,
    ) -> None:
        self.directory = directory
        self.control_plane = control_plane
        self.gateway = gateway
        self.fleet = fleet
        self._temporal = temporal

    @classmethod
    @asynccontextmanager
    async def start(
        cls,
        *,
        name: str = "",
        control_plane: ControlPlaneOptions | None = None,
        temporal: TemporalOptions | PostgresOptions | None = None,
        say: Say = say_on_stderr,
    ) -> AsyncIterator[Lab]:
        """Run a lab until the block ends; the first one on a machine is built before, which takes minutes.

        Args:
            name: of its directory; ``""`` makes one up.
            control_plane: None for the usual options.
            temporal: the dev server, or the one on PostgreSQL; None starts no Temporal server.
            say: told what is going on while something is built or fetched.

        Raises:
            UsageError: the name is taken or cannot be used.
            UnavailableError: something could not be built, fetched or started; nothing is left running.
        """
        binary = await asyncio.to_thread(ensure_binary, say)
        server_in = await asyncio.to_thread(_find_temporal, temporal, binary, say)
        async with AsyncExitStack() as stack:
            claimed = await asyncio.to_thread(LabDirectory.claim, name or f"{os.getpid()}-{secrets.token_hex(3)}")
            stack.push_async_callback(asyncio.to_thread, claimed.remove)
            plane = ControlPlane(binary, claimed.path, control_plane or ControlPlaneOptions())
            stack.push_async_callback(plane.stop)
            starting = [plane.start()]
            server = server_in(claimed.path)
            if server is not None:
                stack.push_async_callback(server.remove)
                starting.append(server.start())
            await together(*starting)
            gateway = await stack.enter_async_context(await Gateway.connect(kubeconfig=str(plane.kubeconfig_of(ADMIN))))
            await default_account(gateway, "default")
            fleet = await stack.enter_async_context(StandInFleet.start(plane.kubeconfig_of(NODES)))
            yield cls(claimed.path, plane, gateway, fleet, server)

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig."""
        return self.control_plane.kubeconfig_of(ADMIN)

    @property
    def audit_log(self) -> Path:
        """The API server's audit log: JSON lines, see `k8s.lab.audit`."""
        return self.control_plane.audit_log

    @property
    def temporal(self) -> TemporalServer:
        """The Temporal server.

        Raises:
            UsageError: this lab was started without one.
        """
        if self._temporal is None:
            raise errors.UsageError("this lab has no Temporal server; start it with temporal=TemporalOptions()")
        return self._temporal

    async def restart_api_server(self) -> None:
        """End the API server as a crash does, start it again on its old port, wait until it is ready."""
        await self.control_plane.kill_api_server()
        await self.control_plane.start_api_server()

    async def kubeconfig_for(self, namespace: str, service_account: str) -> Path:
        """Write a kubeconfig with a token of a ServiceAccount, valid for a day.

        Raises:
            NotFound: there is no such account.
        """
        return await account_kubeconfig(
            self.gateway,
            self.directory,
            namespace=namespace,
            account=service_account,
            server=self.control_plane.url,
            authority=self.control_plane.authority.certificate,
        )


def _find_temporal(
    options: TemporalOptions | PostgresOptions | None, binary: Path, say: Say
) -> Callable[[Path], TemporalServer | None]:
    """Find or build what a Temporal server is made of, before anything runs; give what makes it in a directory."""
    if options is None:
        return lambda _: None
    if isinstance(options, TemporalOptions):
        command = find_temporal(say)
        return lambda directory: TemporalServer(command=command, lifeline=binary, directory=directory, options=options)
    postgres = find_postgres()
    programs = ensure_built(TEMPORAL_SERVER, say)
    ui = ensure_built(TEMPORAL_UI, say) if options.ui else None
    return lambda directory: TemporalOnPostgres(
        programs=programs, postgres=postgres, ui=ui, lifeline=binary, directory=directory, options=options
    )


async def default_account(gateway: Gateway, namespace: str) -> None:
    """Wait until a namespace has its default ServiceAccount: no pod is admitted before.

    Raises:
        UnavailableError: the controller manager did not make it in time.
    """
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    try:
        async with asyncio.timeout(_ACCOUNT_WITHIN):
            while not await _exists(gateway, path):  # noqa: ASYNC110 - nobody sets an event in this process
                await asyncio.sleep(POLL)
    except TimeoutError as error:
        raise errors.UnavailableError(f"{path} did not appear; see the log of the controller manager") from error


async def _exists(gateway: Gateway, path: str) -> bool:
    try:
        await gateway.request("GET", path)
    except errors.NotFound:
        return False
    return True
