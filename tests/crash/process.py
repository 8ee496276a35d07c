"""One ``sickbay run``, as in a cluster: a process of its own, under its own account; here behind a fault proxy."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from k8s.lab.lab import Lab
from k8s.lab.proxy import FaultProxy
from k8s.lab.sickbay_process import SickbayProcess
from sickbay.model.policy import Policy
from tests.crash.waiting import until

_PATIENCE: Final = 60.0
"""Seconds for what takes a few on a quiet machine."""


class Sickbay:
    """A running ``sickbay run``; make one by `Sickbay.start`.

    Attributes:
        proxy: which it alone goes through.
    """

    def __init__(self, sickbay: SickbayProcess, proxy: FaultProxy) -> None:
        self.proxy = proxy
        self._sickbay = sickbay
        self._process = sickbay.process

    @classmethod
    async def start(cls, lab: Lab, proxy: FaultProxy, *, account: Path, policy: Policy, name: str) -> Sickbay:
        """Start the process; it is not yet ready.

        Args:
            lab: in which it acts.
            proxy: to go through.
            account: kubeconfig of its service account.
            policy: in force.
            name: of its log.
        """
        return cls(
            await SickbayProcess.start(lab, policy=policy, kubeconfig=proxy.kubeconfig(account), name=name), proxy
        )

    async def started(self) -> bool:
        """Wait until it has found all that it needs to run; False if it ended instead."""

        async def decided() -> bool:
            return not self._process.running or bool(self.said("process_started"))

        await until("sickbay run starts or ends", decided, within=_PATIENCE)
        return self._process.running

    async def ready(self, *, but: Iterable[str] = ()) -> None:
        """Wait until it says that nothing is missing, or nothing but these."""
        await self._sickbay.ready(but=but, within=_PATIENCE)

    @property
    def health(self) -> str:
        """Address of its health endpoints and metrics."""
        return self._sickbay.health

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

    async def stop(self) -> None:
        """End it as a Deployment does: it gives up its Lease, so that the next one need not wait for it."""
        await self._process.stop(grace=10)
