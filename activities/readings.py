"""Read a device live."""

from __future__ import annotations

from activities.effect import effect
from activities.guard import own_record
from k8s.probes import Probes
from k8s.readings import Readings
from k8s.records import Records
from sickbay.model.contracts import Activity, ProbeVerdict, ReadDevice, Reading
from sickbay.model.incident import Trial, Verdict
from sickbay.model.observation import SourceRef
from sickbay.model.record import Record


class ReadingActivities:
    """What an incident reads."""

    def __init__(self, records: Records, readings: Readings, probes: Probes) -> None:
        self._records = records
        self._readings = readings
        self._probes = probes

    @effect(Activity.READ_DEVICE)
    async def read_device(self, step: ReadDevice) -> Reading:
        """Read what is said of the device now, past every cache.

        Safe to repeat because it changes nothing.
        """
        record = await own_record(self._records, step.target)
        reading = await self._readings.read(
            step.target.device,
            node=step.node or record.spec.node,
            sources=(*step.sources, *_sources(record)),
            attribute=step.attribute,
            canary=step.target.device.numbered(step.canary) if step.canary else "",
        )
        return reading.model_copy(
            update={
                "admitted": record.admitted,
                "admission_numbers": record.spec.admission.numbers,
                "canary": await self._canary(step) if step.canary else None,
                "disowned": record.disowned,
            }
        )

    async def _canary(self, step: ReadDevice) -> ProbeVerdict | None:
        """Say what ends a soak; a canary that is Ready as it was goes on."""
        verdict = await self._probes.verdict(step.target, step.canary, step.hardware_id, Trial.CANARY)
        if verdict is None:
            return ProbeVerdict(cause="NotReady", message="the canary is no longer Ready")
        return None if verdict.verdict is Verdict.PASS else verdict


def _sources(record: Record) -> tuple[SourceRef, ...]:
    return tuple(SourceRef(kind=s.kind, namespace=s.namespace, name=s.name, uid=s.uid) for s in record.spec.sources)
