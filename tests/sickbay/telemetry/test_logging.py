"""Logs: one form for our events and the libraries', with the incident on each line."""

from __future__ import annotations

import io
import json
import logging as stdlib
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from sickbay.model.trace import trace_id
from sickbay.telemetry import tracing
from sickbay.telemetry.exporting import exporting
from sickbay.telemetry.logging import Format, Level, about, configure
from tests.collector import collecting


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """Log into memory; afterwards logging is as it was before."""
    root = stdlib.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    configure(Level.INFO, Format.JSON, stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    stdlib.captureWarnings(capture=False)
    structlog.reset_defaults()


def events(stream: io.StringIO) -> list[dict[str, Any]]:
    """Decode what was written."""
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_json_object_with_the_incident(written: io.StringIO) -> None:
    """Incident and device are on every line inside, and gone after."""
    log = structlog.get_logger("sickbay.test")
    with about(incident="incident/a/1", device="a"):
        log.info("fence_stood", seconds=0.01)
    log.info("done")
    first, second = events(written)
    assert list(first)[:3] == ["timestamp", "level", "event"]
    assert first.items() >= {"event": "fence_stood", "incident": "incident/a/1", "device": "a", "seconds": 0.01}.items()
    assert "incident" not in second


def test_libraries_take_the_same_way(written: io.StringIO) -> None:
    """What the Temporal SDK knows of workflow and activity becomes keys of the line."""
    details = {"workflow_id": "incident/a/1", "activity_type": "read_device", "attempt": 2, "task_token": b"x"}
    stdlib.getLogger("temporalio.activity").warning("failed %s", "once", extra={"temporal_activity": details})
    (event,) = events(written)
    expected = {"event": "failed once", "level": "warning", "workflow": "incident/a/1", "activity": "read_device"}
    assert event.items() >= (expected | {"attempt": 2}).items()
    assert "task_token" not in written.getvalue()


def test_less_severe_events_are_not_written(written: io.StringIO) -> None:
    """The level holds for ours and for libraries' events."""
    structlog.get_logger("sickbay.test").debug("seen")
    stdlib.getLogger("aiohttp.server").debug("seen")
    assert written.getvalue() == ""


def test_no_text_forges_a_line(written: io.StringIO) -> None:
    """A line break or an escape sequence in a text stays inside its event, in both forms."""
    structlog.get_logger("sickbay.test").info("said", message="bad\n\x1b[31mforged")
    assert len(written.getvalue().splitlines()) == 1
    console = io.StringIO()
    configure(Level.INFO, Format.CONSOLE, console)
    structlog.get_logger("sickbay.test").info("said", message="bad\n\x1b[31mforged")
    assert len(console.getvalue().splitlines()) == 1
    assert "\x1b" not in console.getvalue()


def test_a_line_names_the_trace_while_traces_are_exported(written: io.StringIO) -> None:
    """That of what is under way, or of the incident that the line is about; none where nothing is exported."""
    log = structlog.get_logger("sickbay.test")
    with collecting() as collector, exporting(f"{collector.endpoint}/v1/traces", lost=lambda _: None):
        log.info("about", incident="incident/a/1")
        with tracing.part("p", "incident/a/1"):
            log.info("inside")
        log.info("of_nobody")
    log.info("about", incident="incident/a/1")
    about, inside, nobody, after = [e for e in events(written) if e["logger"] == "sickbay.test"]
    assert about["trace_id"] == inside["trace_id"] == trace_id("incident/a/1")
    assert "span_id" in inside
    assert not {"trace_id", "span_id"} & (nobody.keys() | after.keys())


def test_a_traceback_has_no_local_variables(written: io.StringIO) -> None:
    """They could hold credentials."""
    configure(Level.INFO, Format.CONSOLE, console := io.StringIO())
    secret = "hunter2"
    try:
        int(secret[:6])
    except ValueError:
        structlog.get_logger("sickbay.test").exception("failed")
    assert "ValueError" in console.getvalue()
    assert secret not in console.getvalue()
