"""A scripted HTTP server, which is no API server: it says what a real one cannot be made to say on command.

ERROR events, empty 200 answers, cut streams, odd objects and odd bodies. What a real API server does is tested on one.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from k8s.gateway import Gateway

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Asked:
    """One request as it came in."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    peer: tuple[str, int]
    body: bytes = b""

    @property
    def watches(self) -> bool:
        """Whether it opened a watch."""
        return "watch" in self.query


@dataclass
class Scripted:
    """Answers requests in the order of ``script``; what comes after its end waits for ever.

    Attributes:
        script: answers still to be given.
        asked: requests so far.
        open: streams that the server holds open now.
    """

    url: str = ""
    script: deque[Answer] = field(default_factory=deque)
    asked: list[Asked] = field(default_factory=list)
    open: int = 0
    moved: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition on this server holds; it is looked at whenever a request comes or a stream ends."""
        async with asyncio.timeout(10), self.moved:
            await self.moved.wait_for(holds)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Note the request, and give the next answer."""
        peer = request.transport.get_extra_info("peername") if request.transport else ("", 0)
        body = await request.read()
        async with self.moved:
            self.asked.append(
                Asked(
                    request.method, request.raw_path.partition("?")[0], dict(request.query), request.headers, peer, body
                )
            )
            self.open += 1
            self.moved.notify_all()
        try:
            answer = self.script.popleft() if self.script else silence()
            return await answer(request)
        finally:
            self.open -= 1
            asyncio.get_running_loop().create_task(self._notify())

    async def _notify(self) -> None:
        async with self.moved:
            self.moved.notify_all()

    def kubeconfig(self, directory: Path, user: Mapping[str, Any] | None = None) -> str:
        """Write a kubeconfig for this server, and give its path."""
        file = directory / "kubeconfig"
        content = {
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": dict(user or {})}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        file.write_text(json.dumps(content))
        return str(file)


@asynccontextmanager
async def serving() -> AsyncIterator[Scripted]:
    """Run a scripted server on a free port of this machine."""
    server = Scripted()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    server.url = f"http://{host}:{port}"
    try:
        yield server
    finally:
        await runner.cleanup()


@asynccontextmanager
async def scripted(directory: Path) -> AsyncIterator[tuple[Scripted, Gateway]]:
    """Run a scripted server and a gateway to it."""
    async with serving() as server, await Gateway.connect(kubeconfig=server.kubeconfig(directory)) as gateway:
        yield server, gateway


def says(status: int, body: object = None, **headers: str) -> Answer:
    """Answer with a status and JSON (or raw bytes)."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(
            status=status,
            body=data,
            headers={"Content-Type": "application/json"} | {k.replace("_", "-"): v for k, v in headers.items()},
        )

    return answer


def listing(version: str | None, *items: object, continued: str = "") -> Answer:
    """Answer with one page of a list."""
    metadata = {"resourceVersion": version, "continue": continued} if continued else {"resourceVersion": version}
    return says(200, {"metadata": metadata, "items": list(items)})


def streams(*lines: object, then: Answer | None = None) -> Answer:
    """Answer with a watch of these events (or raw bytes), then end it properly, or go on as ``then`` says."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for line in lines:
            await response.write(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
        if then is not None:
            await then(request)
        return response

    return answer


def silence() -> Answer:
    """Keep the connection open, and say nothing."""

    async def answer(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    return answer


def cut() -> Answer:
    """Break the connection."""

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    return answer


def event(kind: str, object_: object) -> dict[str, object]:
    """Build one watch event."""
    return {"type": kind, "object": object_}


def status(code: int, reason: str = "", message: str = "", **details: object) -> dict[str, object]:
    """Build a Status object."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }
