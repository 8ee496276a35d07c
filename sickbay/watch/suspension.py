"""Whether probes or canaries are suspended in the whole cluster: told to people by whoever leads."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final

import structlog

from k8s.breaker import ProbeBreaker
from sickbay import errors
from sickbay.model.incident import Trial
from sickbay.policy.breaker import told
from sickbay.telemetry.alert import Alert
from sickbay.telemetry.metrics import Metrics
from sickbay.watch.alerts import Alerts

log = structlog.get_logger(__name__)

ROUND: Final = timedelta(seconds=10)
"""Between two looks."""

REMEDY: Final = (
    "see the image, the driver and the namespace sickbay-probe; it ends by itself when a trial proves something"
)


class Suspension:
    """Looks at the breakers for one term."""

    def __init__(self, breaker: ProbeBreaker, alerts: Alerts, metrics: Metrics) -> None:
        self._breaker = breaker
        self._alerts = alerts
        self._metrics = metrics

    async def serve(self) -> None:
        """Look until cancelled."""
        try:
            while True:
                try:
                    await self.look()
                except errors.SickbayError as error:
                    log.warning("breakers_not_read", error=str(error))
                await asyncio.sleep(ROUND.total_seconds())
        finally:
            for trial in Trial:
                self._metrics.suspended(trial, yes=False)  # who leads next says it anew

    async def look(self) -> None:
        """Look once.

        Raises:
            SickbayError: they could not be read.
        """
        for trial, breaker in (await self._breaker.read()).items():
            self._metrics.suspended(trial, yes=breaker.since is not None)
            if breaker.since is None:
                self._alerts.end(Alert.PROBES_SUSPENDED, trial)
            else:
                self._alerts.begin(Alert.PROBES_SUSPENDED, trial, why=told(breaker, trial), remedy=REMEDY)
