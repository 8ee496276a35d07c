"""What every activity has around it: its name, a heartbeat, and our errors told in Temporal's words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import wraps
from typing import Any, Final, TypeVar

from temporalio import activity

from activities.errors import EXPECTED, translated
from sickbay.model.contracts import Activity

HEARTBEAT: Final = timedelta(seconds=2)
"""Between heartbeats. A step's heartbeat timeout, some multiple of it, is how soon a killed worker is noticed."""


S = TypeVar("S")
I = TypeVar("I")  # noqa: E741 - the input
O = TypeVar("O")  # noqa: E741 - the output

_Method = Callable[[S, I], Awaitable[O]]


def effect(name: Activity) -> Callable[[_Method[S, I, O]], Callable[[S, I], Coroutine[Any, Any, O]]]:
    """Make a method ``async def verb(self, step: Input) -> Output`` the activity of this name.

    Use it in place of ``activity.defn``. While the method runs, heartbeats go out; errors of Sickbay that it does not
    answer itself become `activities.errors.translated`; an ApplicationError and a cancellation pass as they are.
    """

    def decorate(method: _Method[S, I, O]) -> Callable[[S, I], Coroutine[Any, Any, O]]:
        @activity.defn(name=name)
        @wraps(method)
        async def run(self: S, step: I) -> O:
            async with _heartbeats():
                try:
                    return await method(self, step)
                except EXPECTED as error:
                    raise translated(error) from error

        return run

    return decorate


@asynccontextmanager
async def _heartbeats() -> AsyncGenerator[None]:
    beating = asyncio.create_task(_beat())
    try:
        yield
    finally:
        beating.cancel()
        await asyncio.wait([beating])


async def _beat() -> None:
    while True:
        await asyncio.sleep(HEARTBEAT.total_seconds())  # most are over by then, and cost Temporal no request
        activity.heartbeat()
