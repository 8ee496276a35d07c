"""Stands in for an OpenTelemetry collector: a server that takes OTLP over HTTP, and keeps every span as it came.

No collector is installed with the tests. What it proves is that what we send is OTLP as the official definitions decode
it; a real collector's own limits and pipelines it does not prove.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

PATH: Final = "/v1/traces"
Told = dict[str, str | int | bool]


class Collector:
    """What has come, and how the next requests are answered.

    Attributes:
        spans: in the order in which they came.
        resources: of the requests, each serialised.
        refusing: the status that is answered in place of 200.
    """

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.spans: list[Span] = []
        self.resources: set[bytes] = set()
        self.refusing = 0
        self._came = threading.Condition()

    def wait_for_spans(self, *, within: float = 20) -> None:
        """Wait until some have come."""
        with self._came:
            assert self._came.wait_for(lambda: self.spans, within), "no span came"

    def take(self, body: bytes) -> None:
        """Decode one request; what is no OTLP raises."""
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resources.add(resource.resource.SerializeToString(deterministic=True))
            for scope in resource.scope_spans:
                with self._came:
                    self.spans.extend(scope.spans)
                    self._came.notify_all()

    def trace(self, trace_id: str) -> list[Span]:
        """Give the spans of one trace."""
        return [span for span in self.spans if span.trace_id.hex() == trace_id]


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run one until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Take a request."""
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = collector.refusing or (200 if self.path == PATH else 404)
            if status == 200:
                assert self.headers["Content-Type"] == "application/x-protobuf"
                collector.take(body)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the interface of http.server
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    collector = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def told(span: Span) -> Told:
    """Give a span's attributes."""
    values = {}
    for attribute in span.attributes:
        kind = attribute.value.WhichOneof("value")
        assert kind is not None
        values[attribute.key] = getattr(attribute.value, kind)
    return values


def orphans(spans: list[Span]) -> list[Span]:
    """Find the spans whose parent is not among them."""
    ids = {span.span_id for span in spans}
    return [span for span in spans if span.parent_span_id and span.parent_span_id not in ids]


def roots(spans: list[Span]) -> list[Span]:
    """Find the spans that have no parent."""
    return [span for span in spans if not span.parent_span_id]


def contradictions(spans: list[Span]) -> list[str]:
    """Find the ids under which different things were told."""
    said: defaultdict[bytes, set[bytes]] = defaultdict(set)
    for span in spans:
        said[span.span_id].add(span.SerializeToString(deterministic=True))
    return [span_id.hex() for span_id, versions in said.items() if len(versions) > 1]
