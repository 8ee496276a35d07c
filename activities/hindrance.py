"""Before a step that cannot be undone: does a pause, or a mark on the node, keep us from it?

Such a step ends at once with an error that the workflow understands: it waits in `await_go`, which holds no slot and
writes no history, and then begins anew with what is true by then.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, TypeVar

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.effect import effect
from activities.errors import EXPECTED, translated, waiting
from activities.guard import own_record
from activities.polling import SELDOM, until_next_look
from k8s.hands_off import HandsOff
from k8s.records import Records
from sickbay.model.command import Halt
from sickbay.model.contracts import HINDERED, Activity, AwaitGo, Done, EvictUser, FenceStep, StartProbe

I = TypeVar("I", EvictUser, FenceStep, StartProbe)  # noqa: E741 - the input
O = TypeVar("O")  # noqa: E741 - the output

_Run = Callable[[I], Coroutine[Any, Any, O]]


class HindranceActivities:
    """Asks before steps, and waits for the answer to change."""

    def __init__(self, records: Records, hands_off: HandsOff) -> None:
        self._records = records
        self._hands_off = hands_off

    def before(self, run: _Run[I, O]) -> _Run[I, O]:
        """Make an activity, bound to its object, ask on each attempt before it begins.

        Raises, when it runs:
            ApplicationError: of type `HINDERED`, never retried, its detail the `Halt`.
        """

        @wraps(run)
        async def asks(step: I) -> O:
            try:
                halt = await self._hands_off.halt(step.node)
            except EXPECTED as error:
                raise translated(error) from error
            if halt is not None:
                raise _hindered(halt)
            return await run(step)

        return asks

    @effect(Activity.AWAIT_GO)
    async def await_go(self, step: AwaitGo) -> Done:
        """Return once nothing keeps the incident back; until then be called again.

        Safe to repeat because it changes nothing.
        """
        await own_record(self._records, step.target)
        halt = await self._hands_off.halt(step.node)
        if halt is not None:
            raise waiting(halt.message, until_next_look(SELDOM))
        return Done()


def _hindered(halt: Halt) -> ApplicationError:
    return ApplicationError(
        halt.message, halt, type=HINDERED, non_retryable=True, category=ApplicationErrorCategory.BENIGN
    )
