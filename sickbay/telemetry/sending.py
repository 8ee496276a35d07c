"""From spans that have ended to the collector: whole stories, soon, and never in anybody's way.

A span inside another is held back until the outermost one of this process has ended, and then they leave together, the
outermost first: whatever is killed when, the collector never has a span whose parent it will not get from us.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

import structlog
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from sickbay.telemetry.tracing import DROPPED

log = structlog.get_logger(__name__)

WAITING: Final = 10_000
"""Spans kept while the collector is away or slow; more are lost, except the roots of incidents."""

AT_ONCE: Final = 512
"""Spans in one request at most, or as many as end together."""

INSIDE: Final = 500
"""Spans kept inside one outermost span."""

RETRY: Final = (0.5, 1.0, 2.0, 5.0)
"""Seconds between two tries of one request; the last is repeated."""

GIVE_UP: Final = 300.0
"""Seconds after which a request that is not taken is dropped: it may be the request that is wrong."""


class Sender(SpanProcessor):
    """Sends what has ended, from a thread of its own; nothing is waited for to fill a request.

    All spans are made and ended in one thread, that of the event loop.
    """

    def __init__(self, exporter: SpanExporter, lost: Callable[[int], None]) -> None:
        """Start the thread.

        Args:
            exporter: sends one request; it may block.
            lost: told the number of spans that are given up.
        """
        self._exporter = exporter
        self._lost = lost
        self._inside: dict[int, list[ReadableSpan]] = {}  # by span that has not ended: what ended inside it
        self._groups: deque[list[ReadableSpan]] = deque()
        self._waiting = 0
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._away = False
        self._thread = threading.Thread(target=self._serve, name="traces", daemon=True)
        self._thread.start()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002 - the SDK's interface
        """Begin to hold back what ends inside."""
        if _outermost(span) or (span.parent and span.parent.span_id in self._inside):
            self._inside[span.context.span_id] = []

    def on_end(self, span: ReadableSpan) -> None:
        """Pass it on to the span around it; or have it sent, with all that was inside.

        What ends after the span around it, as a list that others go on sharing, belongs to no story any more.
        """
        mine = self._inside.pop(span.context.span_id, None)
        if mine is None:
            return
        if not _outermost(span):
            around = self._inside.get(span.parent.span_id) if span.parent else None
            if around is not None and len(around) < INSIDE:
                around.extend((span, *mine))
        elif not (span.attributes or {}).get(DROPPED):
            self._put([span, *mine], needed=span.parent is None)

    def close(self, within: float) -> None:
        """Send what is left, for so many seconds at most."""
        self._closing.set()
        with self._changed:
            self._changed.notify()
        self._thread.join(within)
        self._exporter.shutdown()  # ends a try that is under way
        self._thread.join(within)

    def _put(self, group: list[ReadableSpan], *, needed: bool) -> None:
        with self._changed:
            full = self._waiting >= WAITING and not needed
            if not full:
                self._groups.append(group)
                self._waiting += len(group)
                self._changed.notify()
        if full:
            self._lost(len(group))

    def _serve(self) -> None:
        while batch := self._take():
            try:
                self._send(batch)
            except Exception:  # the edge of the thread: what one request does to the exporter must not end the others
                log.exception("traces_not_sent")
                self._lost(len(batch))

    def _take(self) -> list[ReadableSpan]:
        """Wait for spans; none are left when it gives none."""
        batch: list[ReadableSpan] = []
        with self._changed:
            while not self._groups and not self._closing.is_set():
                self._changed.wait()
            while self._groups and len(batch) + len(self._groups[0]) <= max(AT_ONCE, len(self._groups[0])):
                batch.extend(self._groups.popleft())
            self._waiting -= len(batch)
        return batch

    def _send(self, batch: list[ReadableSpan]) -> None:
        """Send until it is taken; the very same request, so that one that is taken twice says nothing new."""
        until, tries = time.monotonic() + GIVE_UP, 0
        while self._exporter.export(batch) is not SpanExportResult.SUCCESS:
            if not self._away:
                self._away = True
                log.warning("traces_not_sent", remedy="is the OTLP endpoint right, and does the collector run?")
            if time.monotonic() > until or self._closing.wait(RETRY[min(tries, len(RETRY) - 1)]):
                self._lost(len(batch))
                return
            tries += 1
        if self._away:
            self._away = False
            log.info("traces_sent_again")


def _outermost(span: ReadableSpan) -> bool:
    """Tell a span that none of this process is around; that of an incident's root is not held by anybody."""
    return span.parent is None or span.parent.is_remote
