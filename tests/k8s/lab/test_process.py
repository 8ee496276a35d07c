"""Processes that cannot outlive us, and their ports."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from k8s.lab.build import ensure_binary
from k8s.lab.process import PortTaken, Process, free_ports, retry_ports, together
from sickbay import errors

LAUNCH_AND_DIE = """
import asyncio, os, sys
from pathlib import Path
from k8s.lab.process import Process
async def main():
    process = await Process.start("child", sys.argv[2:], log=Path(sys.argv[1]))
    await process.until(lambda: asyncio.to_thread(lambda: b"up" in Path(sys.argv[1]).read_bytes()), within=30)
    os.kill(os.getpid(), 9)
asyncio.run(main())
"""


async def never() -> bool:
    """Tell that it is not ready."""
    return False


@pytest.mark.lab
def test_a_child_ends_with_a_killed_launcher(tmp_path: Path) -> None:
    """The lifeline ends a command that knows nothing of it, by SIGTERM and, if it ignores that, by SIGKILL."""
    log, fifo = tmp_path / "log", tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    command = f"exec 9>{fifo}; trap 'echo told' TERM; echo up; while :; do sleep 0.1; done"
    launcher = subprocess.run(
        [sys.executable, "-c", LAUNCH_AND_DIE, log, ensure_binary(), "lifeline", "--", "sh", "-c", command],
        stdout=subprocess.DEVNULL,
        check=False,
    )
    assert launcher.returncode == -9
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b""  # the end of the fifo: its last writer, the child, is gone
    os.close(reader)
    assert log.read_text().splitlines()[:2] == ["up", "told"]


async def test_an_early_end_is_told_with_its_last_words(tmp_path: Path) -> None:
    """One line: what ended, how, its last line, where the rest is."""
    log = tmp_path / "log"
    process = await Process.start("thing", ["sh", "-c", "echo first; echo last; exit 3"], log=log)
    with pytest.raises(errors.UnavailableError, match=f"thing ended with status 3: last; see {log}"):
        await process.until(never, within=30)


async def test_not_ready_in_time_is_told(tmp_path: Path) -> None:
    """A component that hangs does not hang us."""
    process = await Process.start("thing", ["sleep", "60"], log=tmp_path / "log")
    with pytest.raises(errors.UnavailableError, match="thing was not ready within 0 s"):
        await process.until(never, within=0.05)
    await process.stop()
    assert not process.running


async def test_a_taken_port_is_tried_again(tmp_path: Path) -> None:
    """Only a bind failure is: the second attempt gets another port."""
    attempts = []

    async def start() -> None:
        attempts.append(free_ports(1)[0])
        if len(attempts) == 1:
            process = await Process.start(
                "a", ["sh", "-c", "echo address already in use; exit 1"], log=tmp_path / "log"
            )
            await process.until(never, within=30)

    await retry_ports(start)
    assert len(attempts) == 2

    async def fail() -> None:
        attempts.append(0)
        raise errors.UnavailableError("something else")

    with pytest.raises(errors.UnavailableError, match="something else"):
        await retry_ports(fail)
    assert len(attempts) == 3


async def test_ports_that_are_always_taken_are_an_error() -> None:
    """It does not try for ever."""

    async def start() -> None:
        raise PortTaken("a: its port was taken")

    with pytest.raises(PortTaken):
        await retry_ports(start, attempts=3)


def test_free_ports_are_free_and_differ() -> None:
    """A port that someone listens on is never given out."""
    ports = free_ports(50)
    assert len(set(ports)) == 50
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", ports[0]))


async def test_of_work_done_together_the_first_error_is_told_alone() -> None:
    """The rest is ended, and no group of exceptions comes out."""
    ended = asyncio.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def fail() -> None:
        raise errors.UnavailableError("broken")

    with pytest.raises(errors.UnavailableError, match="broken"):
        await together(wait(), fail())
    assert ended.is_set()
