"""What a person should look at: told once when it begins and once when it ends, by log and metric."""

from __future__ import annotations

import structlog

from sickbay.telemetry.alert import Alert
from sickbay.telemetry.metrics import Metrics

log = structlog.get_logger(__name__)


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
        self._metrics.alert(alert, began=True)
        log.error("alert_began", alert=alert, about=about, **facts)

    def end(self, alert: Alert, about: str = "") -> None:
        """Tell that a condition no longer holds, if it did."""
        if (alert, about) in self._standing:
            self._standing.remove((alert, about))
            self._metrics.alert(alert, began=False)
            log.warning("alert_ended", alert=alert, about=about)

    def end_all(self) -> None:
        """Tell that nothing of this holds any more, as far as we are to say: whoever leads next finds out anew."""
        for alert, about in sorted(self._standing):
            self.end(alert, about)

    def holds(self, alert: Alert, about: str = "") -> bool:
        """Say whether a condition is known to hold."""
        return (alert, about) in self._standing
