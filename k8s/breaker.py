"""The breakers for probes and canaries, in ConfigMap ``sickbay-probes``: one entry for each, shared by all workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final

import structlog
from pydantic import ValidationError

from k8s.clock import utc_now
from k8s.configmaps import ConfigMap
from k8s.gateway import Gateway
from sickbay import errors
from sickbay.model.breaker import Breaker
from sickbay.model.contracts import StartProbe, StopProbe
from sickbay.model.incident import Trial
from sickbay.policy.breaker import admitted, heard, key_of

log = structlog.get_logger(__name__)

BREAKERS: Final = "sickbay-probes"

RACES: Final = 10
"""Lost races until a step is left to its activity's next attempt."""

MARGIN: Final = timedelta(minutes=5)
"""Beyond a trial's own time, until it counts as ended although nobody said so."""


class ProbeBreaker:
    """Reads and writes them by compare-and-swap; safe for any number of workers."""

    def __init__(self, gateway: Gateway, *, now: Callable[[], datetime] = utc_now) -> None:
        self._map = ConfigMap(gateway, BREAKERS)
        self._now = now

    async def read(self) -> Mapping[Trial, Breaker]:
        """Read both.

        Raises:
            UsageError: Sickbay is not installed.
        """
        data = (await self._map.read()).data
        return {trial: _breaker(data.get(trial, "")) for trial in Trial}

    async def admit(self, order: StartProbe) -> str:
        """Say why a trial must wait, ``""`` if it may be sent. Admitted already is admitted.

        Raises:
            Conflict: too many others wrote at the same moment: call again.
            UsageError: Sickbay is not installed.
        """
        key, now = key_of(order), self._now()
        until = now + order.lasts + MARGIN
        return await self._swap(order.trial, lambda before: admitted(before, key, order.trial, until, now))

    async def heard(self, ended: StopProbe) -> None:
        """Note how a trial ended; the same once more changes nothing. Raises as `admit`."""
        now = self._now()
        await self._swap(ended.trial, lambda before: (heard(before, ended, now), ""))

    async def _swap(self, trial: Trial, decide: Callable[[Breaker], tuple[Breaker, str]]) -> str:
        for _ in range(RACES):
            content = await self._map.read()
            before = _breaker(content.data.get(trial, ""))
            after, answer = decide(before)
            try:
                if after != before:
                    await self._map.write(content, {trial: after.model_dump_json(by_alias=True)})
            except errors.Conflict:
                continue
            if (after.since is None) != (before.since is None):
                log.warning(
                    "trials_resumed" if after.since is None else "trials_suspended", trial=trial, why=after.last
                )
            return answer
        raise errors.Conflict(
            status=409, reason="Conflict", message=f"ConfigMap {BREAKERS}: {RACES} writes in a row were overtaken"
        )


def _breaker(text: str) -> Breaker:
    """Decode one; what cannot be read is closed: it opens again if it must."""
    if not text:
        return Breaker()
    try:
        return Breaker.model_validate_json(text)
    except ValidationError:
        log.warning("breaker_undecodable", text=text[:200])
        return Breaker()
