"""Metrics: one table, bounded labels, one registry for each process."""

from __future__ import annotations

from pathlib import Path

from sickbay.errors import NotFound
from sickbay.model.contracts import Activity
from sickbay.model.record import Phase
from sickbay.telemetry.alert import Alert
from sickbay.telemetry.metrics import ALL, MOST_VALUES, Ending, Metrics, table


def lines(metrics: Metrics, name: str) -> dict[str, float]:
    """Give the exposed samples whose name starts so, by name and labels."""
    samples = [line for line in metrics.exposed().decode().splitlines() if line.startswith(name)]
    return {sample.rpartition(" ")[0]: float(sample.rpartition(" ")[2]) for sample in samples}


def test_a_series_of_a_closed_set_is_there_before_its_first_event() -> None:
    """rate() and alerts need a zero to count from."""
    found = lines(Metrics(), "sickbay_phases_total{")
    assert found == {f'sickbay_phases_total{{phase="{phase}"}}': 0.0 for phase in Phase}


def test_events_are_counted() -> None:
    """Each method moves its own metric."""
    metrics = Metrics()
    metrics.phase(Phase.HELD)
    metrics.fenced(0.011)
    metrics.records("Admitted", 3)
    metrics.leading(yes=True)
    metrics.activity(Activity.EVICT_USER, Ending.DONE, 0.1)
    metrics.error(NotFound(status=404))
    metrics.error(KeyError("x"))
    assert lines(metrics, "sickbay_phases_total")['sickbay_phases_total{phase="Held"}'] == 1
    assert lines(metrics, "sickbay_detection_to_fence_seconds_count")["sickbay_detection_to_fence_seconds_count"] == 1
    assert lines(metrics, "sickbay_open_records")['sickbay_open_records{state="Admitted"}'] == 3
    assert lines(metrics, "sickbay_leading") == {"sickbay_leading": 1.0}
    assert lines(metrics, 'sickbay_activities_total{activity="evict_user",outcome="Done"}').popitem()[1] == 1
    errors = lines(metrics, "sickbay_errors_total{")
    assert {name: count for name, count in errors.items() if count} == {
        'sickbay_errors_total{error="NotFound"}': 1.0,
        'sickbay_errors_total{error="other"}': 1.0,
    }


def test_time_and_ends_are_counted() -> None:
    """Device-seconds add up; an incident that ends Cleared after its admission was a false quarantine."""
    metrics = Metrics()
    metrics.unknown(3, 2.0)
    metrics.unknown(1, 2.0)
    metrics.fenced_time(Phase.RECOVERING, 2.5)
    metrics.ended(Phase.CLEARED, 30)
    metrics.ended(Phase.RELEASED, 600)
    metrics.api("GET", "Ok", 0.1)
    metrics.api("OPTIONS", "Odd", 0.1)
    metrics.spans_lost(5)
    assert lines(metrics, "sickbay_unknown_devices") == {"sickbay_unknown_devices": 1.0}
    assert lines(metrics, "sickbay_unknown_device_seconds_total").popitem()[1] == 8.0
    assert lines(metrics, 'sickbay_fenced_device_seconds_total{phase="Recovering"}').popitem()[1] == 2.5
    assert lines(metrics, "sickbay_false_quarantines_total").popitem()[1] == 1
    assert lines(metrics, 'sickbay_quarantine_seconds_sum{outcome="Released"}').popitem()[1] == 600
    assert lines(metrics, 'sickbay_api_requests_total{outcome="Ok",verb="GET"}').popitem()[1] == 1
    assert lines(metrics, 'sickbay_api_requests_total{outcome="other",verb="other"}').popitem()[1] == 1
    assert lines(metrics, "sickbay_spans_lost_total").popitem()[1] == 5


def test_every_metric_of_the_table_is_in_a_scrape_from_the_start() -> None:
    """But for one whose labels are an open set, of which only name and kind are."""
    exposed = Metrics().exposed().decode()
    samples = {line.partition("{")[0].partition(" ")[0] for line in exposed.splitlines() if not line.startswith("#")}
    missing = [spec for spec in ALL if not samples & {spec.name, f"{spec.name}_count"}]
    assert [spec.labels for spec in missing] == [{"reason": ()}]
    assert all(f"# HELP {spec.name.removesuffix('_total')}" in exposed for spec in missing)


def test_a_label_never_grows_without_bound() -> None:
    """A value outside a closed set is `other`; an open set is cut off by count."""
    metrics = Metrics()
    metrics.phase("Invented")
    for n in range(MOST_VALUES + 10):
        metrics.unparsed(f"reason-{n}")
    assert lines(metrics, 'sickbay_phases_total{phase="other"}').popitem()[1] == 1
    assert len(lines(metrics, "sickbay_unparsed_total{")) == MOST_VALUES + 1
    assert lines(metrics, 'sickbay_unparsed_total{reason="other"}').popitem()[1] == 10


def test_two_processes_do_not_share_counts() -> None:
    """Each has a registry of its own."""
    one, other = Metrics(), Metrics()
    one.alert(Alert.WATCH_STALE, began=True)
    assert set(lines(other, "sickbay_alerts_total{").values()) == {0.0}


def test_an_alert_is_there_before_it_begins_and_as_long_as_it_holds() -> None:
    """A rule on what holds now sees the first one of its kind too."""
    metrics = Metrics()
    told = []
    kinds = ("total", "standing")
    for began in (None, True, True, False, False):
        if began is not None:
            metrics.alert(Alert.FENCE_MISMATCHED, began=began)
        told.append(
            tuple(lines(metrics, f'sickbay_alerts_{kind}{{alert="FenceMismatched"}}').popitem()[1] for kind in kinds)
        )
    assert told == [(0, 0), (1, 1), (2, 2), (2, 1), (2, 0)]


def test_no_label_names_a_device_a_pod_or_a_node() -> None:
    """Such a label has no bound."""
    assert not {"device", "pod", "node", "incident", "namespace"} & {label for spec in ALL for label in spec.labels}


def test_the_documentation_has_every_metric() -> None:
    """docs/metrics.md holds the table that is made from the declarations; `make docs` writes it."""
    text = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert table() in text
