"""What every activity has around it."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities import effect as module
from activities.effect import effect
from sickbay import errors
from sickbay.model.contracts import Activity, Done, StopProbe
from tests import builders

STEP = StopProbe(target=builders.target(), number=1)


class Activities:
    """Activities of each ending."""

    def __init__(self) -> None:
        self.proceed = asyncio.Event()

    @effect(Activity.LIST_USERS)
    async def failing(self, step: StopProbe) -> Done:
        """Fail as the cluster does."""
        raise errors.Invalid(status=422, reason="Invalid", message="m")

    @effect(Activity.EVICT_USER)
    async def waiting(self, step: StopProbe) -> Done:
        """Wait until told."""
        await self.proceed.wait()
        return Done()

    @effect(Activity.START_PROBE)
    async def broken(self, step: StopProbe) -> Done:
        """Fail by a bug."""
        raise KeyError(step.number)


def test_it_is_the_activity_of_its_name() -> None:
    """Temporal sees the name, the input type and the output type."""
    definition = activity._Definition.must_from_callable(Activities().failing)
    assert definition.name == "list_users"
    assert definition.arg_types == [StopProbe]
    assert definition.ret_type is Done


async def test_errors_are_told_in_temporals_words() -> None:
    """Ours become application errors; a bug stays what it is."""
    with pytest.raises(ApplicationError) as caught:
        await ActivityEnvironment().run(Activities().failing, STEP)
    assert (caught.value.type, caught.value.non_retryable) == ("Invalid", False)
    with pytest.raises(KeyError):
        await ActivityEnvironment().run(Activities().broken, STEP)


async def test_heartbeats_go_out_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one at once, more while it runs, none afterwards."""
    monkeypatch.setattr(module, "HEARTBEAT", timedelta(milliseconds=1))
    activities, environment = Activities(), ActivityEnvironment()
    beats = 0

    def beat(*_: object) -> None:
        nonlocal beats
        beats += 1
        if beats == 3:
            activities.proceed.set()

    environment.on_heartbeat = beat
    await environment.run(activities.waiting, STEP)
    assert beats == 3


async def test_a_cancelled_activity_stops_beating() -> None:
    """A cancellation passes as it is."""
    activities, environment = Activities(), ActivityEnvironment()
    environment.on_heartbeat = lambda *_: environment.cancel()
    with pytest.raises(asyncio.CancelledError):
        await environment.run(activities.waiting, STEP)
    assert not [task for task in asyncio.all_tasks() if "_beat at" in repr(task.get_coro())]
