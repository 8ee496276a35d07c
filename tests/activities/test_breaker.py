"""When probes prove nothing on one device after another, the others wait: on a real control plane."""

from __future__ import annotations

import pytest

from k8s.breaker import BREAKERS
from k8s.gateway import MERGE_PATCH
from k8s.lab.lab import Lab
from k8s.probe_objects import PROBE_NAMESPACE
from k8s.resources import CONFIGMAPS, PODS
from sickbay.model.contracts import ProbeVerdict
from sickbay.model.incident import Trial, Verdict
from tests.activities.incidents import Incident, open_incident
from tests.activities.trials import start, stopped, verdict
from tests.conftest import AddNodes
from tests.installation import Installation
from tests.k8s import cluster

pytestmark = pytest.mark.lab

STUCK = 3


@pytest.fixture(autouse=True)
async def closed(sickbay: Installation) -> None:
    """Begin with nothing remembered."""
    body = {"data": dict.fromkeys(Trial)}
    await sickbay.admin.request("PATCH", CONFIGMAPS.path("sickbay", BREAKERS), body=body, content_type=MERGE_PATCH)


async def judged(incident: Incident, number: int = 1) -> ProbeVerdict:
    """Wait for a probe's verdict."""
    return await cluster.until(lambda: verdict(incident, number))


async def removed(incident: Incident, said: ProbeVerdict, number: int = 1) -> None:
    """Stop a probe that came to this."""
    await cluster.until(lambda: stopped(incident, number, said, stuck=STUCK))


async def spoil(lab: Lab, incident: Incident) -> None:
    """Send a probe, and have somebody delete its pod, as a controller that knows no better might."""
    assert (await start(incident, stuck=STUCK)).waiting == ""
    await lab.gateway.request("DELETE", PODS.path(PROBE_NAMESPACE, incident.device.numbered(1)))

    async def gone() -> ProbeVerdict | None:
        found = await verdict(incident)
        return found if found is not None and found.cause == "ProbeGone" else None

    await removed(incident, await cluster.until(gone))


async def test_probes_are_suspended_and_resume_by_themselves(
    lab: Lab, sickbay: Installation, namespace: str, add_nodes: AddNodes
) -> None:
    """Three devices of two nodes in a row: then one is tried at a time, until one passes."""
    nodes = await add_nodes(2, cluster.shape(namespace, devices=3))
    devices = [cluster.device(namespace, nodes[n % 2], f"gpu-{n // 2}") for n in range(5)]
    incidents = [await open_incident(sickbay, device, device.pool) for device in devices]
    for incident in incidents:
        await incident.fence()
    for incident in incidents[:3]:
        await spoil(lab, incident)
    first, next_, other = incidents[3], incidents[4], incidents[0]
    assert (await start(first, stuck=STUCK)).waiting == ""  # one is let through
    for waits, number in ((next_, 1), (other, 2)):
        waiting = (await start(waits, number, stuck=STUCK)).waiting
        assert waiting.startswith("ProbesSuspended: probes on 3 devices in a row proved nothing, the last one: ")
    assert (await start(first, stuck=STUCK)).waiting == ""  # the same one, asked for again
    passed = await judged(first)
    assert passed.verdict is Verdict.PASS
    await removed(first, passed)
    for runs, number in ((next_, 1), (other, 2)):
        assert (await start(runs, number, stuck=STUCK)).waiting == ""
    for incident in incidents:
        await incident.clean()
