"""Sickbay beside a lab: processes of its own, as in a cluster, which cannot outlive us."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp
import yaml

from k8s.lab.build import ensure_binary
from k8s.lab.lab import Lab
from k8s.lab.process import Process, free_ports
from sickbay.model.policy import Policy

_LEADS: Final = b"\nsickbay_leading 1.0\n"
"""The line of its metrics that says that it leads."""


@dataclass(frozen=True)
class SickbayProcess:
    """A ``sickbay run``, ``watcher`` or ``worker``.

    Attributes:
        process: to end it, and its log.
        health: address of its ``/healthz``, ``/readyz`` and ``/metrics``.
    """

    process: Process
    health: str

    @classmethod
    async def start(
        cls, lab: Lab, command: str = "run", *, policy: Policy, kubeconfig: Path | None = None, name: str = ""
    ) -> SickbayProcess:
        """Start one; it is not yet ready.

        Args:
            lab: in which it acts.
            command: of ``sickbay``.
            policy: in force.
            kubeconfig: it acts by; that of Sickbay's own account by default.
            name: of its log in the lab's directory; ``sickbay-`` and the command by default.
        """
        name = name or f"sickbay-{command}"
        file = lab.directory / f"{name}-policy.yaml"
        file.write_text(yaml.safe_dump(policy.model_dump(mode="json", by_alias=True)), encoding="utf-8")
        account = kubeconfig or await lab.kubeconfig_for("sickbay", "sickbay")
        address = f"127.0.0.1:{free_ports(1)[0]}"
        process = await Process.start(
            f"sickbay {command}",
            [
                *(await asyncio.to_thread(ensure_binary), "lifeline", "--", sys.executable, "-m", "sickbay", command),
                *(f"--kubeconfig={account}", f"--temporal-address={lab.temporal.address}"),
                *([] if command == "worker" else [f"--policy={file}"]),
                *(f"--listen={address}", "--log-format=json"),
            ],
            log=lab.directory / f"{name}.log",
            environment={
                **{variable: "" for variable in os.environ if variable.startswith("SICKBAY_")},
                # Compiled once, as an installed wheel is: the workflow sandbox loads a module anew for each incident.
                "PYTHONDONTWRITEBYTECODE": "",
                "PYTHONPYCACHEPREFIX": str(lab.directory / "pycache"),
            },
        )
        return cls(process, f"http://{address}")

    async def ready(self, *, but: Iterable[str] = (), within: float = 60.0) -> None:
        """Wait until it says that nothing is missing, or nothing but these.

        Raises:
            UnavailableError: it ended, or was not ready in time; the text names its log.
        """
        allowed = set(but)

        async def answers() -> bool:
            missing = await self._missing()
            return missing is not None and missing <= allowed

        await self.process.until(answers, within=within)

    async def acts(self, *, within: float = 60.0) -> None:
        """Wait until it leads, has begun its term, and nothing is missing; one that stands by never comes to that.

        Raises:
            UnavailableError: it ended, or did not lead in time; the text names its log.
        """

        async def answers() -> bool:
            # In this order: who leads is ready only once its term has begun.
            return _LEADS in await self._get("metrics") and await self._missing() == set()

        await self.process.until(answers, within=within)

    async def _missing(self) -> set[str] | None:
        """Ask what is missing; None while it does not answer."""
        try:
            return set(json.loads(await self._get("readyz"))["missing"])
        except ValueError:
            return None

    async def _get(self, page: str) -> bytes:
        """Read one of its pages; empty while it does not answer."""
        try:
            async with aiohttp.ClientSession() as session, session.get(f"{self.health}/{page}") as answer:
                return await answer.read()
        except aiohttp.ClientError:
            return b""
