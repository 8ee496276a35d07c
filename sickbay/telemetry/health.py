"""What a process says of itself over HTTP: ``/healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from sickbay.errors import UsageError
from sickbay.telemetry.metrics import Metrics

NOT_YET: Final = "not reached yet"


@dataclass(frozen=True)
class Check:
    """One thing that a process needs.

    Attributes:
        ok: whether it has it now.
        message: what is missing, for people; "" if nothing is.
    """

    ok: bool = False
    message: str = NOT_YET


class Readiness:
    """Named checks of one process; each is wanting until its owner says otherwise.

    A check is told (`has`, `lacks`) or asked (`asks`), whichever suits its owner.
    """

    def __init__(self, *names: str) -> None:
        self._checks: dict[str, Callable[[], Check]] = {}
        for name in names:
            self.lacks(name, NOT_YET)

    def has(self, name: str) -> None:
        """Say that this check is fulfilled."""
        self._told(name, Check(ok=True, message=""))

    def lacks(self, name: str, message: str) -> None:
        """Say what is missing."""
        self._told(name, Check(ok=False, message=message))

    def asks(self, name: str, check: Callable[[], Check]) -> None:
        """Ask this function at each request."""
        self._checks[name] = check

    def read(self) -> dict[str, Check]:
        """Give all checks as they are now."""
        return {name: check() for name, check in self._checks.items()}

    def _told(self, name: str, check: Check) -> None:
        self._checks[name] = lambda: check


@asynccontextmanager
async def serving(listen: str, readiness: Readiness, metrics: Metrics) -> AsyncIterator[str]:
    """Serve health and metrics while the context is open; yields the address that is listened on.

    Args:
        listen: ``host:port``; port 0 picks a free one.
        readiness: checks behind ``/readyz``.
        metrics: behind ``/metrics``.

    Raises:
        UsageError: the address cannot be listened on.
    """
    host, _, port = listen.rpartition(":")
    runner = web.AppRunner(_application(readiness, metrics), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host.strip("[]"), int(port))
        try:
            await site.start()
        except OSError as error:
            remedy = "choose another with --listen (port 0 takes any free one)"
            raise UsageError(f"listen: cannot listen on {listen}: {error.strerror or error}; {remedy}") from error
        bound_host, bound_port = runner.addresses[0][:2]
        yield f"[{bound_host}]:{bound_port}" if ":" in bound_host else f"{bound_host}:{bound_port}"
    finally:
        await runner.cleanup()


def _application(readiness: Readiness, metrics: Metrics) -> web.Application:
    async def healthz(_: web.Request) -> web.Response:
        """Answering at all is the proof: the event loop runs."""
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        checks = readiness.read()
        missing = [name for name, check in checks.items() if not check.ok]
        body = {"ready": not missing, "missing": missing, "checks": checks}
        return web.Response(
            body=msgspec.json.encode(body), status=503 if missing else 200, content_type="application/json"
        )

    async def exposed(_: web.Request) -> web.Response:
        return web.Response(body=metrics.exposed(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", exposed)])
    return app
