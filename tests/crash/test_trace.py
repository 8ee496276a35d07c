"""The trace of an incident on a real cluster: one story, whole, also when Sickbay is killed in the middle of it."""

from __future__ import annotations

from collections.abc import Iterator

import aiohttp
import pytest

from k8s.gateway import decode
from k8s.resources import DEVICEQUARANTINES
from sickbay.model.record import Phase, Record
from sickbay.model.trace import TRACE_ANNOTATION, trace_id
from sickbay.telemetry.metrics import ALL
from tests.collector import Collector, collecting, contradictions, orphans, roots, told
from tests.crash.harness import Ward
from tests.crash.points import EFFECTS, FENCE, Parking
from tests.crash.process import Sickbay
from tests.crash.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.crash]

WAY = {Phase.QUARANTINED, Phase.EVACUATING, Phase.RECOVERING, Phase.PROBING, Phase.RELEASING, Phase.RELEASED}
"""Phases of an incident that ends well."""

VERBS = {"read_device", "fence_device", "list_users", "evict_user", "start_probe", "await_probe", "stop_probe",
         "unlatch_fence", "delete_fence", "await_fence_gone"}  # fmt: skip
"""Activities of such an incident, but for those that write phases."""

OPEN_SET = "sickbay_unparsed_total"
"""The one metric whose first series comes with its first event."""


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """Give a stand-in of a collector, to which every Sickbay of the test exports."""
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
        yield collector


def tells_all(collector: Collector, record: Record) -> None:
    """Make sure that an incident's trace is whole."""
    spans = collector.trace(trace_id(record.spec.incident))
    names = {span.name for span in spans}
    assert {str(told(span)["sickbay.phase"]) for span in spans if "sickbay.phase" in told(span)} >= WAY, names
    assert names >= {"incident", *VERBS}, names
    assert orphans(spans) == []
    assert contradictions(spans) == []
    assert len({span.span_id for span in roots(spans)}) == 1
    opened = roots(spans)[0]
    assert opened.start_time_unix_nano == min(span.start_time_unix_nano for span in spans)
    # Short spans: none is open while the incident waits for something.
    assert max(span.end_time_unix_nano - span.start_time_unix_nano for span in spans) < 40e9


async def test_an_incident_is_one_story_from_the_first_bad_word_to_its_release(
    ward: Ward, collector: Collector
) -> None:
    """Every phase and activity is told under one root, requests inside; record, log and a scrape go with it."""
    sickbay = await ward.sickbay()
    await sickbay.ready()
    (seat,) = await ward.jobs("told", 1, devices=2)
    await ward.break_devices([seat])
    await ward.released([seat], by=sickbay)
    record = (await ward.records())[seat.key.record_name]
    trace = trace_id(record.spec.incident)
    raw = decode(await ward.lab.gateway.request("GET", DEVICEQUARANTINES.path(name=record.name)))
    assert raw["metadata"]["annotations"][TRACE_ANNOTATION] == trace
    assert {line["trace_id"] for line in sickbay.said("incident_opened", incident=record.spec.incident)} == {trace}
    assert {line["trace_id"] for line in sickbay.said("incident_phase")} == {trace}
    scraped = await scrape(sickbay)
    await sickbay.stop()
    tells_all(collector, record)
    spans = collector.trace(trace)
    assert len(roots(spans)) == 1
    parents = {span.span_id: span.name for span in spans}
    requests = {(span.name, parents.get(span.parent_span_id, "")) for span in spans if " " in span.name}
    assert {
        ("POST devicequarantines", "record"),
        ("POST devicetaintrules", "fence"),
        ("POST pods/eviction", "evict_user"),
        ("DELETE devicetaintrules", "delete_fence"),
    } <= requests
    assert {span.name for span in spans} >= {"record", "fence", "start workflow"}
    samples = {line.partition("{")[0].partition(" ")[0] for line in scraped.splitlines() if not line.startswith("#")}
    missing = {spec.name for spec in ALL if not samples & {spec.name, f"{spec.name}_count"}}
    assert missing <= {OPEN_SET}
    assert f"# TYPE {OPEN_SET.removesuffix('_total')}" in scraped


async def test_a_story_is_whole_with_a_kill_in_the_middle(ward: Ward, collector: Collector) -> None:
    """Wherever the process is killed, another goes on in the same trace: one root, no orphan, no id for two things."""
    first = await ward.sickbay()
    await first.ready()
    points = [effect.after for effect in EFFECTS] + [EFFECTS[0].before, FENCE.before]
    seats = await ward.jobs("cut", len(points), devices=2 * len(points))
    parked = [Parking(first.proxy, seat, point) for seat, point in zip(seats, points, strict=True)]
    await ward.break_devices(seats)

    async def all_parked() -> bool:
        first.check()
        return all(place.reached for place in parked)

    await until("every incident is parked", all_parked, within=240)
    await ward.kill(first)
    second = await ward.sickbay()
    await ward.released(seats, by=second)
    await second.stop()
    records = await ward.records()
    for seat in seats:
        tells_all(collector, records[seat.key.record_name])
    assert len(collector.resources) == 1


async def scrape(sickbay: Sickbay) -> str:
    """Read a process' metrics."""
    async with aiohttp.ClientSession() as session, session.get(f"{sickbay.health}/metrics") as answer:
        return await answer.text()
