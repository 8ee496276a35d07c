"""Work by key: each key once at a time, many keys at once, failures again after a growing pause."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from datetime import timedelta
from typing import Final, Generic, TypeVar

import structlog

from sickbay import errors

log = structlog.get_logger(__name__)

K = TypeVar("K", bound=Hashable)

FIRST_PAUSE: Final = timedelta(milliseconds=200)
LONGEST_PAUSE: Final = timedelta(seconds=15)
"""Before a failed key is tried again: doubled from the first to the longest."""

LULL: Final = timedelta(milliseconds=250)
"""A queue for whose workers nothing waits for so long is idle; in a burst the gaps are shorter."""


class KeyedQueue(Generic[K]):
    """Runs one function for each key that was added.

    A key that is added while it waits is run once; one that is added while it runs is run once more afterwards. So the
    function always sees the latest state, and never meets itself.
    """

    def __init__(
        self,
        run: Callable[[K], Awaitable[timedelta | None]],
        *,
        workers: int,
        failed: Callable[[K, errors.SickbayError], None] = lambda _, __: None,
        idle: asyncio.Event | None = None,
        lag: Callable[[float], None] = lambda _: None,
    ) -> None:
        """Prepare; `serve` does the work.

        Args:
            run: does the work of one key; says after what time it wants to look at it again, if by itself.
            workers: keys at once.
            failed: told each error of our tree; the key is tried again. Any other error ends `serve`.
            lag: told the seconds that each key waited for a worker.
            idle: set while nothing waits for a worker, and for `LULL` has not; what runs may hang, and does not count.
        """
        self._run = run
        self._workers = workers
        self._failed = failed
        self._idle = idle or asyncio.Event()
        self._idle.set()
        self._lull: asyncio.TimerHandle | None = None
        self._queue: asyncio.Queue[K] = asyncio.Queue()
        self._lag = lag
        self._waiting: dict[K, float] = {}
        self._running: set[K] = set()
        self._again: set[K] = set()
        self._pauses: dict[K, timedelta] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}

    def add(self, key: K) -> None:
        """Have a key run as soon as a worker is free."""
        if key in self._running:
            self._again.add(key)
        elif key not in self._waiting:
            self._busy()
            self._waiting[key] = time.monotonic()
            self._queue.put_nowait(key)

    def add_after(self, key: K, pause: timedelta) -> None:
        """Have a key run after a pause, unless it is already to run sooner."""
        loop = asyncio.get_running_loop()
        when = loop.time() + pause.total_seconds()
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= when:
                return
            timer.cancel()
        self._timers[key] = loop.call_at(when, self._due, key)

    async def serve(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(self._work())
        finally:
            self._busy()
            for timer in self._timers.values():
                timer.cancel()

    def _due(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            self._lag(time.monotonic() - self._waiting.pop(key))
            self._running.add(key)
            if not self._waiting:
                self._lull = asyncio.get_running_loop().call_later(LULL.total_seconds(), self._idle.set)
            try:
                pause = await self._run(key)
                self._pauses.pop(key, None)
            except errors.SickbayError as error:
                self._failed(key, error)
                pause = self._longer_pause(key)
            finally:
                self._running.discard(key)
            if key in self._again:
                self._again.discard(key)
                self.add(key)
            if pause is not None:
                self.add_after(key, pause)

    def _busy(self) -> None:
        self._idle.clear()
        if self._lull is not None:
            self._lull.cancel()

    def _longer_pause(self, key: K) -> timedelta:
        pause = self._pauses.get(key, FIRST_PAUSE)
        self._pauses[key] = min(pause * 2, LONGEST_PAUSE)
        return pause
