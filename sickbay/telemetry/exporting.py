"""Where traces go: to a collector by OTLP over HTTP, or nowhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from sickbay.errors import UsageError
from sickbay.telemetry.sending import Sender
from sickbay.telemetry.tracing import NEXT_SPAN, NEXT_TRACE, export_by

log = structlog.get_logger(__name__)

ENDPOINT_VARIABLES: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOL_VARIABLES: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
SPOKEN: Final = "http/protobuf"

LAST_WORDS: Final = 2.0
"""Seconds that a process which stops may take to send what it has."""


class _Ids(RandomIdGenerator):
    """Random ids, but where one is asked for."""

    def generate_trace_id(self) -> int:
        return NEXT_TRACE.get() or super().generate_trace_id()

    def generate_span_id(self) -> int:
        return NEXT_SPAN.get() or super().generate_span_id()


def endpoint_of(setting: str | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """Say where traces go: to ``/v1/traces`` below the setting, else where OpenTelemetry's own variables say.

    Returns:
        The full address; None = nowhere.

    Raises:
        UsageError: a variable holds no address.
    """
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    if setting:
        return f"{setting.rstrip('/')}/v1/traces"
    for name in ENDPOINT_VARIABLES:
        text = environment.get(name, "").strip()
        if not text:
            continue
        if not text.startswith(("http://", "https://")):
            raise UsageError(f"{name}: {text!r} is not an address; write http://host:4318")
        protocol = next((environment[p] for p in PROTOCOL_VARIABLES if environment.get(p)), SPOKEN)
        if protocol != SPOKEN:
            log.warning("traces_off", why=f"{name} is for {protocol}", remedy=f"only {SPOKEN} is spoken; say so there")
            return None
        return text if name == ENDPOINT_VARIABLES[0] else f"{text.rstrip('/')}/v1/traces"
    return None


@contextmanager
def exporting(
    endpoint: str | None, *, lost: Callable[[int], None], exporter: SpanExporter | None = None
) -> Iterator[None]:
    """Export what is told inside this block; the collector may be away.

    Args:
        endpoint: full address for OTLP over HTTP; None = export nothing.
        lost: told the number of spans that had to be given up.
        exporter: in place of one for the endpoint.
    """
    if endpoint is None:
        yield
        return
    sender = Sender(exporter or OTLPSpanExporter(endpoint=endpoint), lost)
    # Every incident is kept: there are few, and each is what somebody will ask about. The same resource everywhere, so
    # that a root that is told twice is the same to the last byte.
    resource = Resource({"service.name": "sickbay", "service.version": _version()}).merge(
        OTELResourceDetector().detect()
    )
    provider = TracerProvider(sampler=ALWAYS_ON, resource=resource, id_generator=_Ids(), shutdown_on_exit=False)
    provider.add_span_processor(sender)
    export_by(provider.get_tracer("sickbay"))
    log.info("traces_on", endpoint=endpoint)
    try:
        yield
    finally:
        export_by(None)
        sender.close(LAST_WORDS)


def _version() -> str:
    try:
        return version("sickbay")
    except PackageNotFoundError:  # run from a source tree
        return "source"
