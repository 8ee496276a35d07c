"""A real Prometheus, where the machine has one: told what to scrape, asked by its HTTP API, and ended with the test."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

from k8s.lab.build import ensure_binary
from k8s.lab.process import Process, free_ports

PROGRAM: Final = shutil.which("prometheus")

needs_prometheus = pytest.mark.skipif(
    PROGRAM is None, reason="no prometheus on the PATH; on Debian: apt-get install prometheus"
)


@dataclass(frozen=True)
class RunningPrometheus:
    """One that runs.

    Attributes:
        address: ``http://host:port``.
    """

    address: str
    process: Process

    async def asked(self, path: str, **params: str) -> Any:
        """Ask its API for something; None while it does not answer."""
        try:
            url = f"{self.address}/api/v1/{path}"
            async with aiohttp.ClientSession() as session, session.get(url, params=params) as answer:
                return (await answer.json())["data"]
        except (aiohttp.ClientError, KeyError):
            return None


@asynccontextmanager
async def running(configuration: Path) -> AsyncIterator[RunningPrometheus]:
    """Run one by this file, with its data beside it."""
    assert PROGRAM is not None
    address = f"127.0.0.1:{free_ports(1)[0]}"
    flags = (f"--config.file={configuration}", f"--storage.tsdb.path={configuration.parent}/data")
    binary = await asyncio.to_thread(ensure_binary)
    process = await Process.start(
        "prometheus",
        [binary, "lifeline", "--", PROGRAM, *flags, f"--web.listen-address={address}"],
        log=configuration.with_name("prometheus.log"),
    )
    try:
        yield RunningPrometheus(f"http://{address}", process)
    finally:
        await process.kill()


@asynccontextmanager
async def scraped(registry: CollectorRegistry, directory: Path) -> AsyncIterator[RunningPrometheus]:
    """Run one that scrapes this registry every second."""

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": "text/plain; version=0.0.4"})

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    configuration = directory / "prometheus.yml"
    job = f'{{job_name: test, static_configs: [{{targets: ["{host}:{port}"]}}]}}'
    configuration.write_text(f"global: {{scrape_interval: 1s}}\nscrape_configs: [{job}]\n", encoding="utf-8")
    try:
        async with running(configuration) as prometheus:
            yield prometheus
    finally:
        await runner.cleanup()
