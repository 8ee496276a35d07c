"""What activities did is told from the outside, as parts of their incident's trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Status
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from sickbay.model.contracts import WAITING, AwaitProbe, CloseRecord, ProbeVerdict, WriteStatus
from sickbay.model.incident import Verdict
from sickbay.model.record import Phase
from sickbay.model.trace import trace_id
from sickbay.telemetry.exporting import exporting
from tests import builders
from tests.collector import Collector, collecting, contradictions, told
from tests.workers.test_metering import Answering, Outcome
from workers.telling import Telling

TARGET = builders.target()
WAIT = AwaitProbe(target=TARGET, number=1, hardware_id="GPU-1")
NOT_YET = ApplicationError("no verdict yet", type=WAITING)


@contextmanager
def exported() -> Iterator[Collector]:
    """Export what is told inside the block, all of which has come when it ends."""
    with collecting() as collector, exporting(f"{collector.endpoint}/v1/traces", lost=lambda _: None):
        yield collector


async def attempt(step: object, outcome: Outcome, number: int = 1, name: str = "await_probe") -> None:
    """Run one attempt of an activity as a worker would."""
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, attempt=number, activity_type=name)
    around: ActivityInboundInterceptor = Telling().intercept_activity(Answering(outcome))
    given = ExecuteActivityInput(fn=attempt, args=[step], executor=None, headers={})
    if isinstance(outcome, BaseException):
        with pytest.raises(type(outcome)):
            await environment.run(around.execute_activity, given)
    else:
        await environment.run(around.execute_activity, given)


async def test_an_attempt_is_a_part_of_its_incidents_story() -> None:
    """With phase, run, attempt and outcome; what failed says why."""
    with exported() as collector:
        await attempt(WriteStatus(target=TARGET, phase=Phase.PROBING), None, name="write_status")
        await attempt(CloseRecord(target=TARGET, outcome=Phase.RELEASED), None, name="close_record")
        await attempt(WAIT, ApplicationError("no way", type="Forbidden", non_retryable=True))
        await attempt("no incident's", None)
    names = [span.name for span in collector.spans]
    assert names == ["write_status Probing", "close_record Released", "await_probe"]
    assert {span.trace_id.hex() for span in collector.spans} == {trace_id(TARGET.incident)}
    facts = [told(span) for span in collector.spans]
    assert [fact.get("sickbay.phase") for fact in facts] == ["Probing", "Released", None]
    assert [fact["sickbay.outcome"] for fact in facts] == ["Done", "Done", "Failed"]
    assert (collector.spans[2].status.code, collector.spans[2].status.message) == (
        Status.STATUS_CODE_ERROR,
        "Forbidden: no way",
    )


async def test_of_a_wait_the_first_and_the_last_attempt_are_told() -> None:
    """It may be looked a thousand times; the last one says since when it was waited."""
    with exported() as collector:
        for number in range(1, 6):
            await attempt(WAIT, NOT_YET, number)
        await attempt(WAIT, ProbeVerdict(verdict=Verdict.PASS), 6)
    first, last = (told(span) for span in collector.spans)
    assert (first["sickbay.attempt"], first["sickbay.outcome"]) == (1, "Waiting")
    assert (last["sickbay.attempt"], last["sickbay.verdict"]) == (6, "pass")
    assert str(last["sickbay.scheduled"]).startswith("19")


async def test_ids_of_attempts_follow_from_what_the_server_says_of_them() -> None:
    """Two attempts are two spans."""
    with exported() as collector:
        for number in (1, 2):
            await attempt(WAIT, ProbeVerdict(verdict=Verdict.FAIL), number)
    assert len({span.span_id for span in collector.spans}) == 2
    assert contradictions(collector.spans) == []


async def test_nothing_is_told_while_nothing_is_exported() -> None:
    """The activity runs as it would."""
    outcome: Any = ProbeVerdict(verdict=Verdict.PASS)
    await attempt(WAIT, outcome)
