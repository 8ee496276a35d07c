"""The one place where tests of this tier wait: for what other processes do, which no event tells."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from sickbay import errors

T = TypeVar("T")

LOOK: Final = 0.3
"""Seconds between two looks."""


async def until(what: str, holds: Callable[[], Awaitable[T]], *, within: float) -> T:
    """Look again and again until something is so, and give it; on a busy machine a look may get no answer.

    Args:
        what: names it, should it never be so.
        holds: gives something true at last.
        within: seconds.
    """
    deadline = time.monotonic() + within
    while not (found := await _look(holds)):
        assert time.monotonic() < deadline, f"not so within {within:g} s: {what}"
        await asyncio.sleep(LOOK)
    return found


async def never(what: str, holds: Callable[[], Awaitable[object]], *, during: float) -> None:
    """Look again and again, for so many seconds, that something does not become so."""
    deadline = time.monotonic() + during
    while time.monotonic() < deadline:
        assert not await _look(holds), what
        await asyncio.sleep(LOOK)


async def _look(holds: Callable[[], Awaitable[T]]) -> T | None:
    try:
        return await holds()
    except errors.UnavailableError:
        return None
