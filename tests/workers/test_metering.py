"""What activities did is counted from the outside."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from sickbay.errors import Conflict
from sickbay.model.contracts import (
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
from sickbay.model.incident import UserState, Verdict
from sickbay.model.record import Phase
from sickbay.telemetry.metrics import Metrics, Migrated
from tests import builders
from workers.metering import Metering

Outcome = object | BaseException


class Answering(ActivityInboundInterceptor):
    """Stands where the activity would run, and gives the outcome of the test."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - the SDK's name
        """Give it."""
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


async def attempt(metering: Metering, step: object, outcome: Outcome) -> None:
    """Run one attempt of an activity as a worker would."""
    around = metering.intercept_activity(Answering(outcome))
    given = ExecuteActivityInput(fn=attempt, args=[step], executor=None, headers={})
    await ActivityEnvironment().run(around.execute_activity, given)


def counted(metrics: Metrics, sample: str) -> float:
    """Give one exposed sample."""
    (line,) = [line for line in metrics.exposed().decode().splitlines() if line.startswith(f"{sample} ")]
    return float(line.rpartition(" ")[2])


async def test_results_tell_verdicts_and_evictions() -> None:
    """What an activity returns is counted under its own name."""
    metering = Metering(Metrics())
    await attempt(metering, None, ProbeVerdict(verdict=Verdict.PASS))
    await attempt(metering, None, ProbeStarted())
    await attempt(metering, None, ProbeStarted(verdict=ProbeVerdict(verdict=Verdict.WAITING)))
    await attempt(metering, None, BusinessVerdict(verdict=Verdict.FAIL, value=0.5))
    await attempt(metering, None, Evicted(uid="u", outcome=EvictionOutcome.BUDGET))
    assert counted(metering.metrics, 'sickbay_business_checks_total{verdict="fail"}') == 1
    assert counted(metering.metrics, 'sickbay_probe_verdicts_total{verdict="pass"}') == 1
    assert counted(metering.metrics, 'sickbay_probe_verdicts_total{verdict="waiting"}') == 1
    assert counted(metering.metrics, 'sickbay_evictions_total{outcome="Budget"}') == 1


async def test_a_phase_is_counted_when_it_is_entered() -> None:
    """Writing the same phase again, for a counter or a condition, is not entering it."""
    metering = Metering(Metrics())
    for phase in (Phase.QUARANTINED, Phase.QUARANTINED, Phase.EVACUATING):
        await attempt(metering, WriteStatus(target=builders.target(), phase=phase), None)
    assert counted(metering.metrics, 'sickbay_phases_total{phase="Quarantined"}') == 1
    assert counted(metering.metrics, 'sickbay_phases_total{phase="Evacuating"}') == 1


async def test_a_migration_is_counted_once_at_each_stage() -> None:
    """What the incident knew before is no news, and a pod that left by itself is no migration of ours."""
    metering = Metering(Metrics())
    target = builders.target()
    evicted = builders.user(state=UserState.EVICTED, evicted=True)
    gone, replaced = (evicted.model_copy(update={"state": s}) for s in (UserState.GONE, UserState.REPLACED))
    other = builders.user(uid="pod-2", state=UserState.REPLACED)
    await attempt(metering, None, Evicted(uid="pod-1", outcome=EvictionOutcome.ACCEPTED))
    for before, after in (((evicted,), (gone, other)), ((gone,), (gone,)), ((gone,), (replaced,))):
        await attempt(metering, ListUsers(target=target, users=before), Users(users=after))
    await attempt(metering, ListUsers(target=target, users=(evicted,)), Users(users=(replaced,)))
    counts = {stage: counted(metering.metrics, f'sickbay_migrations_total{{stage="{stage}"}}') for stage in Migrated}
    assert counts == {Migrated.EVICTED: 1, Migrated.GONE: 2, Migrated.REPLACED: 2}


async def test_the_end_of_an_incident_is_a_quarantine_if_it_was_admitted() -> None:
    """One that was never admitted fenced nothing."""
    metering = Metering(Metrics())
    close = CloseRecord(target=builders.target(), outcome=Phase.CLEARED)
    await attempt(metering, close, Ended(quarantined=None))
    await attempt(metering, close, Ended(quarantined=builders.seconds(40)))
    assert counted(metering.metrics, 'sickbay_quarantine_seconds_count{outcome="Cleared"}') == 1
    assert counted(metering.metrics, "sickbay_false_quarantines_total") == 1


def caused(cause: BaseException, **settings: Any) -> ApplicationError:
    """Build the error that an activity tells Temporal."""
    error = ApplicationError(str(cause), type=type(cause).__name__, **settings)
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("outcome", "ending", "error"),
    [
        (ApplicationError("not yet", type=WAITING), "Waiting", ""),
        (ApplicationError("not ours", type=SUPERSEDED, non_retryable=True), "Superseded", ""),
        (caused(Conflict(status=409)), "Retry", "Conflict"),
        (caused(Conflict(status=409), non_retryable=True), "Failed", "Conflict"),
        (KeyError("bug"), "Retry", "other"),
        (asyncio.CancelledError(), "Cancelled", ""),
    ],
    ids=["waiting", "superseded", "retry", "failed", "bug", "cancelled"],
)
async def test_an_attempt_is_counted_by_how_it_ended(outcome: BaseException, ending: str, error: str) -> None:
    """A wait and a lost record are no errors; the class of an error is ours, not Temporal's."""
    metering = Metering(Metrics())
    with pytest.raises(type(outcome)):
        await attempt(metering, None, outcome)
    assert counted(metering.metrics, f'sickbay_activities_total{{activity="other",outcome="{ending}"}}') == 1
    errors = [
        line
        for line in metering.metrics.exposed().decode().splitlines()
        if "sickbay_errors_total{" in line and not line.endswith(" 0.0")
    ]
    assert errors == ([f'sickbay_errors_total{{error="{error}"}} 1.0'] if error else [])
