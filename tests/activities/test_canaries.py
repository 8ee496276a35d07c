"""One canary, from its load through its soak, on a real control plane."""

from __future__ import annotations

from datetime import timedelta

import pytest

from k8s.gateway import MERGE_PATCH
from k8s.lab.lab import Lab
from k8s.lab.nodes.fleet import DriverDelays
from k8s.probe_objects import PROBE_NAMESPACE
from k8s.resources import PODS, RESOURCECLAIMS
from sickbay.model.contracts import ProbeVerdict, Reading
from sickbay.model.device import UNKNOWN_HARDWARE
from sickbay.model.incident import ProbeStage, Proof, Trial, Verdict
from sickbay.model.observation import Health
from sickbay.policy.progress import after_read
from tests import builders
from tests.activities.incidents import Incident, open_incident
from tests.activities.trials import read, start, verdict
from tests.conftest import AddNodes
from tests.installation import Installation
from tests.k8s import cluster

pytestmark = pytest.mark.lab


async def begin(incident: Incident) -> str:
    """Send the canary; give the identity of the hardware it is for."""
    assert (await start(incident, trial=Trial.CANARY)).waiting == ""
    return (await read(incident)).hardware_id


async def loaded(incident: Incident) -> ProbeVerdict:
    """Wait for the verdict on its load."""
    return await cluster.until(lambda: verdict(incident, trial=Trial.CANARY))


async def test_a_canary_keeps_the_device_and_speaks_for_it(lab: Lab, incident: Incident) -> None:
    """Its load passes, it stays, and readings hear its own entry: Healthy, then Unhealthy, which is its verdict too."""
    hardware = await begin(incident)
    passed = await loaded(incident)
    assert (passed.verdict, passed.cause) == (Verdict.PASS, "LoadPassed")
    name = incident.device.numbered(1)
    soaking = await read(incident, hardware, canary=1)
    assert (soaking.health, soaking.canary) == (Health.HEALTHY, None)
    assert [o.source.name for o in soaking.observations] == [name]
    assert (await read(incident, hardware)).observations == ()  # without being asked for it is no witness
    await lab.fleet.break_device(incident.device.pool, incident.device.device)

    async def bad() -> Reading | None:
        now = await read(incident, hardware, canary=1)
        return now if now.health is Health.UNHEALTHY else None

    found = await cluster.until(bad)
    assert found.canary is not None
    assert found.canary.verdict is Verdict.FAIL


async def test_a_fault_that_shows_only_under_load_fails_the_canary(lab: Lab, incident: Incident) -> None:
    """The device says Healthy at rest; under load it does not."""
    await lab.fleet.break_under_load(incident.device.pool, incident.device.device)
    await begin(incident)
    assert (await loaded(incident)).verdict is Verdict.FAIL


async def test_a_soak_sees_that_the_reporter_is_gone(
    lab: Lab, sickbay: Installation, namespace: str, add_nodes: AddNodes
) -> None:
    """The driver dies and the status stays as it was: the slices tell, before the status turns Unknown."""
    delays = DriverDelays(slices=timedelta(milliseconds=300), unknown=timedelta(hours=1), back=timedelta(0))
    (node,) = await add_nodes(1, cluster.shape(namespace, driver_delays=delays))
    incident = await open_incident(sickbay, cluster.device(namespace, node), node)
    await incident.fence()
    hardware = await begin(incident)
    await loaded(incident)
    await lab.fleet.lose_driver(node)

    async def silent() -> Reading | None:
        now = await read(incident, hardware, canary=1)
        return now if now.hardware_id == UNKNOWN_HARDWARE else None

    frozen = await cluster.until(silent)
    assert frozen.health is Health.HEALTHY
    state = builders.incident(
        hardware_id=hardware, probe=ProbeStage.SOAKING, probe_number=1, trial=Trial.CANARY, proof=Proof.PROBED
    )
    for minute in range(1, 30):
        moved = frozen.model_copy(update={"lease_version": str(minute)})
        state = after_read(state, moved, builders.NOW + timedelta(minutes=minute))
    assert state.healthy_since is None
    await lab.fleet.regain_driver(node)
    await incident.clean()


async def test_a_canary_that_somebody_deletes_proves_nothing(lab: Lab, incident: Incident) -> None:
    """The soak ends without a word on the device."""
    hardware = await begin(incident)
    await loaded(incident)
    await lab.gateway.request("DELETE", PODS.path(PROBE_NAMESPACE, incident.device.numbered(1)))

    async def ended() -> Reading | None:
        now = await read(incident, hardware, canary=1)
        return now if now.canary is not None else None

    found = await cluster.until(ended)
    assert found.canary is not None
    assert found.canary.verdict is Verdict.INCONCLUSIVE


async def test_somebody_who_joins_ends_the_soak_and_is_left_alone(lab: Lab, incident: Incident, namespace: str) -> None:
    """A claim comes to hold the device too: Busy, and nothing of it is touched."""
    hardware = await begin(incident)
    await loaded(incident)
    device = incident.device
    await cluster.create_claim(lab.gateway, namespace, "joined", device.driver)
    # The scheduler gives a device to two only where the driver allows it, so its word is written by hand.
    result = {"request": "gpu", "driver": device.driver, "pool": device.pool, "device": device.device}
    status = {"status": {"allocation": {"devices": {"results": [result]}}}}
    path = f"{RESOURCECLAIMS.path(namespace, 'joined')}/status"
    await lab.gateway.request("PATCH", path, body=status, content_type=MERGE_PATCH)

    async def ended() -> Reading | None:
        now = await read(incident, hardware, canary=1)
        return now if now.canary is not None else None

    found = await cluster.until(ended)
    assert found.canary is not None
    assert (found.canary.verdict, found.canary.cause) == (Verdict.INCONCLUSIVE, "Busy")
    assert "joined" in found.canary.message
