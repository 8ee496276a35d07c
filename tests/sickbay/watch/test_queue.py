"""Work by key."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from sickbay import errors
from sickbay.watch.queue import KeyedQueue


class Work:
    """Does nothing but note who works on what, until it is let go."""

    def __init__(self) -> None:
        """Begin idle."""
        self.done: Counter[str] = Counter()
        self.now: Counter[str] = Counter()
        self.most = 0
        self.go = asyncio.Event()
        self.moved = asyncio.Event()

    async def __call__(self, key: str) -> timedelta | None:
        """Work on a key."""
        self.now[key] += 1
        assert self.now[key] == 1
        self.most = max(self.most, self.now.total())
        self.moved.set()
        await self.go.wait()
        self.now[key] -= 1
        self.done[key] += 1
        self.moved.set()
        return None

    async def until(self, key: str, times: int) -> None:
        """Wait until a key was worked on so often."""
        while self.done[key] < times:
            self.moved.clear()
            await self.moved.wait()


async def test_each_key_once_at_a_time_and_many_keys_at_once() -> None:
    """A key that is added while it runs is run once more afterwards, however often it was added."""
    work, idle = Work(), asyncio.Event()
    queue = KeyedQueue(work, workers=3, idle=idle)
    serving = asyncio.create_task(queue.serve())
    assert idle.is_set()
    for key in "abcde":
        queue.add(key)
    assert not idle.is_set()
    while work.now.total() < 3:
        work.moved.clear()
        await work.moved.wait()
    for _ in range(5):
        queue.add("a")
    work.go.set()
    await work.until("a", 2)
    await work.until("e", 1)
    await idle.wait()
    assert work.done == {"a": 2, "b": 1, "c": 1, "d": 1, "e": 1}
    assert work.most == 3
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving


async def test_who_hangs_does_not_keep_the_queue_from_being_idle() -> None:
    """One API call that never ends must not hold up what waits for a calm moment."""
    work, idle = Work(), asyncio.Event()
    queue = KeyedQueue(work, workers=3, idle=idle)
    serving = asyncio.create_task(queue.serve())
    queue.add("hangs")
    assert not idle.is_set()
    async with asyncio.timeout(10):
        await idle.wait()
    assert work.now == {"hangs": 1}
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving


async def test_how_long_a_key_waited_is_told() -> None:
    """Nearly nothing while a worker is free, and as long as it takes while none is."""
    work, lags, told = Work(), list[float](), asyncio.Event()

    def lag(seconds: float) -> None:
        lags.append(seconds)
        if len(lags) == 2:
            told.set()

    queue = KeyedQueue(work, workers=1, lag=lag)
    serving = asyncio.create_task(queue.serve())
    queue.add("a")
    queue.add("b")
    while not work.now["a"]:
        await work.moved.wait()
    work.go.set()
    await asyncio.wait_for(told.wait(), 10)
    assert 0 <= lags[0] < lags[1]
    serving.cancel()


async def test_failure_is_told_and_tried_again() -> None:
    """An error of our tree costs a pause; any other ends the queue."""
    failures: list[str] = []
    tries = 0
    succeeded = asyncio.Event()

    async def run(_: str) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise errors.ClusterUnavailable("gone")
        succeeded.set()

    queue = KeyedQueue(run, workers=1, failed=lambda key, error: failures.append(f"{key}: {error}"))
    serving = asyncio.create_task(queue.serve())
    queue.add("a")
    await succeeded.wait()
    assert failures == ["a: gone"]
    serving.cancel()


async def test_sooner_of_two_pauses_counts() -> None:
    """A key that is to be looked at in an hour and in a moment is looked at in a moment."""
    ran = asyncio.Event()

    async def run(_: str) -> None:
        ran.set()

    queue = KeyedQueue(run, workers=1)
    serving = asyncio.create_task(queue.serve())
    queue.add_after("a", timedelta(hours=1))
    queue.add_after("a", timedelta(milliseconds=1))
    queue.add_after("a", timedelta(hours=2))
    await ran.wait()
    serving.cancel()
