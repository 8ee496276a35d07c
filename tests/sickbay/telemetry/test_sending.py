"""What has ended is sent from a thread of its own: bounded, whatever the collector does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from sickbay.telemetry import sending, tracing
from sickbay.telemetry.exporting import exporting
from tests.sickbay.telemetry.test_tracing import INCIDENT, record

Answer = Callable[[Sequence[ReadableSpan]], SpanExportResult]


class Scripted(SpanExporter):
    """Holds each request until it is let go, and answers as it is told."""

    def __init__(self, answer: Answer = lambda _: SpanExportResult.SUCCESS) -> None:
        self.answer = answer
        self.sent: list[list[str]] = []
        self.arrived = threading.Event()
        self.go = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Take a request."""
        self.arrived.set()
        assert self.go.wait(20)
        self.sent.append([span.name for span in spans])
        return self.answer(spans)


class Lost:
    """Counts what is given up."""

    def __init__(self) -> None:
        self.count = 0
        self.some = threading.Event()

    def __call__(self, count: int) -> None:
        """Count it."""
        self.count += count
        self.some.set()


@contextmanager
def exported_by(exporter: Scripted, lost: Lost) -> Iterator[None]:
    """Export by this exporter."""
    with exporting("http://nowhere", lost=lost, exporter=exporter):
        yield


def part(name: str) -> None:
    """Tell a part with nothing in it."""
    with tracing.part(name, INCIDENT):
        pass


def test_what_ends_while_a_request_is_under_way_goes_with_the_next() -> None:
    """Nobody waits for a request to be full, and none holds up who tells."""
    exporter, lost = Scripted(), Lost()
    with exported_by(exporter, lost):
        part("first")
        assert exporter.arrived.wait(10)
        for n in range(3):
            part(f"then {n}")
        exporter.go.set()
    assert exporter.sent == [["first"], ["then 0", "then 1", "then 2"]]
    assert lost.count == 0


def test_a_backlog_is_bounded_and_roots_are_never_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its root a trace would fall apart; any other span that is too many is counted as lost."""
    monkeypatch.setattr(sending, "WAITING", 3)
    exporter, lost = Scripted(), Lost()
    with exported_by(exporter, lost):
        part("first")
        assert exporter.arrived.wait(10)
        for n in range(5):
            part(f"then {n}")
        tracing.begin_story(record())
        exporter.go.set()
    assert exporter.sent == [["first"], ["then 0", "then 1", "then 2", "incident"]]
    assert lost.count == 2


def test_a_request_that_is_never_taken_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be the request that is wrong, so the next one gets its turn."""
    monkeypatch.setattr(sending, "GIVE_UP", 0)
    exporter, lost = Scripted(_refuses("bad")), Lost()
    exporter.go.set()
    with exported_by(exporter, lost):
        part("bad")
        assert lost.some.wait(10)
        part("good")
    assert exporter.sent[-1] == ["good"]
    assert lost.count == 1


def test_an_exporter_that_fails_in_a_way_nobody_knows_costs_one_request() -> None:
    """The thread goes on."""

    def breaks(spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if spans[0].name == "bad":
            raise KeyError("bug")
        return SpanExportResult.SUCCESS

    exporter, lost = Scripted(breaks), Lost()
    exporter.go.set()
    with exported_by(exporter, lost):
        part("bad")
        assert lost.some.wait(10)
        part("good")
    assert exporter.sent[-1] == ["good"]
    assert lost.count == 1


def _refuses(name: str) -> Answer:
    return lambda spans: SpanExportResult.FAILURE if spans[0].name == name else SpanExportResult.SUCCESS
