"""Every metric of Sickbay, declared here and nowhere else; ``docs/metrics.md`` is made from this table.

No label without a bound: a label's values are an enumeration or, where the enumeration lives in a room above this one,
at most `MOST_VALUES` of them; whatever comes beyond is counted as ``other``. Never a device, pod or node name.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from sickbay import errors
from sickbay.errors import SickbayError
from sickbay.model.contracts import Activity, EvictionOutcome
from sickbay.model.incident import Trial, Verdict
from sickbay.model.observation import Health, Reason
from sickbay.model.record import AdmissionState, Phase
from sickbay.telemetry.alert import Alert

OTHER: Final = "other"

MOST_VALUES: Final = 40
"""Values of a label whose set is declared elsewhere; whatever comes beyond is `OTHER`."""


class Refusal(StrEnum):
    """Why the API server did not carry out a write of the leader."""

    TERM = "Term"
    FORBIDDEN = "Forbidden"
    INVALID = "Invalid"
    CONFLICT = "Conflict"
    PAUSED = "Paused"
    UNAVAILABLE = "Unavailable"


class Started(StrEnum):
    """What came of asking Temporal to start an incident."""

    STARTED = "Started"
    ALREADY_RUNNING = "AlreadyRunning"
    UNAVAILABLE = "Unavailable"


class Verb(StrEnum):
    """Method of a request to the API server."""

    GET = "GET"
    POST = "POST"
    PUT = "PUT"
    PATCH = "PATCH"
    DELETE = "DELETE"
    WATCH = "WATCH"
    """A GET that goes on; counted when it is refused or breaks off."""


class Migrated(StrEnum):
    """How far a pod came that Sickbay evicted."""

    EVICTED = "Evicted"
    """The eviction was accepted."""
    GONE = "Gone"
    """It holds the device no longer."""
    REPLACED = "Replaced"
    """Its owner runs Ready on another device, or has completed: the migration succeeded."""


class Ending(StrEnum):
    """How one attempt of an activity ended."""

    DONE = "Done"
    WAITING = "Waiting"
    """Benign: nothing has changed yet, asked again later."""
    SUPERSEDED = "Superseded"
    RETRY = "Retry"
    """It failed in a way that another attempt can mend."""
    FAILED = "Failed"
    """It failed for good."""
    CANCELLED = "Cancelled"


@dataclass(frozen=True, eq=False)
class Spec:
    """One metric.

    Attributes:
        name: as scraped, unit and ``_total`` included.
        help: one sentence.
        labels: by name, the values; an empty tuple = a closed set declared in a room above, bounded by count.
        buckets: upper bounds of a histogram in seconds; empty for the other kinds.
    """

    name: str
    help: str
    labels: Mapping[str, tuple[str, ...]]
    buckets: tuple[float, ...] = ()

    @property
    def kind(self) -> str:
        """Tell counter, gauge and histogram apart."""
        if self.buckets:
            return "histogram"
        return "counter" if self.name.endswith("_total") else "gauge"


def _of(**labels: type[StrEnum] | None) -> dict[str, tuple[str, ...]]:
    return {name: tuple(values or ()) for name, values in labels.items()}


_ERRORS: Final = tuple(
    name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, SickbayError)
)


_API_OUTCOMES: Final = ("Ok", *_ERRORS)
_TEMPORAL_OUTCOMES: Final = ("Ok", "NotFound", "TemporalUnavailable", "TemporalRefused")

SLOW: Final = (10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 43200.0, 86400.0, 259200.0, 604800.0)
"""From ten seconds to a week."""

FAST: Final = (0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.6, 1.25, 2.5, 5.0, 10.0, 20.0, 60.0)

STATUS_AGE = Spec(
    "sickbay_status_age_seconds",
    "Age of the oldest node Lease that a status in use rests on; beyond staleness it is Unknown.",
    {},
)
STALENESS = Spec(
    "sickbay_watch_staleness_seconds", "Time since the least fresh watch last heard from the API server.", {}
)
FENCED = Spec(
    "sickbay_detection_to_fence_seconds",
    "From reading a bad status to the API server's answer that the fence stands; none that waited for the guard.",
    {},
    FAST,
)
OPENED = Spec(
    "sickbay_incidents_opened_total", "Incidents opened, by the reason of the first bad reading.", _of(reason=Reason)
)
ADMISSIONS = Spec("sickbay_admissions_total", "Rulings of the fleet guard.", _of(state=AdmissionState))
RECORDS = Spec("sickbay_open_records", "Open records, by their admission.", _of(state=AdmissionState))
REFUSED = Spec(
    "sickbay_refusals_total", "Writes of the leader that were refused or not made, by cause.", _of(cause=Refusal)
)
STARTS = Spec(
    "sickbay_incident_starts_total", "Requests to Temporal to start an incident, by outcome.", _of(outcome=Started)
)
UNPARSED = Spec(
    "sickbay_unparsed_total", "Parts of the cluster's objects that could not be read as they should.", _of(reason=None)
)
PLUGIN = Spec(
    "sickbay_plugin_entries_total", "Device-plugin entries seen in pod status; observed only.", _of(health=Health)
)
LEADING = Spec("sickbay_leading", "1 while this process is the one active watcher.", {})
ALERTS = Spec(
    "sickbay_alerts_total", "Conditions that a person should look at and that began, by name.", _of(alert=Alert)
)
STANDING = Spec(
    "sickbay_alerts_standing", "Conditions that a person should look at and that hold now, by name.", _of(alert=Alert)
)
PHASES = Spec("sickbay_phases_total", "Phases that incidents entered, as written into their records.", _of(phase=Phase))
VERDICTS = Spec("sickbay_probe_verdicts_total", "Verdicts of probes.", _of(verdict=Verdict))
BUSINESS = Spec(
    "sickbay_business_checks_total",
    "Answers of Prometheus to business checks: within the bounds, out of them, or none that counts.",
    {"verdict": (Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE)},
)
SUSPENDED = Spec(
    "sickbay_probes_suspended",
    "1 while trials of this kind are suspended but for one at a time; told by the active watcher.",
    _of(trial=Trial),
)
EVICTIONS = Spec("sickbay_evictions_total", "Answers to evictions.", _of(outcome=EvictionOutcome))
ATTEMPTS = Spec(
    "sickbay_activities_total", "Attempts of activities, by how they ended.", _of(activity=Activity, outcome=Ending)
)
ATTEMPT_TIME = Spec(
    "sickbay_activity_seconds", "How long one attempt of an activity took.", _of(activity=Activity), FAST
)
ERRORS = Spec(
    "sickbay_errors_total",
    "Errors, by their class in the project's own tree; any other is other.",
    {"error": (*_ERRORS, OTHER)},
)
TEMPORAL_UP = Spec("sickbay_temporal_up", "1 while Temporal answers.", {})
UNKNOWN = Spec("sickbay_unknown_devices", "Devices that are reported on and whose health is Unknown now.", {})
UNKNOWN_TIME = Spec(
    "sickbay_unknown_device_seconds_total",
    "Time that devices spent Unknown, summed over devices; counted by the active watcher.",
    {},
)
LAG = Spec(
    "sickbay_watch_lag_seconds",
    "From a change of a device, heard by the active watcher, to its being worked on.",
    {},
    FAST,
)
FENCED_TIME = Spec(
    "sickbay_fenced_device_seconds_total",
    "Time that devices stood behind a fence of ours, summed over devices, by phase; counted by the active watcher.",
    _of(phase=Phase),
)
QUARANTINE = Spec(
    "sickbay_quarantine_seconds",
    "From an incident's admission, with which its fence goes up, to its end, by how it ended.",
    {"outcome": tuple(phase for phase in Phase if phase.final)},
    SLOW,
)
FALSE_QUARANTINES = Spec(
    "sickbay_false_quarantines_total", "Incidents that ended Cleared after a fence: nothing bad was ever read live.", {}
)
MIGRATIONS = Spec("sickbay_migrations_total", "Pods that Sickbay evicted, by how far they came.", _of(stage=Migrated))
API_CALLS = Spec(
    "sickbay_api_requests_total",
    "Requests to the API server, by verb and by Ok or the class of the error.",
    {"verb": tuple(Verb), "outcome": (*_API_OUTCOMES, OTHER)},
)
API_TIME = Spec("sickbay_api_request_seconds", "How long requests to the API server took.", _of(verb=Verb), FAST)
TEMPORAL_CALLS = Spec(
    "sickbay_temporal_calls_total",
    "Calls of Temporal but for those of its workers, by Ok or the class of the error.",
    {"outcome": _TEMPORAL_OUTCOMES},
)
SPANS_LOST = Spec("sickbay_spans_lost_total", "Spans that were given up: the collector was away or too slow.", {})

ALL: Final = (
    STATUS_AGE, STALENESS, FENCED, OPENED, ADMISSIONS, RECORDS, REFUSED, STARTS, UNPARSED, PLUGIN, LEADING, ALERTS,
    STANDING, PHASES, VERDICTS, BUSINESS, SUSPENDED, EVICTIONS, ATTEMPTS, ATTEMPT_TIME, ERRORS, TEMPORAL_UP,
    UNKNOWN, UNKNOWN_TIME, LAG, FENCED_TIME, QUARANTINE, FALSE_QUARANTINES, MIGRATIONS, API_CALLS, API_TIME,
    TEMPORAL_CALLS, SPANS_LOST,
)  # fmt: skip


class _Series:
    """One metric in one registry, with its labels kept to their bounds."""

    def __init__(self, spec: Spec, registry: CollectorRegistry) -> None:
        self._spec = spec
        names = tuple(spec.labels)
        self._metric: Counter | Gauge | Histogram
        if spec.kind == "histogram":
            self._metric = Histogram(spec.name, spec.help, names, buckets=spec.buckets, registry=registry)
        elif spec.kind == "counter":
            self._metric = Counter(spec.name, spec.help, names, registry=registry)
        else:
            self._metric = Gauge(spec.name, spec.help, names, registry=registry)
        self._met: set[str] = set()
        # A series that exists from the start is 0 before its first event, which rate() and alerts need.
        if names:
            for values in itertools.product(*spec.labels.values()):
                self._metric.labels(*values)

    def add(self, *values: str, by: float = 1) -> None:
        """Count one, or so many."""
        metric = self._at(values)
        assert isinstance(metric, Counter)
        metric.inc(by)

    def put(self, number: float, *values: str) -> None:
        """Set a gauge."""
        metric = self._at(values)
        assert isinstance(metric, Gauge)
        metric.set(number)

    def move(self, by: float, *values: str) -> None:
        """Move a gauge."""
        metric = self._at(values)
        assert isinstance(metric, Gauge)
        metric.inc(by)

    def observe(self, seconds: float, *values: str) -> None:
        """Add to a histogram."""
        metric = self._at(values)
        assert isinstance(metric, Histogram)
        metric.observe(seconds)

    def _at(self, values: tuple[str, ...]) -> Counter | Gauge | Histogram:
        if not values:
            return self._metric
        known = self._spec.labels.values()
        return self._metric.labels(*(self._bounded(v, k) for v, k in zip(values, known, strict=True)))

    def _bounded(self, value: str, known: tuple[str, ...]) -> str:
        if known:
            return value if value in known else OTHER
        if value not in self._met and len(self._met) >= MOST_VALUES:
            return OTHER
        self._met.add(value)
        return value


class Metrics:
    """The metrics of one process, in a registry of their own. Watcher, worker and health endpoint share one."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # it has no annotations
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._of = {spec: _Series(spec, self.registry) for spec in ALL}

    def exposed(self) -> bytes:
        """Give all of them in Prometheus' text format."""
        return generate_latest(self.registry)

    # What the watcher saw and did.

    def status_age(self, seconds: float) -> None:
        """Set the age of the oldest Lease in use."""
        self._of[STATUS_AGE].put(seconds)

    def staleness(self, seconds: float) -> None:
        """Set the time since the least fresh watch was in touch."""
        self._of[STALENESS].put(seconds)

    def fenced(self, seconds: float) -> None:
        """Note a fence that stands, and how long it took."""
        self._of[FENCED].observe(seconds)

    def opened(self, reason: str) -> None:
        """Count an incident by its `Reason`."""
        self._of[OPENED].add(reason)

    def admission(self, state: str) -> None:
        """Count a ruling of the guard by its `AdmissionState`."""
        self._of[ADMISSIONS].add(state)

    def records(self, state: str, count: int) -> None:
        """Set the number of open records of one `AdmissionState`."""
        self._of[RECORDS].put(count, state)

    def refused(self, cause: str) -> None:
        """Count a write that was refused by its `Refusal`."""
        self._of[REFUSED].add(cause)

    def started(self, outcome: str) -> None:
        """Count a request to start an incident by its `Started`."""
        self._of[STARTS].add(outcome)

    def unparsed(self, reason: str) -> None:
        """Count a part of an object that could not be read."""
        self._of[UNPARSED].add(reason)

    def plugin_entries(self, health: str) -> None:
        """Count a device-plugin entry by its `Health`."""
        self._of[PLUGIN].add(health)

    def unknown(self, devices: int, seconds: float) -> None:
        """Set how many devices are Unknown, and count the seconds that have passed for them; 0 if another counts."""
        self._of[UNKNOWN].put(devices)
        self._of[UNKNOWN_TIME].add(by=devices * seconds)

    def fenced_time(self, phase: str, seconds: float) -> None:
        """Count device-seconds behind fences, by `Phase`."""
        self._of[FENCED_TIME].add(phase, by=seconds)

    def lag(self, seconds: float) -> None:
        """Note how long a device waited for its turn."""
        self._of[LAG].observe(seconds)

    def leading(self, yes: bool) -> None:  # noqa: FBT001 - the value of a gauge
        """Say whether this process is the active watcher."""
        self._of[LEADING].put(yes)

    def alert(self, name: str, *, began: bool) -> None:
        """Note that a condition that a person should look at began, or ended."""
        if began:
            self._of[ALERTS].add(name)
        self._of[STANDING].move(1 if began else -1, name)

    def suspended(self, trial: str, *, yes: bool) -> None:
        """Say whether trials of a kind, a `Trial`, are suspended."""
        self._of[SUSPENDED].put(yes, trial)

    # What the incidents did.

    def phase(self, phase: str) -> None:
        """Count a `Phase` that an incident entered."""
        self._of[PHASES].add(phase)

    def verdict(self, verdict: str) -> None:
        """Count a probe's `Verdict`."""
        self._of[VERDICTS].add(verdict)

    def business(self, verdict: str) -> None:
        """Count an answer to a business check by its `Verdict`."""
        self._of[BUSINESS].add(verdict)

    def evicted(self, outcome: str) -> None:
        """Count an eviction by its `EvictionOutcome`."""
        self._of[EVICTIONS].add(outcome)

    def ended(self, outcome: str, quarantined: float) -> None:
        """Note the end of an incident that was admitted: its final `Phase`, and after how many seconds."""
        self._of[QUARANTINE].observe(quarantined, outcome)
        if outcome == Phase.CLEARED:
            self._of[FALSE_QUARANTINES].add()

    def migrated(self, stage: str) -> None:
        """Count a pod that came to a `Migrated`."""
        self._of[MIGRATIONS].add(stage)

    def activity(self, activity: str, ending: str, seconds: float) -> None:
        """Count one attempt of an `Activity` by its `Ending`, and note how long it took."""
        self._of[ATTEMPTS].add(activity, ending)
        self._of[ATTEMPT_TIME].observe(seconds, activity)

    # What held the process up.

    def error(self, error: BaseException) -> None:
        """Count an error by its class in the project's own tree."""
        self._of[ERRORS].add(type(error).__name__ if isinstance(error, SickbayError) else OTHER)

    def api(self, verb: str, outcome: str, seconds: float) -> None:
        """Count a request to the API server, and note how long it took."""
        self._of[API_CALLS].add(verb, outcome)
        self._of[API_TIME].observe(seconds, verb)

    def temporal_call(self, outcome: str) -> None:
        """Count a call of Temporal."""
        self._of[TEMPORAL_CALLS].add(outcome)

    def spans_lost(self, count: int) -> None:
        """Count spans that were given up; called from any thread."""
        self._of[SPANS_LOST].add(by=count)

    def temporal(self, up: bool) -> None:  # noqa: FBT001 - the value of a gauge
        """Say whether Temporal answers."""
        self._of[TEMPORAL_UP].put(up)


def table() -> str:
    """Write all metrics as a Markdown table, for ``docs/metrics.md``."""
    rows = ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
    for spec in ALL:
        labels = ", ".join(
            f"`{name}`: {', '.join(values) if values else 'a closed set of its room'}"
            for name, values in spec.labels.items()
        )
        rows.append(f"| `{spec.name}` | {spec.kind} | {labels} | {spec.help} |")
    return "\n".join(rows) + "\n"
