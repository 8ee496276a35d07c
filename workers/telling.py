"""Tells what activities did as parts of their incident's trace, from the outside."""

from __future__ import annotations

import asyncio
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from sickbay.model.contracts import BusinessVerdict, CloseRecord, Evicted, ProbeVerdict, WriteStatus
from sickbay.model.incident import Target
from sickbay.telemetry import tracing
from sickbay.telemetry.metrics import Ending
from workers.metering import ending_of


class Telling(Interceptor):
    """Puts a span around each attempt of an activity."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 - the SDK's name
        """Put it around."""
        return _Told(next)


class _Told(ActivityInboundInterceptor):
    """Around one attempt."""

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - the SDK's name
        """Run it, and tell how it went.

        A wait is an activity that is tried again and again, for days perhaps. Only its first attempt is told, and the
        last, with the time since when it was waited.
        """
        step = input.args[0] if input.args else None
        target = getattr(step, "target", None)
        if not tracing.active() or not isinstance(target, Target):
            return await self.next.execute_activity(input)
        info = activity.info()
        phase = _phase(step)
        # The id of an attempt follows from what the server says of it: nobody else is given the same.
        key = f"{info.workflow_run_id}/{info.activity_id}/{info.attempt}/{info.started_time.isoformat()}"
        with tracing.part(
            f"{info.activity_type} {phase}".strip(),
            target.incident,
            key=key,
            run=target.run,
            activity=info.activity_type,
            attempt=info.attempt,
            scheduled=info.scheduled_time.isoformat(),
            workflow_run=info.workflow_run_id or "",
            **({"phase": phase} if phase else {}),
        ) as part:
            try:
                result = await self.next.execute_activity(input)
            except asyncio.CancelledError:
                part.note(outcome=Ending.CANCELLED)
                raise
            except ApplicationError as error:
                ending = ending_of(error)
                part.note(outcome=ending, said=error.message)
                if ending in {Ending.RETRY, Ending.FAILED}:
                    part.failed(error.__cause__ or error)
                elif ending is Ending.WAITING and info.attempt > 1:
                    part.drop()
                raise
            except Exception as error:
                part.note(outcome=Ending.RETRY)
                part.failed(error)
                raise
            part.note(outcome=Ending.DONE)
            if isinstance(result, ProbeVerdict | BusinessVerdict):
                part.note(verdict=result.verdict, said=result.message)
            elif isinstance(result, Evicted):
                part.note(eviction=result.outcome, said=result.message)
            return result


def _phase(step: object) -> str:
    """Give the phase that an activity writes into the record, ``""`` for any other."""
    if isinstance(step, WriteStatus):
        return step.phase
    return step.outcome if isinstance(step, CloseRecord) else ""
