"""etcd, kube-apiserver, kube-controller-manager and kube-scheduler of one lab, as processes on loopback."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

import aiohttp
import yaml

from k8s.lab import kubeconfig, pki
from k8s.lab.process import GO, Process, free_ports, retry_ports, together

ADMIN: Final = "admin"
NODES: Final = "nodes"
"""The stand-in nodes' own user, so that the audit log tells them from everybody else."""

_CONTROLLER_MANAGER: Final = "system:kube-controller-manager"
_SCHEDULER: Final = "system:kube-scheduler"
_USERS: Final = {ADMIN: "system:masters", NODES: "system:masters", _CONTROLLER_MANAGER: "", _SCHEDULER: ""}
_AUDIT_POLICY: Final = Path(__file__).with_name("audit-policy.yaml")
_READY_WITHIN: Final = 120.0
"""Seconds for one component. Two or three are normal; a machine that compiles at the same time takes longer."""


@dataclass(frozen=True)
class ControlPlaneOptions:
    """How a control plane differs from the usual.

    Attributes:
        node_grace: after which a node that renews nothing is NotReady (Kubernetes: 50 s). Keep it above twice the
            nodes' renewal interval.
        fsync: whether etcd waits for the disk. Only a machine that loses power needs it.
        flags: further command line flags by component: etcd, apiserver, controller-manager, scheduler.
    """

    node_grace: timedelta = timedelta(seconds=25)
    fsync: bool = False
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class ControlPlane:
    """The components of one lab, between `start` and `stop`.

    Args:
        binary: from `k8s.lab.build`.
        directory: for certificates, data, logs and kubeconfigs.
        options: see there.

    Attributes:
        authority: its certificates.
        url: base URL of the API server.
        audit_log: JSON lines, written before each request's answer goes out.
    """

    def __init__(self, binary: Path, directory: Path, options: ControlPlaneOptions) -> None:
        self.audit_log = directory / "audit.jsonl"
        self.authority: pki.Authority
        self.url = ""
        self._binary = binary
        self._directory = directory
        self._options = options
        self._processes: dict[str, Process] = {}
        self._etcd_url = ""
        self._tls = ssl.create_default_context()

    async def start(self) -> None:
        """Start all components and wait until each says that it is ready.

        Raises:
            UnavailableError: a component ended, or was not ready in time; call `stop` all the same.
        """
        self.authority = await asyncio.to_thread(pki.create, self._directory / "pki", _USERS)
        self._tls = ssl.create_default_context(cafile=str(self.authority.certificate))
        await retry_ports(self._etcd)
        await retry_ports(self._api_server)
        for user, pair in self.authority.users.items():
            kubeconfig.write(
                self.kubeconfig_of(user),
                server=self.url,
                authority=self.authority.certificate,
                user=kubeconfig.by_certificate(pair),
            )
        await together(retry_ports(self._controller_manager), retry_ports(self._scheduler))

    @property
    def processes(self) -> Mapping[str, Process]:
        """The components by name."""
        return self._processes

    def kubeconfig_of(self, user: str) -> Path:
        """The kubeconfig of one of our own users (`ADMIN`, `NODES`)."""
        return self._directory / f"{user.removeprefix('system:')}.kubeconfig"

    async def kill_api_server(self) -> None:
        """End the API server as a crash does; etcd keeps everything."""
        await self._processes["apiserver"].kill()

    async def start_api_server(self) -> None:
        """Start the API server again on its old port, and wait until it is ready."""
        port = int(self.url.rpartition(":")[2])
        await retry_ports(lambda: self._api_server(port))

    async def stop(self) -> None:
        """End all components at once: what they hold dies with the lab."""
        await together(*(process.kill() for process in self._processes.values()))

    async def _etcd(self) -> None:
        client, peer = (f"http://127.0.0.1:{port}" for port in free_ports(2))
        self._etcd_url = client
        flags = [
            f"--data-dir={self._directory / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--log-level=warn",
            *([] if self._options.fsync else ["--unsafe-no-fsync"]),
        ]
        await self._component("etcd", flags, f"{client}/health")

    async def _api_server(self, port: int | None = None) -> None:
        port = port or free_ports(1)[0]
        keys = self.authority
        self.url = f"https://127.0.0.1:{port}"
        flags = [
            f"--etcd-servers={self._etcd_url}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={keys.server.certificate}",
            f"--tls-private-key-file={keys.server.key}",
            f"--client-ca-file={keys.certificate}",
            "--authorization-mode=RBAC",
            "--allow-privileged=true",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none",  # a loopback address is no valid endpoint
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={keys.service_accounts.certificate}",
            f"--service-account-signing-key-file={keys.service_accounts.key}",
            f"--audit-policy-file={_AUDIT_POLICY}",
            f"--audit-log-path={self.audit_log}",
            "--audit-log-maxsize=100000",  # megabytes; a reader must not lose its place to a rotation
        ]
        await self._component("apiserver", flags, f"{self.url}/readyz")

    async def _controller_manager(self) -> None:
        port = free_ports(1)[0]
        flags = [
            f"--kubeconfig={self.kubeconfig_of(_CONTROLLER_MANAGER)}",
            *self._serving(port),
            "--leader-elect=false",
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={self.authority.service_accounts.key}",
            f"--root-ca-file={self.authority.certificate}",
            "--node-monitor-period=1s",
            f"--node-monitor-grace-period={self._options.node_grace.total_seconds():g}s",
            "--kube-api-qps=500",  # the usual 20 would make a burst of jobs a test of client-side rate limits
            "--kube-api-burst=1000",
        ]
        await self._component("controller-manager", flags, f"https://127.0.0.1:{port}/healthz")

    async def _scheduler(self) -> None:
        port = free_ports(1)[0]
        path = self._directory / "scheduler.yaml"
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(self.kubeconfig_of(_SCHEDULER)), "qps": 1000, "burst": 2000},
            "leaderElection": {"leaderElect": False},
        }
        path.write_text(yaml.safe_dump(configuration), encoding="utf-8")
        await self._component(
            "scheduler", [f"--config={path}", *self._serving(port)], f"https://127.0.0.1:{port}/readyz"
        )

    def _serving(self, port: int) -> list[str]:
        return [
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={self.authority.server.certificate}",
            f"--tls-private-key-file={self.authority.server.key}",
            "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
        ]

    async def _component(self, name: str, flags: list[str], health: str) -> None:
        """Start one component and wait for its health URL to answer 200."""
        process = await Process.start(
            name,
            [self._binary, name, *flags, *self._options.flags.get(name, ())],
            log=self._directory / f"{name}.log",
            environment=GO,
        )
        self._processes[name] = process
        async with aiohttp.ClientSession() as session:
            await process.until(_healthy(session, health, self._tls), within=_READY_WITHIN)


def _healthy(session: aiohttp.ClientSession, url: str, tls: ssl.SSLContext) -> Callable[[], Awaitable[bool]]:
    async def healthy() -> bool:
        try:
            async with session.get(url, ssl=tls, timeout=aiohttp.ClientTimeout(total=2)) as answer:
                return answer.status == 200  # noqa: PLR2004
        except (aiohttp.ClientError, TimeoutError):
            return False

    return healthy
