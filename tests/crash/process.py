"""One ``sickbay run``, as in a cluster: a process of its own, under its own account; here behind a fault proxy."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import aiohttp

from k8s.lab.process import Process, free_ports
from k8s.lab.proxy import FaultProxy
from tests.crash.waiting import until

_PATIENCE: Final = 60.0
"""Seconds for what takes a few on a quiet machine."""


class Sickbay:
    """A running ``sickbay run``; make one by `Sickbay.start`.

    Attributes:
        proxy: which it alone goes through.
    """

    def __init__(self, process: Process, proxy: FaultProxy, health: str) -> None:
        self.proxy = proxy
        self._process = process
        self._health = health

    @classmethod
    async def start(
        cls, proxy: FaultProxy, *, account: Path, policy: Path, temporal: str, lifeline: Path, log: Path
    ) -> Sickbay:
        """Start the process; it is not yet ready.

        Args:
            proxy: to go through.
            account: kubeconfig of its service account.
            policy: file.
            temporal: address.
            lifeline: the control plane's binary, which ends the process should the tests be killed.
            log: file for its output.
        """
        address = f"127.0.0.1:{free_ports(1)[0]}"
        process = await Process.start(
            "sickbay run",
            [
                *(lifeline, "lifeline", "--", sys.executable, "-m", "sickbay", "run"),
                *(f"--kubeconfig={proxy.kubeconfig(account)}", f"--policy={policy}", f"--temporal-address={temporal}"),
                *(f"--listen={address}", "--log-format=json"),
            ],
            log=log,
            environment={name: "" for name in os.environ if name.startswith("SICKBAY_")},
        )
        return cls(process, proxy, f"http://{address}")

    async def started(self) -> bool:
        """Wait until it has found all that it needs to run; False if it ended instead."""

        async def decided() -> bool:
            return not self._process.running or bool(self.said("process_started"))

        await until("sickbay run starts or ends", decided, within=_PATIENCE)
        return self._process.running

    async def ready(self, *, but: Iterable[str] = ()) -> None:
        """Wait until it says that nothing is missing, or nothing but these."""

        async def asked() -> bool:
            self.check()
            try:
                async with aiohttp.ClientSession() as session, session.get(f"{self._health}/readyz") as answer:
                    return set((await answer.json())["missing"]) <= set(but)
            except aiohttp.ClientError:
                return False

        await until("sickbay run is ready", asked, within=_PATIENCE)

    def check(self) -> None:
        """Make sure that it has not ended by itself."""
        assert self._process.running, f"sickbay run ended: {self._process.log.read_text(encoding='utf-8')[-2000:]}"

    def said(self, event: str, **facts: str) -> list[dict[str, Any]]:
        """Give what it logged of this event, with these values."""
        lines = self._process.log.read_bytes().splitlines(keepends=True)
        told = (json.loads(line) for line in lines if line.startswith(b"{") and line.endswith(b"\n"))
        wanted = {"event": event, **facts}
        return [line for line in told if wanted.items() <= line.items()]

    async def says(self, event: str, *, within: float = _PATIENCE, **facts: str) -> dict[str, Any]:
        """Wait until it has logged this event, and give the first."""

        async def said() -> list[dict[str, Any]]:
            self.check()
            return self.said(event, **facts)

        return (await until(f"it logs {event} {facts}", said, within=within))[0]

    def sleep(self) -> None:
        """Stop it in the middle of whatever it does, as a machine that hangs."""
        os.killpg(self._process.pid, signal.SIGSTOP)

    def wake(self) -> None:
        """Let it go on."""
        os.killpg(self._process.pid, signal.SIGCONT)

    async def kill(self) -> None:
        """End it as a crash does."""
        await self._process.kill()
