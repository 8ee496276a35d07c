"""The edge of a long-running process: signals, and an end within a bound.

SIGTERM or SIGINT asks for a clean stop; a second one, or a stop that takes too long, ends the process at once. That is
safe by design: whatever is killed when, each effect happens once.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from typing import Any, Final, NoReturn

import structlog
import uvloop

from sickbay.errors import SickbayError

log = structlog.get_logger(__name__)

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

MARGIN: Final = timedelta(seconds=5)
"""Beyond the grace of running activities, for closing connections and giving the Lease back."""

TOO_LONG: Final = 1
"""Exit status of a stop that had to be cut short."""

Main = Callable[[asyncio.Event], Awaitable[None]]
"""Runs until the event is set, or until it is done."""

GARBAGE: Final = (10_000, 10, 10)
"""Thresholds of Python's collector of reference cycles. With the usual 700 it takes a tenth of this process's CPU
time in a burst, in which next to nothing is garbage: a cached workflow is thousands of objects that stay."""


def serve(main: Main, grace: timedelta) -> int:
    """Run until it ends or a signal asks it to, and return the exit status.

    Args:
        main: what to run.
        grace: how long it may take to stop; with `MARGIN` added, the bound.
    """
    gc.freeze()  # what is loaded by now stays for good, and need not be looked through
    gc.set_threshold(*GARBAGE)
    # With TLS in every connection a loop in C saves a tenth of this process's CPU time in a burst.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(main, grace + MARGIN))


async def _serve(main: Main, bound: timedelta) -> int:
    stop = asyncio.Event()
    # A thread, not a timer of the loop: it must work when the loop is what hangs.
    too_late = threading.Timer(bound.total_seconds(), _cut_short, [TOO_LONG, "stop took too long"])
    too_late.daemon = True

    def asked(number: signal.Signals) -> None:
        if stop.is_set():
            _cut_short(128 + number, "asked to stop twice")
        log.info("stop_requested", signal=number.name, within_seconds=bound.total_seconds())
        stop.set()
        too_late.start()

    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, asked, number)
    try:
        await main(stop)
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
        too_late.cancel()
    log.info("process_stopped")
    return 0


def _cut_short(status: int, reason: str) -> NoReturn:
    log.warning("process_cut_short", reason=reason, status=status)
    sys.stderr.flush()
    os._exit(status)


async def together(stop: asyncio.Event, *parts: Coroutine[Any, Any, None]) -> None:
    """Run parts of one process side by side until all have ended.

    As soon as one ends or fails, the others are asked to stop: half a process is worse than none. Each part must end
    soon after `stop` is set.

    Args:
        stop: shared by the parts, each of which was given it.
        parts: coroutines.

    Raises:
        Exception: the first failure of a part.
    """
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        await asyncio.wait(tasks)
    finally:
        for task in tasks:
            task.cancel()
    for task in tasks:
        if not task.cancelled() and (error := task.exception()):
            raise _one(error)


def _one(error: BaseException) -> BaseException:
    """Take one failure out of a task group's: people are told of errors, not of groups."""
    while isinstance(error, BaseExceptionGroup):
        error = next((e for e in error.exceptions if isinstance(e, SickbayError)), error.exceptions[0])
    return error
