"""Traces: ids that follow from the incident, whole stories, and nothing in anybody's way."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from sickbay.errors import UsageError
from sickbay.model.record import PastIncident, Phase, Record, RecordSpec, RecordStatus
from sickbay.model.trace import root_number, trace_id, trace_link
from sickbay.telemetry import tracing
from sickbay.telemetry.exporting import endpoint_of, exporting
from tests import builders
from tests.collector import Collector, collecting, contradictions, orphans, roots, told

INCIDENT = builders.target().incident
BASE = "http://collector:4318"


def record(**status: object) -> Record:
    """Build the record of the incident."""
    key = builders.DEVICE
    spec = RecordSpec.model_validate(
        {
            "cluster": key.cluster,
            "device": {"driver": key.driver, "pool": key.pool, "device": key.device},
            "first_bad_at": builders.NOW,
            "incident": INCIDENT,
            "status_version": "100",
        }
    )
    return Record(
        name=key.record_name, uid="u", resource_version="1", spec=spec, status=RecordStatus.model_validate(status)
    )


@contextmanager
def exported() -> Iterator[Collector]:
    """Export what is told inside the block, all of which has come when it ends."""
    with collecting() as collector, exporting(endpoint_of(collector.endpoint, {}), lost=lost_none):
        yield collector


def lost_none(count: int) -> None:
    """Take note that nothing may be lost."""
    raise AssertionError(f"{count} spans were lost")


def test_a_story_is_one_trace_under_a_root_that_follows_from_the_incident() -> None:
    """Parts lie under the root, requests inside their part; ids are those that anybody can work out."""
    with exported() as collector:
        tracing.begin_story(record())
        with (
            tracing.part("fence", INCIDENT, waited=False),
            tracing.request("POST x", method="POST", path="/x") as request,
        ):
            request.answered(201)
    spans = collector.trace(trace_id(INCIDENT))
    assert [span.name for span in spans] == ["incident", "fence", "POST x"]
    root, part, request_span = spans
    assert roots(collector.spans) == [root]
    assert orphans(collector.spans) == []
    assert int.from_bytes(root.span_id, "big") == root_number(INCIDENT)
    assert (part.parent_span_id, request_span.parent_span_id) == (root.span_id, part.span_id)
    assert told(part)["sickbay.waited"] is False
    assert told(request_span)["http.response.status_code"] == 201


def test_a_root_that_two_processes_tell_is_the_same_to_the_last_byte() -> None:
    """One process tells it once; the next leader after a crash may tell it again, and says nothing new."""
    with collecting() as collector:
        for _ in "first", "second":
            with exporting(endpoint_of(collector.endpoint, {}), lost=lost_none):
                tracing.begin_story(record())
                tracing.begin_story(record())
    assert len(collector.spans) == 2
    assert contradictions(collector.spans) == []
    assert len(collector.resources) == 1
    assert collector.spans[0].start_time_unix_nano == int(builders.NOW.timestamp()) * 10**9


def test_the_root_leads_to_the_incident_before() -> None:
    """A device's next incident is a trace of its own, with a link."""
    past = PastIncident(
        incident="incident/before/1", outcome=Phase.RELEASED, opened_at=builders.NOW, closed_at=builders.NOW
    )
    with exported() as collector:
        tracing.begin_story(record(history=[past]))
    (link,) = collector.spans[0].links
    assert link.trace_id.hex() == trace_id("incident/before/1")


def test_what_is_inside_leaves_with_its_part_or_not_at_all() -> None:
    """A request whose part has not ended, or is not worth telling, is not told: it would have no parent."""
    with exported() as collector:
        with tracing.part("open", INCIDENT):
            with tracing.request("GET x", method="GET", path="/x"):
                pass
            with tracing.part("other", INCIDENT, key="k"):
                pass
            collector.wait_for_spans()
            assert [span.name for span in collector.spans] == ["other"]
        with tracing.part("dropped", INCIDENT) as part:
            with tracing.request("GET y", method="GET", path="/y"):
                pass
            part.drop()
    assert [span.name for span in collector.spans] == ["other", "open", "GET x"]


def test_a_request_for_nobodys_story_is_none() -> None:
    """What a process does for itself, as to renew its Lease, belongs to no incident."""
    with exported() as collector, tracing.request("PUT leases", method="PUT", path="/x"):
        assert tracing.current_ids() is None
    assert collector.spans == []


def test_a_key_makes_the_id_of_its_part() -> None:
    """The same attempt of the same activity has the same id, whoever works it out."""
    with exported() as collector:
        for key in ("a", "a", "b", ""):
            with tracing.part("p", INCIDENT, key=key):
                pass
    first, again, other, free = (span.span_id for span in collector.spans)
    assert first == again
    assert len({first, other, free}) == 3


def test_nothing_is_told_while_nothing_is_exported() -> None:
    """Without an endpoint every call is empty."""
    with exporting(endpoint_of(None, {}), lost=lost_none):
        assert not tracing.active()
        tracing.begin_story(record())
        with tracing.part("p", INCIDENT) as part:
            part.note(a=1)
            assert tracing.current_ids() is None


def test_a_collector_that_is_away_for_a_while_misses_nothing() -> None:
    """A request that is not taken is sent again, and nobody waits for it meanwhile."""
    with collecting() as collector:
        collector.refusing = 503
        began = time.monotonic()
        with exporting(endpoint_of(collector.endpoint, {}), lost=lost_none):
            tracing.begin_story(record())
            assert time.monotonic() - began < 1
            collector.refusing = 0
            collector.wait_for_spans()
    assert [span.name for span in collector.spans] == ["incident"]


def test_a_collector_that_is_not_there_keeps_no_process_from_ending() -> None:
    """What could not be sent is counted as lost."""
    lost: list[int] = []
    began = time.monotonic()
    with exporting("http://127.0.0.1:1/v1/traces", lost=lost.append):
        tracing.begin_story(record())
    assert time.monotonic() - began < 5
    assert sum(lost) == 1


@pytest.mark.parametrize(
    ("setting", "environment", "endpoint"),
    [
        (BASE, {}, f"{BASE}/v1/traces"),
        (None, {}, None),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": f"{BASE}/"}, f"{BASE}/v1/traces"),
        (None, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{BASE}/x", "OTEL_EXPORTER_OTLP_ENDPOINT": "z"}, f"{BASE}/x"),
        ("http://mine:1", {"OTEL_EXPORTER_OTLP_ENDPOINT": BASE}, "http://mine:1/v1/traces"),
        (BASE, {"OTEL_SDK_DISABLED": "true"}, None),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": BASE, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, None),
    ],
)
def test_the_endpoint_is_the_setting_or_opentelemetrys_own(
    setting: str | None, environment: dict[str, str], endpoint: str | None
) -> None:
    """The setting wins; the general variable gets the path appended, the special one is taken as it is."""
    assert endpoint_of(setting, environment) == endpoint


def test_a_variable_that_is_no_address_is_named() -> None:
    """With the way to write it."""
    with pytest.raises(UsageError, match="OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318' is not an address; write http"):
        endpoint_of(None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"})


def test_the_link_has_the_id_in_its_place() -> None:
    """Without a template there is none."""
    assert trace_link("http://ui/trace/{trace_id}?x", INCIDENT) == f"http://ui/trace/{trace_id(INCIDENT)}?x"
    assert trace_link("", INCIDENT) == ""
    assert len(trace_id(INCIDENT)) == 32
    assert builders.NOW.utcoffset() == timedelta(0)
