"""The steps of one trial of an incident's device, probe or canary, as its workflow takes them."""

from __future__ import annotations

from typing import Any

from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from sickbay.model.contracts import (
    WAITING,
    AwaitProbe,
    Done,
    ProbeStarted,
    ProbeVerdict,
    ReadDevice,
    Reading,
    StartProbe,
    StopProbe,
)
from sickbay.model.device import UNKNOWN_HARDWARE
from sickbay.model.incident import Trial
from sickbay.model.policy import Canary, Policy
from tests.activities.incidents import Incident


async def read(incident: Incident, hardware: str = UNKNOWN_HARDWARE, canary: int = 0) -> Reading:
    """Read the device, and its canary."""
    step = ReadDevice(target=incident.target, canary=canary, hardware_id=hardware)
    return await ActivityEnvironment().run(incident.reading.read_device, step)


async def start(incident: Incident, number: int = 1, trial: Trial = Trial.PROBE, **settings: Any) -> ProbeStarted:
    """Send it, by these settings of the policy's section ``probe``."""
    probe = Policy.model_validate({"probe": settings}).probe
    step = StartProbe(
        target=incident.target,
        trial=trial,
        number=number,
        hardware_id=(await read(incident)).hardware_id,
        image=Canary().image if trial is Trial.CANARY else probe.image,
        settings=probe,
    )
    return await ActivityEnvironment().run(incident.probe.start_probe, step)


async def verdict(incident: Incident, number: int = 1, trial: Trial = Trial.PROBE) -> ProbeVerdict | None:
    """Poll once; None while it has none."""
    hardware = (await read(incident)).hardware_id
    step = AwaitProbe(target=incident.target, trial=trial, number=number, hardware_id=hardware)
    try:
        return await ActivityEnvironment().run(incident.probe.await_probe, step)
    except ApplicationError as error:
        if error.type != WAITING:
            raise
        return None


async def stopped(
    incident: Incident, number: int = 1, said: ProbeVerdict | None = None, **settings: Any
) -> Done | None:
    """Poll once whether pod and claim are gone; None while something of them is there."""
    step = StopProbe(target=incident.target, number=number, settings=Policy.model_validate({"probe": settings}).probe)
    if said is not None:
        told = {"verdict": said.verdict, "cause": said.cause, "message": said.message}
        step = step.model_copy(update=told)
    try:
        return await ActivityEnvironment().run(incident.probe.stop_probe, step)
    except ApplicationError as error:
        if error.type != WAITING:
            raise
        return None
