"""Signals and the end of a process: clean within a bound, at once when asked twice."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sickbay.errors import UsageError
from workers.process import together

ROOT = Path(__file__).parents[2]

SCRIPT = """
import asyncio, sys
from datetime import timedelta
from sickbay.telemetry import logging
from workers import process

logging.configure()
process.MARGIN = timedelta()

async def main(stop):
    print("ready", flush=True)
    await stop.wait()
    print("stopping", flush=True)
    {ending}

sys.exit(process.serve(main, timedelta(seconds={grace})))
"""


@contextmanager
def started(ending: str, grace: float = 30) -> Iterator[subprocess.Popen[str]]:
    """Run a process whose main part ends so, and wait until it is ready for signals."""
    script = SCRIPT.format(ending=ending, grace=grace)
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_for_a_clean_stop(number: signal.Signals) -> None:
    """What runs is told, ends by itself, and the status is 0."""
    with started("pass") as process:
        process.send_signal(number)
        assert process.wait(10) == 0


def test_a_second_signal_ends_at_once() -> None:
    """Whoever asks twice does not want to wait."""
    with started("await asyncio.Event().wait()") as process:
        process.send_signal(signal.SIGTERM)
        assert process.stdout
        assert process.stdout.readline() == "stopping\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 128 + signal.SIGTERM


def test_a_stop_that_hangs_is_cut_short() -> None:
    """Even a blocked event loop does not keep the process."""
    with started("__import__('threading').Event().wait()", grace=0.1) as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 1


async def test_the_end_of_one_part_is_the_end_of_all() -> None:
    """Half a process is worse than none: the failure of a part stops the others and is what is told."""
    stop, order = asyncio.Event(), list[str]()

    async def fails() -> None:
        raise ValueError("first")

    async def waits() -> None:
        await stop.wait()
        order.append("stopped in good order")

    with pytest.raises(ValueError, match="first"):
        await together(stop, waits(), fails())
    assert order == ["stopped in good order"]


async def test_the_failure_of_a_task_group_is_told_as_itself() -> None:
    """A group of errors has no remedy in its text; the error of ours inside has."""

    async def fails() -> None:
        raise ExceptionGroup("unhandled errors", [KeyError("bug"), ExceptionGroup("", [UsageError("mend it")])])

    async def fails_alone() -> None:
        raise ExceptionGroup("unhandled errors", [UsageError("mend it")])

    with pytest.raises(KeyError, match="bug"):
        await together(asyncio.Event(), fails())
    with pytest.raises(UsageError, match="mend it"):
        await together(asyncio.Event(), fails_alone())
