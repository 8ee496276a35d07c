"""Structured logs on stderr: one JSON object a line for machines, or coloured text for people.

Everything goes one way: structlog's events and the standard library's (of temporalio, aiohttp and the Kubernetes
client) pass the same processors. Texts from the cluster are tamed where they enter the models; here control characters
are taken out once more, so that no line can be forged whatever comes by.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, Final, TextIO

import structlog
from structlog.contextvars import bound_contextvars
from structlog.typing import Processor

from sickbay.model.trace import trace_id
from sickbay.telemetry import tracing

NOISY: Final = {
    "aiohttp.access": logging.WARNING,
    "asyncio": logging.WARNING,
    "opentelemetry": logging.CRITICAL,
    "temporalio.worker": logging.WARNING,
    "urllib3": logging.ERROR,
}
"""Loggers of libraries that say what we say ourselves, or nothing of use."""


class Level(StrEnum):
    """Least severe event that is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Format(StrEnum):
    """How a line looks."""

    JSON = "json"
    CONSOLE = "console"


def configure(level: Level = Level.INFO, style: Format | None = None, stream: TextIO | None = None) -> None:
    """Set up logging of the whole process; calling again replaces what was there.

    Args:
        level: least severe event that is written.
        style: of the lines; None = console on a terminal, JSON elsewhere.
        stream: where to; stderr by default.
    """
    stream = stream or sys.stderr
    style = style or (Format.CONSOLE if stream.isatty() else Format.JSON)
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(allow=("temporal_workflow", "temporal_activity")),
        _flattened,
        _traced,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="timestamp"),
    ]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=_ends(style, stream)))
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name, least in NOISY.items():
        logging.getLogger(name).setLevel(max(least, root.level))
    logging.captureWarnings(capture=True)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )


@contextmanager
def about(*, incident: str = "", device: str = "") -> Iterator[None]:
    """Put incident id and device on every line that is logged inside, however deep."""
    with bound_contextvars(**{k: v for k, v in (("incident", incident), ("device", device)) if v}):
        yield


def _ends(style: Format, stream: TextIO) -> list[Processor]:
    ends: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if style is Format.JSON:
        return [*ends, structlog.processors.format_exc_info, _ordered, structlog.processors.JSONRenderer(default=str)]
    renderer = structlog.dev.ConsoleRenderer(
        colors=stream.isatty(),
        timestamp_key="timestamp",
        exception_formatter=structlog.dev.plain_traceback,  # the pretty one prints local variables, secrets included
    )
    return [*ends, _printable, renderer]


def _ordered(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Put first what is read first."""
    return {key: event[key] for key in ("timestamp", "level", "event") if key in event} | dict(event)


def _flattened(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Lift what the Temporal SDK says of workflow and activity to keys of the line."""
    for key in ("temporal_workflow", "temporal_activity"):
        details = event.pop(key, None)
        if isinstance(details, dict):
            event.setdefault("workflow", details.get("workflow_id", ""))
            if "activity_type" in details:
                event.setdefault("activity", details["activity_type"])
                event.setdefault("attempt", details.get("attempt", 0))
    return event


def _traced(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Name the trace of what is logged, while traces are exported: of what is under way, or of the incident."""
    if not tracing.active():
        return event
    if ids := tracing.current_ids():
        event["trace_id"], event["span_id"] = ids
        return event
    incident = event.get("incident") or event.get("workflow")
    if isinstance(incident, str) and incident:
        event["trace_id"] = trace_id(incident)
    return event


def _printable(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Take control characters out of texts for a terminal; a traceback keeps its lines."""
    for key, value in event.items():
        if isinstance(value, str) and not value.isprintable() and key not in {"exception", "stack"}:
            event[key] = "".join(c if c.isprintable() else " " for c in value)
    return event
