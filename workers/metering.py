"""Counts what activities did, from the outside: they take no metrics object and stay verbs."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import Any, Final

from structlog.contextvars import bound_contextvars
from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from sickbay.model.contracts import HINDERED, SUPERSEDED, WAITING, CloseRecord, Evicted, ProbeVerdict, WriteStatus
from sickbay.telemetry.metrics import Ending, Metrics

REMEMBERED: Final = 10_000
"""Incidents whose last phase is remembered, so that writing a phase again is not entering it."""


class Metering(Interceptor):
    """Counts attempts, phases, verdicts, evictions and errors; share one among the workers of a process."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self._phases: OrderedDict[str, str] = OrderedDict()

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 - the SDK's name
        """Put the counting around each attempt."""
        return _Attempt(next, self)

    def done(self, step: object, result: object) -> None:
        """Count what an attempt that succeeded tells."""
        if isinstance(result, ProbeVerdict):
            self.metrics.verdict(result.verdict)
        elif isinstance(result, Evicted):
            self.metrics.evicted(result.outcome)
        elif isinstance(step, WriteStatus):
            self._entered(step.target.incident, step.phase)
        elif isinstance(step, CloseRecord):
            self._entered(step.target.incident, step.outcome)

    def _entered(self, incident: str, phase: str) -> None:
        if self._phases.get(incident) == phase:
            return
        self._phases[incident] = phase
        self._phases.move_to_end(incident)
        if len(self._phases) > REMEMBERED:
            self._phases.popitem(last=False)
        self.metrics.phase(phase)


class _Attempt(ActivityInboundInterceptor):
    """Around one attempt."""

    def __init__(self, inner: ActivityInboundInterceptor, metering: Metering) -> None:
        super().__init__(inner)
        self._metering = metering

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - the SDK's name
        """Run it, and count how it ended."""
        step = input.args[0] if input.args else None
        device = getattr(getattr(step, "target", None), "device", "")
        metrics, began = self._metering.metrics, time.monotonic()
        ending = Ending.CANCELLED
        try:
            with bound_contextvars(device=str(device)):
                result = await self.next.execute_activity(input)
            ending = Ending.DONE
            self._metering.done(step, result)
        except asyncio.CancelledError:
            raise
        except ApplicationError as error:
            ending = _ending(error)
            if ending in {Ending.RETRY, Ending.FAILED}:
                metrics.error(error.__cause__ or error)
            raise
        except Exception as error:
            ending = Ending.RETRY
            metrics.error(error)
            raise
        finally:
            metrics.activity(activity.info().activity_type, ending, time.monotonic() - began)
        return result


def _ending(error: ApplicationError) -> Ending:
    if error.type in {WAITING, HINDERED}:
        return Ending.WAITING
    if error.type == SUPERSEDED:
        return Ending.SUPERSEDED
    return Ending.FAILED if error.non_retryable else Ending.RETRY
