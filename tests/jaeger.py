"""A real Jaeger, where a binary of that name is on the PATH: what it shows is asked by its query API.

It is no dependency of the tests, for no package index has it. docs/tracing.md says how one is built.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from k8s.lab.process import free_ports

_PATIENCE: Final = 20.0


@dataclass(frozen=True)
class Shown:
    """One trace, as Jaeger shows it."""

    spans: list[dict[str, Any]]

    @property
    def roots(self) -> int:
        """Number of spans without a parent."""
        return sum(not _parents(span) for span in self.spans)

    @property
    def orphans(self) -> list[str]:
        """Names of spans whose parent is not there."""
        ids = {span["spanID"] for span in self.spans}
        return [span["operationName"] for span in self.spans if not _parents(span) <= ids]

    @property
    def twice(self) -> list[str]:
        """Ids that more than one span has."""
        return [name for name, count in Counter(span["spanID"] for span in self.spans).items() if count > 1]

    def values(self, key: str) -> set[str]:
        """Give all values of an attribute."""
        return {tag["value"] for span in self.spans for tag in span["tags"] if tag["key"] == key}


@dataclass(frozen=True)
class Jaeger:
    """One that runs.

    Attributes:
        endpoint: takes OTLP over HTTP.
        query: address of its query API.
    """

    endpoint: str
    query: str

    def trace(self, trace_id: str) -> Shown:
        """Ask for a trace."""
        (trace,) = self.ask(f"traces/{trace_id}")["data"]
        return Shown(trace["spans"])

    def ask(self, what: str) -> dict[str, Any]:
        """Ask its query API."""
        with urllib.request.urlopen(f"{self.query}/api/{what}") as answer:  # noqa: S310 - our own address
            told: dict[str, Any] = json.load(answer)
            return told


@contextmanager
def jaeger_if_there(directory: Path) -> Iterator[Jaeger | None]:
    """Run Jaeger with its traces in memory until the end of the block; None without one."""
    binary = shutil.which("jaeger")
    if binary is None:
        yield None
        return
    otlp, http, grpc = (f"127.0.0.1:{port}" for port in free_ports(3))
    file = directory / "jaeger.yaml"
    file.write_text(yaml.safe_dump(_configuration(otlp, http, grpc)), encoding="utf-8")
    jaeger = Jaeger(f"http://{otlp}", f"http://{http}")
    with (directory / "jaeger.log").open("wb") as log:
        process = subprocess.Popen([binary, "--config", str(file)], stdout=log, stderr=log)
        try:
            _until_it_answers(jaeger)
            yield jaeger
        finally:
            process.kill()
            process.wait()


def _until_it_answers(jaeger: Jaeger) -> None:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            jaeger.ask("services")
        except urllib.error.URLError:
            assert time.monotonic() < deadline, "jaeger does not answer"
        else:
            return


def _configuration(otlp: str, http: str, grpc: str) -> dict[str, Any]:
    storage = {"memory": {"memory": {"max_traces": 10_000}}}
    return {
        "service": {
            "extensions": ["jaeger_storage", "jaeger_query"],
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["jaeger_storage_exporter"]}},
        },
        "extensions": {
            "jaeger_query": {
                "storage": {"traces": "memory"},
                "http": {"endpoint": http},
                "grpc": {"endpoint": grpc},
            },
            "jaeger_storage": {"backends": storage},
        },
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": otlp}}}},
        "exporters": {"jaeger_storage_exporter": {"trace_storage": "memory"}},
    }


def _parents(span: dict[str, Any]) -> set[str]:
    return {r["spanID"] for r in span["references"] if r["refType"] == "CHILD_OF"}
