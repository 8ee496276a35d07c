"""The baseline does what it is the baseline of."""

from __future__ import annotations

import pytest

from benchmarks import bare
from benchmarks.actors import bare_loop
from benchmarks.stage import seated
from benchmarks.timeline import Timeline
from benchmarks.witness import Witness, place
from k8s.lab.lab import Lab
from k8s.lab.nodes.fleet import NodeShape
from k8s.resources import DEVICETAINTRULES
from k8s.wire import ContainerStatus, Meta, Pod, PodStatus, ResourceHealth, ResourceStatus
from tests.conftest import AddNodes

DRIVER = "bare.test.example"


def test_it_goes_by_the_driver_and_the_word() -> None:
    """Another driver's device and another word are none of its business."""
    said = [
        ResourceHealth(f"{DRIVER}/node-1/gpu-0", "Unhealthy"),
        ResourceHealth(f"{DRIVER}/node-1/gpu-1", "Healthy"),
        ResourceHealth("other.example/node-1/gpu-2", "Unhealthy"),
    ]
    container = ContainerStatus(
        name="main", allocated_resources_status=(ResourceStatus(name="claim:gpu", resources=tuple(said)),)
    )
    pod = Pod(metadata=Meta(name="job"), status=PodStatus(container_statuses=(container,)))
    assert bare.unhealthy(pod, DRIVER) == [f"{DRIVER}/node-1/gpu-0"]


@pytest.mark.lab
async def test_it_fences_the_device_that_a_status_names(lab: Lab, namespace: str, add_nodes: AddNodes) -> None:
    """The device whose status turned Unhealthy, and no other; its time can be taken from the audit log."""
    await add_nodes(1, NodeShape(devices=2, driver=DRIVER, prefix="bare"))
    bad, well = await seated(lab.gateway, DRIVER, "bare", 2, namespace=namespace)
    async with bare_loop(lab, DRIVER):
        witness = Witness(lab.audit_log)
        await lab.fleet.break_device(bad.device.pool, bad.device.device)
        assert await witness.until(lambda: place(bad.device) in witness.fences, within=30)
    assert place(well.device) not in witness.fences
    assert 0 < Timeline.of(bad, witness).from_sent < 30
    await lab.gateway.request("DELETE", DEVICETAINTRULES.path(name="bare-1"))
