"""How the demo ends: what it leaves on the screen, and its exit status. The play itself is `make demo`."""

from __future__ import annotations

import io
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from rich.console import Console

from sickbay.cli.demo import ending
from sickbay.cli.demo.witness import Check

ROOT = Path(__file__).parents[4]

CTRL_C = """
import asyncio, os, signal
from sickbay.cli import main
from sickbay.cli.demo import ending, stage
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore it
async def play(**_):
    asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGINT)
    await {waits}
    return {ok}
stage.play = play
main.main()
"""


def screen() -> Console:
    """Make a screen that remembers."""
    return Console(file=io.StringIO(), width=80, color_system=None)


def shown(console: Console) -> str:
    """Read everything that was written to it."""
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("waits", "ok", "arguments", "status", "told"),
    [
        ("ending.interrupted()", True, ["--keep"], 0, "the lab is gone\n"),
        ("ending.interrupted()", False, ["--keep"], 1, "the lab is gone\n"),
        ("asyncio.Event().wait()", True, ["--keep"], 130, "stopped; the lab is gone\n"),
        ("asyncio.Event().wait()", True, [], 130, "stopped; the lab is gone\n"),
    ],
)
def test_ctrl_c(waits: str, ok: bool, arguments: list[str], status: int, told: str) -> None:  # noqa: FBT001
    """After the invitation it is the normal end, in the middle it is not; one line says what became of the lab."""
    code = CTRL_C.format(waits=waits, ok=ok)
    command = [sys.executable, "-c", code, "demo", *arguments]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (status, told, "")


def test_checks_are_shown_with_mark_and_number() -> None:
    """A tick for what happened as it should have, a cross for what did not."""
    console = screen()
    console.print(ending.summary([Check("fenced, once", 1, 1), Check("evicted, once", 1, 2)]))
    rows = [line.split("│")[1:4] for line in shown(console).splitlines() if "once" in line]
    assert [[cell.strip() for cell in row] for row in rows] == [["✓", "fenced, once", "1"], ["✗", "evicted, once", "2"]]


def test_verdict_names_what_is_missing() -> None:
    """One line a problem, no success; and the time to the fence in milliseconds."""
    console = screen()
    assert not ending.verdict(console, ["the device was not released"], timedelta(milliseconds=18), "all is well")
    assert shown(console) == "fenced 18 ms after the status\nmissing: the device was not released\n"
    assert ending.verdict(console, [], None, "all is well")
    assert shown(console).endswith("Every step happened. all is well\n")


def test_hint_has_the_link_in_one_piece() -> None:
    """However long: it can be clicked; and where it will work is said."""
    console = screen()
    link = "http://127.0.0.1/" + "x" * 120
    ending.hint(console, link)
    assert link in shown(console)
    assert "make demo ARGS=--keep" in shown(console)
