"""One probe, from its start to its end."""

from __future__ import annotations

import pytest
from temporalio.exceptions import ApplicationError

from k8s.lab.lab import Lab
from sickbay.model.contracts import SUPERSEDED, ProbeStarted
from sickbay.model.incident import Verdict
from tests.activities.incidents import Incident
from tests.activities.trials import start, stopped, verdict
from tests.k8s import cluster

pytestmark = pytest.mark.lab


async def test_probe_after_probe_until_one_passes(lab: Lab, incident: Incident) -> None:
    """A broken device fails its first probe, a mended one passes the second, and nothing is left of either."""
    await lab.fleet.break_device(incident.device.pool, incident.device.device)
    assert await start(incident) == ProbeStarted()
    assert (await cluster.until(lambda: verdict(incident))).verdict is Verdict.FAIL
    await cluster.until(lambda: stopped(incident))
    await lab.fleet.heal(incident.device.pool, incident.device.device)
    assert await start(incident, 2) == ProbeStarted()
    assert (await cluster.until(lambda: verdict(incident, 2))).verdict is Verdict.PASS
    await cluster.until(lambda: stopped(incident, 2))


async def test_stopping_again_is_done_already(incident: Incident) -> None:
    """A probe that never was, or is gone, is stopped."""
    assert await stopped(incident) is not None


async def test_a_job_on_the_device_keeps_a_probe_away(lab: Lab, namespace: str, incident: Incident) -> None:
    """It says who holds the device."""
    await incident.unfence()
    await cluster.create_claim(lab.gateway, namespace, "late", f"{namespace}.example")
    await cluster.create_pod(lab.gateway, namespace, "work", claim="late")
    await cluster.running(lab.gateway, namespace, "work")
    assert await start(incident) == ProbeStarted(waiting=f"claim {namespace}/late holds the device")
    await incident.fence()


@pytest.mark.parametrize("verb", [start, verdict, stopped])
async def test_an_incident_that_lost_its_record_probes_nothing(incident: Incident, verb: object) -> None:
    """Another run decides now."""
    await incident.end()
    with pytest.raises(ApplicationError) as raised:
        await verb(incident)  # type: ignore[operator]  # one of the functions above
    assert (raised.value.type, raised.value.non_retryable) == (SUPERSEDED, True)
