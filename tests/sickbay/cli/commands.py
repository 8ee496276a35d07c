"""Run a command as a person types it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Shown:
    """What a command left."""

    status: int
    out: str
    error: str


async def sickbay(*arguments: str, environment: Mapping[str, str] | None = None) -> Shown:
    """Run ``sickbay`` to its end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "sickbay", *arguments),
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, error = await process.communicate()
    assert process.returncode is not None
    return Shown(process.returncode, out.decode(), error.decode())
