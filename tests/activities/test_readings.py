"""Reading a device for an incident."""

from __future__ import annotations

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from k8s.lab.lab import Lab
from k8s.records import Records
from sickbay.model.contracts import SUPERSEDED, ReadDevice
from sickbay.model.observation import Health
from sickbay.model.record import Admission, AdmissionState
from tests.activities.incidents import open_incident
from tests.conftest import AddNodes
from tests.installation import Installation
from tests.k8s import cluster


@pytest.mark.lab
async def test_a_reading_tells_health_and_admission(
    lab: Lab, sickbay: Installation, namespace: str, add_nodes: AddNodes
) -> None:
    """The record names node and sources; its admission comes back with what the cluster says."""
    (node,) = await add_nodes(1, cluster.shape(namespace))
    await cluster.create_claim(lab.gateway, namespace, "one", f"{namespace}.example")
    await cluster.create_pod(lab.gateway, namespace, "work", claim="one")
    pod = await cluster.running(lab.gateway, namespace, "work")
    device = await cluster.device_of(lab.gateway, pod)
    await lab.fleet.break_device(node, device.device)
    incident = await open_incident(sickbay, device, node, pod)
    step = ReadDevice(target=incident.target)
    reading = await ActivityEnvironment().run(incident.reading.read_device, step)
    assert (reading.health, reading.admitted) == (Health.UNHEALTHY, False)
    assert reading.lease_version
    admission = Admission(state=AdmissionState.ADMITTED, by="guard", numbers="1 of 8")
    spec = incident.record.spec.model_copy(update={"admission": admission})
    await Records(incident.gateway).write_spec(incident.record, spec)
    reading = await ActivityEnvironment().run(incident.reading.read_device, step)
    assert (reading.admitted, reading.admission_numbers) == (True, "1 of 8")


@pytest.mark.lab
async def test_an_incident_that_lost_its_record_reads_nothing(
    lab: Lab, sickbay: Installation, namespace: str, add_nodes: AddNodes
) -> None:
    """Another run has the record: this one ends without a trace."""
    (node,) = await add_nodes(1, cluster.shape(namespace))
    device = cluster.device(namespace, node)
    incident = await open_incident(sickbay, device, node)
    await incident.end()
    with pytest.raises(ApplicationError) as raised:
        await ActivityEnvironment().run(incident.reading.read_device, ReadDevice(target=incident.target))
    assert (raised.value.type, raised.value.non_retryable) == (SUPERSEDED, True)
