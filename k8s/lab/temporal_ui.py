"""Temporal's web UI as a process of its own: the dev server has one inside, the real server has none."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import aiohttp
import yaml

from k8s.lab.process import GO, Process, free_ports, retry_ports

_READY_WITHIN: Final = 30.0


class TemporalUi:
    """A UI server that shows one Temporal server.

    Attributes:
        url: of the UI; empty before the start.
    """

    def __init__(self, *, program: Path, lifeline: Path, directory: Path) -> None:
        """Nothing runs yet: call `start`.

        Args:
            program: the UI server, see `k8s.lab.build`.
            lifeline: the control plane's binary, which ends the server when we end.
            directory: for configuration and log.
        """
        self.url = ""
        self._program = program
        self._lifeline = lifeline
        self._directory = directory
        self._process: Process | None = None

    async def start(self, temporal: str) -> None:
        """Start, and wait until it serves pages.

        Args:
            temporal: ``host:port`` of the frontend, which need not answer yet.

        Raises:
            UnavailableError: it ended, or was not ready in time.
        """
        await retry_ports(lambda: self._start(temporal))

    async def kill(self) -> None:
        """End it."""
        if self._process is not None:
            await self._process.kill()

    async def _start(self, temporal: str) -> None:
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        configuration = {
            "temporalGrpcAddress": temporal,
            "host": "127.0.0.1",  # all addresses, if nothing is said
            "port": port,
            "enableUi": True,
            "defaultNamespace": "default",
            "disableNewsFetch": True,
            "cors": {"allowOrigins": [self.url], "cookieInsecure": True},
        }
        folder = self._directory / "temporal-ui"
        folder.mkdir(exist_ok=True)
        (folder / "lab.yaml").write_text(yaml.safe_dump(configuration), encoding="utf-8")
        self._process = await Process.start(
            "temporal-ui",
            [
                *(self._lifeline, "lifeline", "--", self._program),
                *(f"--root={self._directory}", "--config=temporal-ui", "--env=lab", "start"),
            ],
            log=self._directory / "temporal-ui.log",
            environment=GO,
        )
        try:
            await self._process.until(self._serving, within=_READY_WITHIN)
        except BaseException:
            await self._process.kill()
            raise

    async def _serving(self) -> bool:
        try:
            async with aiohttp.ClientSession() as session, session.get(f"{self.url}/healthz") as answer:
                return answer.ok
        except aiohttp.ClientError:
            return False
