"""How long people wait for help, in units of how long Python itself takes to start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

ALLOWED = 15
"""Starts of a bare Python that help may take. 300 ms are some 25 of them on a machine where Python takes 12 ms."""


def cost(*arguments: str) -> float:
    """Give the CPU seconds of a process: a busy machine stretches the wall clock, and this hardly."""
    before = os.times()
    subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, capture_output=True)
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


def test_help_is_there_at_once() -> None:
    """Several starts, taken in turns with those of a bare Python."""
    pairs = [(cost("-c", "pass"), cost("-m", "sickbay", "--help")) for _ in range(10)]
    bare, ours = (sum(times) for times in zip(*pairs, strict=True))
    print(f"help takes {ours / bare:.1f} starts of a bare Python")  # noqa: T201 - for whoever looks
    assert ours < ALLOWED * bare
