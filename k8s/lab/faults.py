"""What a fault proxy can be told to do to the requests that match: hold, fail, drop, rewrite."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

WATCH: Final = "WATCH"
"""Stands for GET with ``watch=true``; plain GET does not match those."""


@dataclass(frozen=True)
class Call:
    """One request on its way.

    Attributes:
        method: HTTP verb, or `WATCH`.
        path: without the query.
        body: decoded JSON, None if there is none.
    """

    method: str
    path: str
    body: Any = None


@dataclass(frozen=True)
class Answer:
    """One answer on its way back.

    Attributes:
        status: HTTP status.
        body: raw.
        headers: those that mean something end to end.
    """

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


class Dropped(Exception):
    """The connection is to be reset, without an answer."""


@dataclass
class Fault:
    """Matches requests; what it does to them is told by its kind.

    Attributes:
        method: HTTP verb, `WATCH`, or ``*``.
        path: searched for in the path, without the query.
        when: asked with the decoded body; None takes any.
        times: how many requests it takes at most; None is all of them.
        calls: those it took, in order.
    """

    method: str
    path: re.Pattern[str]
    when: Callable[[Any], bool] | None = None
    times: int | None = None
    calls: list[Call] = field(default_factory=list)

    @property
    def hits(self) -> int:
        """How many requests it took."""
        return len(self.calls)

    def takes(self, call: Call) -> bool:
        """Tell whether this request is one of ours, and keep it if it is."""
        if self.times is not None and self.hits >= self.times:
            return False
        if self.method not in {"*", call.method} or self.path.search(call.path) is None:
            return False
        if self.when is not None and not self.when(call.body):
            return False
        self.calls.append(call)
        return True

    def stop(self) -> None:
        """Take no further request."""
        self.times = 0

    async def before(self) -> Answer | None:
        """Act before the API server sees the request; an answer keeps it from it."""
        return None

    async def after(self, answer: Answer) -> Answer:
        """Act on the API server's answer."""
        return answer

    def on_event(self, event: Any) -> Any:
        """Act on one event of a watch; None swallows it."""
        return event


@dataclass
class Hold(Fault):
    """Keeps requests waiting until `release`: their answers, or the requests themselves.

    Attributes:
        executed: True holds the answer to a request that the API server has executed.
        arrived: set when the first one waits.
        waiting: how many have come to wait, ever.
    """

    executed: bool = True
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: int = 0
    _released: asyncio.Event = field(default_factory=asyncio.Event)
    _more: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def until(self, count: int) -> None:
        """Wait until so many have come to wait."""
        async with self._more:
            await self._more.wait_for(lambda: self.waiting >= count)

    def release(self) -> None:
        """Let all go on, and hold no more."""
        self.stop()
        self._released.set()

    async def before(self) -> Answer | None:
        """Hold the request."""
        if not self.executed:
            await self._wait()
        return None

    async def after(self, answer: Answer) -> Answer:
        """Hold the answer."""
        if self.executed:
            await self._wait()
        return answer

    async def _wait(self) -> None:
        self.waiting += 1
        self.arrived.set()
        async with self._more:
            self._more.notify_all()
        await self._released.wait()


@dataclass
class Fail(Fault):
    """Answers in place of the API server, or drops the connection.

    Attributes:
        executed: whether the API server executes the request all the same.
        answer: what to say; None resets the connection.
    """

    executed: bool = False
    answer: Answer | None = None

    async def before(self) -> Answer | None:
        """Fail what is not to be executed."""
        if self.executed:
            return None
        return self._say()

    async def after(self, answer: Answer) -> Answer:
        """Fail what was executed."""
        return self._say() if self.executed else answer

    def _say(self) -> Answer:
        if self.answer is None:
            raise Dropped
        return self.answer


@dataclass
class Rewrite(Fault):
    """Changes the bodies of answers, or the events of a watch.

    Attributes:
        change: decoded JSON in, JSON out; for an event also None, which swallows it. May change in place and return it.
    """

    change: Callable[[Any], Any] = lambda value: value

    async def after(self, answer: Answer) -> Answer:
        """Rewrite the body."""
        return replace(answer, body=json.dumps(self.change(json.loads(answer.body))).encode())

    def on_event(self, event: Any) -> Any:
        """Rewrite the event."""
        return self.change(event)


def refusal(status: int, reason: str, message: str, retry_after: int | None) -> Answer:
    """A Status object as the API server sends it."""
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": status,
        "reason": reason,
        "message": message,
    }
    headers = {"Content-Type": "application/json"}
    if retry_after is not None:
        body["details"] = {"retryAfterSeconds": retry_after}
        headers["Retry-After"] = str(retry_after)
    return Answer(status, json.dumps(body).encode(), headers)
