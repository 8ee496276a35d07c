"""One incident, one trace: short spans side by side under a root that says when it began.

No span is open over a wait, so that a story that goes on for days can be read while it goes on, and nothing is lost but
the last moment when a process is killed. The ids of trace and root follow from the incident (`sickbay.model.trace`).
The root is told by the leader that opens the record, and what it says follows from the record alone: should a leader
die between the two, the next one tells the very same span. Workflows tell nothing, for they are replayed; what they
have done is told by their activities.

While nothing is exported, all of this costs a look at one variable.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Final

from opentelemetry.context import Context
from opentelemetry.trace import (
    INVALID_SPAN,
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    get_current_span,
    set_span_in_context,
    use_span,
)

from sickbay.model.base import tamed
from sickbay.model.record import Record
from sickbay.model.trace import root_number, span_number, trace_number

REMEMBERED: Final = 10_000
"""Incidents whose root this process told, so that it does not tell it twice."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

DROPPED: Final = "sickbay.dropped"
"""Attribute of an outermost span that is not worth telling; what is inside goes with it."""

Value = str | int | float | bool

NEXT_TRACE: Final[ContextVar[int]] = ContextVar("next_trace", default=0)
NEXT_SPAN: Final[ContextVar[int]] = ContextVar("next_span", default=0)
"""Ids of the trace or span that is made next in this context; 0 = random ones."""


class Part:
    """A span that is under way; one that goes nowhere while nothing is exported."""

    def __init__(self, span: Span = INVALID_SPAN) -> None:
        self._span = span

    def note(self, **facts: Value) -> None:
        """Add facts, each as attribute ``sickbay.<name>``; texts are tamed."""
        for name, value in facts.items():
            self._span.set_attribute(f"sickbay.{name}", tamed(value, 400) if isinstance(value, str) else value)

    def answered(self, status: int) -> None:
        """Note the status of an HTTP answer."""
        self._span.set_attribute("http.response.status_code", status)

    def failed(self, error: BaseException) -> None:
        """Mark it as failed, with what the error says."""
        self._span.set_attribute("error.type", type(error).__name__)
        self._span.set_status(Status(StatusCode.ERROR, tamed(str(error), 400)))

    def drop(self) -> None:
        """Tell nothing of it, nor of what is inside; for a part of a story, not for a request."""
        self._span.set_attributes({DROPPED: True})


_NOTHING: Final = Part()


class _Book:
    """What this process exports to: nothing until `export_by`."""

    tracer: ClassVar[Tracer | None] = None
    told: ClassVar[OrderedDict[str, None]] = OrderedDict()


def export_by(tracer: Tracer | None) -> None:
    """Make spans by this tracer from now on; None = make none."""
    _Book.tracer = tracer
    _Book.told.clear()


def active() -> bool:
    """Say whether anything is exported."""
    return _Book.tracer is not None


def current_ids() -> tuple[str, str] | None:
    """Give trace and span id of what is under way in this context, in hex."""
    context = get_current_span().get_span_context()
    return (f"{context.trace_id:032x}", f"{context.span_id:016x}") if context.is_valid else None


def begin_story(record: Record) -> None:
    """Tell the root of an incident: when the device was first said to be bad, and by which record.

    Once in this process; and what it says follows from those fields of the record that never change, so that another
    process that tells it again says the same.
    """
    incident = record.spec.incident
    if _Book.tracer is None or incident in _Book.told:
        return
    _Book.told[incident] = None
    if len(_Book.told) > REMEMBERED:
        _Book.told.popitem(last=False)
    spec = record.spec
    at = (spec.first_bad_at - EPOCH) // timedelta(microseconds=1) * 1000
    before = record.status.history[-1].incident if record.status.history else ""
    facts = {
        "incident": incident,
        "device": str(spec.key),
        "driver": spec.device.driver,
        "node": spec.node,
        "hardware": spec.hardware_id,
        "record": record.name,
        "policy": spec.policy_hash,
    }
    with _ids(trace_number(incident), root_number(incident)):
        _Book.tracer.start_span(
            "incident",
            context=Context(),
            attributes={f"sickbay.{name}": tamed(value, 400) for name, value in facts.items()},
            links=[Link(_root(before), {"sickbay.link": "the device's incident before"})] if before else (),
            start_time=at,
        ).end(end_time=at)


@contextmanager
def part(name: str, incident: str, *, key: str = "", **facts: Value) -> Iterator[Part]:
    """Tell a part of an incident's story; requests made inside are told inside it.

    Args:
        name: one of few.
        incident: its id.
        key: names this very part among all of the incident, so that its id follows from it; ``""`` = a random id.
        facts: each becomes attribute ``sickbay.<name>``.
    """
    if _Book.tracer is None:
        yield _NOTHING
        return
    attributes = {f"sickbay.{k}": v for k, v in {"incident": incident, **facts}.items()}
    around = set_span_in_context(NonRecordingSpan(_root(incident)))
    with _ids(0, span_number(incident, key) if key else 0):
        span = _Book.tracer.start_span(name, context=around, attributes=attributes)
    with _under_way(span) as under_way:
        yield under_way


@contextmanager
def request(name: str, *, method: str, path: str) -> Iterator[Part]:
    """Tell a request to the API server, if it is made for a story.

    Args:
        name: one of few.
        method: HTTP verb.
        path: of the URL.
    """
    if _Book.tracer is None or not get_current_span().is_recording():
        yield _NOTHING
        return
    span = _Book.tracer.start_span(
        name, kind=SpanKind.CLIENT, attributes={"http.request.method": method, "url.path": path}
    )
    with _under_way(span) as under_way:
        yield under_way


@contextmanager
def _under_way(span: Span) -> Iterator[Part]:
    under_way = Part(span)
    with use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        yield under_way


@contextmanager
def _ids(trace: int, span: int) -> Iterator[None]:
    traces, spans = NEXT_TRACE.set(trace), NEXT_SPAN.set(span)
    try:
        yield
    finally:
        NEXT_SPAN.reset(spans)
        NEXT_TRACE.reset(traces)


def _root(incident: str) -> SpanContext:
    return SpanContext(
        trace_id=trace_number(incident),
        span_id=root_number(incident),
        is_remote=True,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )
