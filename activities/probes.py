"""Try the device again: with a probe, or with a canary."""

from __future__ import annotations

from activities.effect import effect
from activities.errors import waiting
from activities.guard import own_record
from activities.polling import until_next_look
from k8s.probes import Probes
from k8s.records import Records
from sickbay.model.contracts import Activity, AwaitProbe, Done, ProbeStarted, ProbeVerdict, StartProbe, StopProbe
from sickbay.model.incident import Trial, Verdict


class ProbeActivities:
    """One probe of the device."""

    def __init__(self, records: Records, probes: Probes) -> None:
        self._records = records
        self._probes = probes

    @effect(Activity.START_PROBE)
    async def start_probe(self, step: StartProbe) -> ProbeStarted:
        """Send the probe, if nobody else holds the device.

        Safe to repeat because claim and pod are named by device and number, and what is there is not made again.
        """
        await own_record(self._records, step.target)
        return await self._probes.start(step)

    @effect(Activity.AWAIT_PROBE)
    async def await_probe(self, step: AwaitProbe) -> ProbeVerdict:
        """Give the probe's verdict once it has one; until then be called again.

        Safe to repeat because all it changes is to close a breaker, which may be done twice.
        """
        await own_record(self._records, step.target)
        verdict = await self._probes.verdict(step.target, step.number, step.hardware_id, step.trial)
        if verdict is None:
            raise waiting(f"{step.trial} {step.number} has no verdict yet", until_next_look())
        if step.trial is Trial.CANARY and verdict.verdict is Verdict.PASS:
            # It goes on: that canaries can pass is known now, and not only when its soak is over.
            passed = StopProbe(
                target=step.target, number=step.number, trial=step.trial, verdict=verdict.verdict, cause=verdict.cause
            )
            await self._probes.breaker.heard(passed)
        return verdict

    @effect(Activity.STOP_PROBE)
    async def stop_probe(self, step: StopProbe) -> Done:
        """Delete pod and claim of the probe, and see them gone; until then be called again.

        Safe to repeat because each is deleted by uid, what is on its way out is left alone, and a device counts once
        for the breaker.
        """
        await own_record(self._records, step.target)
        left = await self._probes.stop(step.target, step.number)
        if left:
            raise waiting(left, until_next_look())
        await self._probes.breaker.heard(step)
        return Done(note="pod and claim of the probe are gone")
