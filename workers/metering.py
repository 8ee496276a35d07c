"""Counts what activities did, from the outside: they take no metrics object and stay verbs."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, Final

from structlog.contextvars import bound_contextvars
from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from sickbay.model.contracts import (
    HINDERED,
    SUPERSEDED,
    WAITING,
    BusinessVerdict,
    CloseRecord,
    Ended,
    Evicted,
    EvictionOutcome,
    ListUsers,
    ProbeStarted,
    ProbeVerdict,
    Users,
    WriteStatus,
)
from sickbay.model.incident import User, UserState
from sickbay.telemetry.metrics import Ending, Metrics, Migrated

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
        elif isinstance(result, ProbeStarted) and result.verdict is not None:
            self.metrics.verdict(result.verdict.verdict)
        elif isinstance(result, BusinessVerdict):
            self.metrics.business(result.verdict)
        elif isinstance(result, Evicted):
            self.metrics.evicted(result.outcome)
            if result.outcome is EvictionOutcome.ACCEPTED:
                self.metrics.migrated(Migrated.EVICTED)
        elif isinstance(step, ListUsers) and isinstance(result, Users):
            self._moved(step.users, result.users)
        elif isinstance(step, WriteStatus):
            self._entered(step.target.incident, step.phase)
        elif isinstance(step, CloseRecord):
            self._entered(step.target.incident, step.outcome)
            if isinstance(result, Ended) and result.quarantined is not None:
                self.metrics.ended(step.outcome, result.quarantined.total_seconds())

    def _moved(self, before: Iterable[User], after: Iterable[User]) -> None:
        """Count how far those came whom we evicted, once each: what was known before is no news."""
        known = {user.uid: user.state for user in before}
        for user in after:
            if not user.evicted or known.get(user.uid) is user.state:
                continue
            if user.state is UserState.REPLACED:
                self.metrics.migrated(Migrated.REPLACED)
            if not user.state.holds and known.get(user.uid, user.state).holds:
                self.metrics.migrated(Migrated.GONE)

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
            ending = ending_of(error)
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


def ending_of(error: ApplicationError) -> Ending:
    """Tell a wait and a lost record from errors, and those that can be mended from the others."""
    if error.type in {WAITING, HINDERED}:
        return Ending.WAITING
    if error.type == SUPERSEDED:
        return Ending.SUPERSEDED
    return Ending.FAILED if error.non_retryable else Ending.RETRY
