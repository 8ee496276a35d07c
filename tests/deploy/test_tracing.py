"""Collector and Jaeger by the configurations that Compose mounts, as processes: what goes in comes out.

Both are programs of other projects that no package index has: where they are not on the PATH the test says so.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import shutil
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import aiohttp
import pytest

from k8s.lab.build import ensure_binary
from k8s.lab.process import Process, free_ports
from tests.crash.waiting import until
from tests.deploy import compose

PROGRAMS = {"otel-collector": "otelcol", "jaeger": "jaeger"}
MISSING = [program for program in PROGRAMS.values() if shutil.which(program) is None]

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(
        bool(MISSING),
        reason=f"not on the PATH: {', '.join(MISSING)}; build otelcol 0.161.0 with its builder, jaeger 1.76.0 with Go",
    ),
]


class Chain(NamedTuple):
    """The two, running.

    Attributes:
        ports: where each listens here, by service and by the port of its configuration.
    """

    ports: dict[tuple[str, int], int]

    def url(self, service: str, port: int) -> str:
        """Give the address of one of them."""
        return f"http://127.0.0.1:{self.ports[service, port]}"


def moved(service: str, directory: Path) -> tuple[Path, dict[tuple[str, int], int]]:
    """Write the configuration that a service mounts with free ports for its own: both share a machine here."""
    (mount,) = compose.services()[service]["volumes"]
    text = Path(mount["source"]).read_text(encoding="utf-8")
    assert f"--config={mount['target']}" in compose.services()[service]["command"]
    own = sorted({int(port) for port in re.findall(r"(?:LISTEN}:|port: )(\d+)", text)})
    ports = dict(zip(own, free_ports(len(own)), strict=True))
    written = directory / Path(mount["source"]).name
    written.write_text(re.sub(r"(LISTEN}:|port: )(\d+)", lambda m: f"{m[1]}{ports[int(m[2])]}", text), encoding="utf-8")
    return written, {(service, port): here for port, here in ports.items()}


@pytest.fixture
async def chain(tmp_path: Path) -> AsyncIterator[Chain]:
    """Run both."""
    lifeline = await asyncio.to_thread(ensure_binary)
    async with AsyncExitStack() as stack:
        files, ports = {}, {}
        for service in PROGRAMS:
            files[service], here = moved(service, tmp_path)
            ports.update(here)
        running = Chain(ports)
        for service, program in PROGRAMS.items():
            told = {**compose.environment(service), "LISTEN": "127.0.0.1"}
            if "JAEGER" in told:
                name, _, port = told["JAEGER"].partition(":")
                told["JAEGER"] = f"127.0.0.1:{ports[name, int(port)]}"
            process = await Process.start(
                service,
                [lifeline, "lifeline", "--", shutil.which(program) or "", f"--config={files[service]}"],
                log=tmp_path / f"{service}.log",
                environment=told,
            )
            stack.push_async_callback(process.kill)
            await process.until(partial(answers, running.url(service, 8888)), within=60)
        yield running


async def answers(url: str) -> bool:
    """Tell whether it shows its own metrics."""
    try:
        async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as answer:
            return answer.ok
    except aiohttp.ClientError:
        return False


def spans(trace: str, names: Iterable[str]) -> dict[str, object]:
    """Write a trace as OTLP's JSON: each span is the child of the one before."""
    now = time.time_ns()
    ids = ["", *(secrets.token_hex(8) for _ in names)]
    written = [
        {
            "traceId": trace,
            "spanId": ids[number],
            "parentSpanId": ids[number - 1],
            "name": name,
            "kind": 1,
            "startTimeUnixNano": str(now),
            "endTimeUnixNano": str(now + 1_000_000),
        }
        for number, name in enumerate(names, 1)
    ]
    service = {"key": "service.name", "value": {"stringValue": "sickbay"}}
    return {"resourceSpans": [{"resource": {"attributes": [service]}, "scopeSpans": [{"spans": written}]}]}


async def test_a_trace_goes_through_the_collector_to_jaeger(chain: Chain) -> None:
    """Sent to where the compose file has Sickbay send it, and asked for by its id where a person looks."""
    endpoint = compose.environment("sickbay")["SICKBAY_OTLP_ENDPOINT"]
    port = int(endpoint.rpartition(":")[2])
    trace, names = secrets.token_hex(16), ["first bad observation", "fence", "release"]
    async with aiohttp.ClientSession() as session:
        target = f"{chain.url('otel-collector', port)}/v1/traces"
        async with session.post(target, json=spans(trace, names)) as answer:
            assert answer.ok, await answer.text()

        async def shown() -> list[str]:
            async with session.get(f"{chain.url('jaeger', 16686)}/api/traces/{trace}") as answer:
                if not answer.ok:  # not there yet
                    return []
                return [span["operationName"] for one in (await answer.json())["data"] for span in one["spans"]]

        assert sorted(await until("Jaeger has the trace", shown, within=30)) == sorted(names)
