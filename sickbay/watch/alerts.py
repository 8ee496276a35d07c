"""What a person should look at: told once when it begins and once when it ends, by log and metric."""

from __future__ import annotations

from enum import StrEnum

import structlog

from sickbay.telemetry.metrics import Metrics

log = structlog.get_logger(__name__)


class Alert(StrEnum):
    """A condition that does not mend itself, or that keeps us from acting: a closed set, fit for a metric label."""

    TEMPORAL_UNAVAILABLE = "TemporalUnavailable"
    """Incidents cannot start. Bad devices are fenced all the same."""
    NAMESPACE_MISMATCH = "NamespaceMismatch"
    """Temporal is another database than the one that holds our incidents; nothing is started."""
    FLEET_IN_DOUBT = "FleetInDoubt"
    """Most devices are Unknown at once: it is not the devices. No new suspects."""
    WATCH_STALE = "WatchStale"
    """Our own copy of the cluster is old."""
    HISTORY_BROKE = "HistoryBroke"
    """The cluster's database was restored; it holds until this process ends."""
    RECORD_UNREADABLE = "RecordUnreadable"
    """A record cannot be decoded: its device is left as it is."""
    FENCE_MISMATCHED = "FenceMismatched"
    """A fence of ours does not say what it should."""
    ORPHAN_FENCE = "OrphanFence"
    """A fence of ours stood without an open incident; it has one now."""
    WRITE_REFUSED = "WriteRefused"
    """The API server refuses what we write, and it is not because another leads."""
    NOT_INSTALLED = "NotInstalled"
    """Objects that ``sickbay install`` makes are missing."""
    INCIDENTS_HELD = "IncidentsHeld"
    """The guard holds incidents back."""


class Alerts:
    """Conditions that hold now, of one part that tells them: a term, or the copy of the cluster."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._standing: set[tuple[Alert, str]] = set()

    def begin(self, alert: Alert, about: str = "", **facts: object) -> None:
        """Tell a condition, unless it is known to hold.

        Args:
            alert: which.
            about: tells several of the same kind apart; for the log only.
            facts: for the log only.
        """
        if (alert, about) in self._standing:
            return
        self._standing.add((alert, about))
        self._metrics.alert(alert)
        log.error("alert_began", alert=alert, about=about, **facts)

    def end(self, alert: Alert, about: str = "") -> None:
        """Tell that a condition no longer holds, if it did."""
        if (alert, about) in self._standing:
            self._standing.remove((alert, about))
            log.warning("alert_ended", alert=alert, about=about)

    def end_all(self) -> None:
        """Tell that nothing of this holds any more, as far as we are to say: whoever leads next finds out anew."""
        for alert, about in sorted(self._standing):
            self.end(alert, about)

    def holds(self, alert: Alert, about: str = "") -> bool:
        """Say whether a condition is known to hold."""
        return (alert, about) in self._standing
