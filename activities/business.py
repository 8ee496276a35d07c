"""Ask for a word from somebody's own metrics before a device comes back."""

from __future__ import annotations

from activities.effect import effect
from activities.guard import own_record
from activities.prometheus import Prometheus
from k8s.records import Records
from sickbay.model.contracts import Activity, BusinessVerdict, CheckBusiness
from sickbay.policy.prometheus import judge, query_of


class BusinessActivities:
    """The business check."""

    def __init__(self, records: Records, prometheus: Prometheus) -> None:
        self._records = records
        self._prometheus = prometheus

    @effect(Activity.CHECK_BUSINESS)
    async def check_business(self, step: CheckBusiness) -> BusinessVerdict:
        """Ask Prometheus once, and judge what it answers; whatever goes wrong with it is an answer that does not count.

        Safe to repeat because it changes nothing.
        """
        await own_record(self._records, step.target)
        query = query_of(step)
        if isinstance(query, BusinessVerdict):
            return query
        answer = await self._prometheus.ask(step.settings.prometheus, query)
        return answer if isinstance(answer, BusinessVerdict) else judge(answer, step.settings)
