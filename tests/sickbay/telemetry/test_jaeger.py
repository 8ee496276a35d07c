"""What Jaeger makes of what we send; only where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from sickbay.model.trace import trace_id
from sickbay.telemetry import tracing
from sickbay.telemetry.exporting import exporting
from tests.jaeger import jaeger_if_there
from tests.sickbay.telemetry.test_tracing import INCIDENT, lost_none, record


def test_jaeger_shows_a_root_that_was_told_twice_once(tmp_path: Path) -> None:
    """Two leaders told it, the same to the last byte."""
    with jaeger_if_there(tmp_path) as jaeger:
        if jaeger is None:
            pytest.skip("no jaeger on the PATH")
        for _ in "first", "second":
            with exporting(f"{jaeger.endpoint}/v1/traces", lost=lost_none):
                tracing.begin_story(record())
                with tracing.part("fence", INCIDENT):
                    pass
        shown = jaeger.trace(trace_id(INCIDENT))
        assert sorted(span["operationName"] for span in shown.spans) == ["fence", "fence", "incident"]
