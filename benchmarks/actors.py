"""Who acts in a measurement: Sickbay, and the bare loop, each as processes of their own that end with us."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import Final

from benchmarks import bare
from benchmarks.machine import process_with
from k8s.lab.build import ensure_binary
from k8s.lab.lab import Lab
from k8s.lab.process import Process
from k8s.lab.sickbay_process import SickbayProcess
from sickbay import errors
from sickbay.model.policy import Policy

BENCHMARK: Final = "benchmark, stand-in nodes"
"""Name of our own process among those whose CPU time is told."""

WITHIN: Final = 60.0
"""Seconds for a process to be ready."""


class Mode(StrEnum):
    """How Sickbay's processes are cut."""

    RUN = "run"
    """Watcher and worker in one process."""
    SPLIT = "split"
    """A process each."""

    @property
    def commands(self) -> tuple[str, ...]:
        """Subcommands of ``sickbay``, one for each process."""
        return {Mode.RUN: ("run",), Mode.SPLIT: ("watcher", "worker")}[self]


@asynccontextmanager
async def sickbay(lab: Lab, mode: Mode, policy: Policy) -> AsyncIterator[dict[str, int]]:
    """Run Sickbay as a cluster would, under its own account, until the block ends; gives process ids by name.

    They are ready then; that one of them leads already is for a first fault to show.
    """
    kubeconfig = await lab.kubeconfig_for("sickbay", "sickbay")
    async with AsyncExitStack() as stack:
        pids = {}
        for command in mode.commands:
            started = await SickbayProcess.start(lab, command, policy=policy, kubeconfig=kubeconfig)
            stack.push_async_callback(started.process.stop, grace=30)
            await started.ready(within=WITHIN)
            pids[f"sickbay {command}"] = started.process.pid
        yield pids


@asynccontextmanager
async def bare_loop(lab: Lab, driver: str) -> AsyncIterator[dict[str, int]]:
    """Run the bare loop as administrator until the block ends; gives its process id by name."""
    log = lab.directory / "bare.log"

    async def watching() -> bool:
        return bare.WATCHING in log.read_text(encoding="utf-8")

    process = await Process.start(
        "bare loop",
        [
            *(await asyncio.to_thread(ensure_binary), "lifeline", "--", sys.executable, "-m", "benchmarks.bare"),
            *(f"--kubeconfig={lab.kubeconfig}", f"--driver={driver}"),
        ],
        log=log,
    )
    try:
        await process.until(watching, within=WITHIN)
        yield {"bare loop": process.pid}
    finally:
        await process.stop(grace=30)


def processes(lab: Lab, *ours: Mapping[str, int]) -> dict[str, int]:
    """Give process ids by name: the control plane's, Temporal's, our own, and those that were started besides."""
    found = {name: process.pid for name, process in lab.control_plane.processes.items()}
    temporal = process_with("lifeline", f"--port={lab.temporal.address.rpartition(':')[2]}")
    if temporal is not None:
        found["temporal"] = temporal
    for more in ours:
        found |= more
    return {**found, BENCHMARK: os.getpid()}


def tail(directory: Path, lines: int = 5) -> str:
    """Give the last lines of Sickbay's logs, for the message of a measurement that failed."""
    texts = []
    for log in sorted(directory.glob("sickbay-*.log")):
        last = log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
        texts += [f"{log.name}: {line[:400]}" for line in last]
    return "\n".join(texts)


def failed(lab: Lab, what: str) -> errors.UnavailableError:
    """Build the error of a measurement that cannot go on."""
    return errors.UnavailableError(f"{what}\n{tail(lab.directory)}")
