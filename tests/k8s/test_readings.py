"""What is read of a device, live."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from k8s.gateway import Gateway, decode
from k8s.lab.lab import Lab
from k8s.lab.nodes import objects
from k8s.lab.nodes.fleet import Health as LabHealth
from k8s.listings import ClaimLister, Claims, SliceLister
from k8s.readings import Readings, observation
from k8s.resources import LEASES, NODES, PODS
from k8s.wire import Pod, ResourceClaim
from sickbay.model.contracts import Reading
from sickbay.model.device import UNKNOWN_HARDWARE, DeviceKey
from sickbay.model.observation import Health, Reason, SourceRef
from tests.conftest import AddNodes
from tests.installation import CLUSTER, Installation
from tests.k8s import cluster

AT_ONCE = timedelta(0)
DEVICE = DeviceKey(cluster="c", driver="d", pool="p", device="gpu-0")


def claim(*devices: str, uid: str = "u") -> Claims:
    """Build claim ``a/one``, which holds these devices for the pod."""
    results = [{"request": "gpu", "driver": "d", "pool": "p", "device": device} for device in devices]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": [{"name": "b", "uid": uid}]}
    raw = {"metadata": {"namespace": "a", "name": "one", "uid": "c"}, "status": status}
    return Claims.index([msgspec.convert(raw, ResourceClaim)])


def pod(*entries: dict[str, str], phase: str = "Running") -> Pod:
    """Build pod ``a/b``, whose containers each have one health entry."""
    statuses = [
        {"name": f"c{n}", "allocatedResourcesStatus": [{"name": "claim:gpu", "resources": [entry]}]}
        for n, entry in enumerate(entries)
    ]
    raw: dict[str, Any] = {
        "metadata": {"namespace": "a", "name": "b", "uid": "u", "resourceVersion": "7"},
        "spec": {"nodeName": "n", "resourceClaims": [{"name": "gpu", "resourceClaimName": "one"}]},
        "status": {"phase": phase, "containerStatuses": statuses},
    }
    return msgspec.convert(raw, Pod)


def entry(health: str, device: str = "d/p/gpu-0", message: str = "") -> dict[str, str]:
    """Build a health entry."""
    return {"resourceID": device, "health": health, "message": message}


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([entry("Healthy")], (Health.HEALTHY, Reason.REPORTED)),
        ([entry("Healthy"), entry("Unhealthy"), entry("Unknown")], (Health.UNHEALTHY, Reason.REPORTED)),
        ([entry("PermanentlyUnhealthy")], (Health.UNKNOWN, Reason.UNLISTED_HEALTH)),
        ([entry("")], (Health.UNKNOWN, Reason.UNLISTED_HEALTH)),
        ([entry("Unhealthy", "d/p/gpu-1")], None),
        ([], None),
    ],
)
def test_the_worst_entry_of_a_pod_wins(entries: list[dict[str, str]], said: tuple[Health, Reason] | None) -> None:
    """Several containers may share a device; a word outside the three is Unknown; no entry is no information."""
    found = observation(pod(*entries), DEVICE, claim("gpu-0"))
    assert (found and (found.health, found.reason)) == said


def test_an_ended_pod_says_nothing() -> None:
    """Its value is frozen at its end."""
    assert observation(pod(entry("Unhealthy"), phase="Failed"), DEVICE, claim("gpu-0")) is None


def test_a_claim_of_another_pod_proves_nothing() -> None:
    """Entries count only while the claim is reserved for the pod."""
    assert observation(pod(entry("Unhealthy")), DEVICE, claim("gpu-0", uid="another")) is None


def test_devices_that_cannot_be_told_apart_are_all_suspect_and_none_is_healthy() -> None:
    """Of several devices with one CDI id kubelet keeps one entry: which one it is about is never guessed."""
    held = claim("gpu-0", "gpu-1")
    bad = observation(pod(entry("Unhealthy", "vendor/gpu=claim-1")), DEVICE, held)
    assert bad is not None
    assert (bad.health, bad.reason) == (Health.UNKNOWN, Reason.AMBIGUOUS)
    assert observation(pod(entry("Healthy", "vendor/gpu=claim-1")), DEVICE, held) is None


def test_a_drivers_message_is_tamed() -> None:
    """It forges neither a log line nor a link."""
    found = observation(pod(entry("Unhealthy", message="a\nb [x](https://e)" + "x" * 999)), DEVICE, claim("gpu-0"))
    assert found is not None
    assert "\n" not in found.message
    assert "://" not in found.message
    assert len(found.message) <= 200


def reader(gateway: Gateway) -> Readings:
    """Build what reads, without spacing."""
    return Readings(gateway, ClaimLister(gateway, spacing=AT_ONCE), SliceLister(gateway, spacing=AT_ONCE))


async def working(lab: Lab, namespace: str, add_nodes: AddNodes) -> tuple[str, Pod, DeviceKey]:
    """Run a pod on the one device of a node."""
    (node,) = await add_nodes(1, cluster.shape(namespace))
    await cluster.create_template(lab.gateway, namespace, "gpu", f"{namespace}.example")
    await cluster.create_pod(lab.gateway, namespace, "work", template="gpu")
    found = await cluster.running(lab.gateway, namespace, "work")
    return node, found, await cluster.device_of(lab.gateway, found)


@pytest.mark.lab
async def test_a_device_in_use_is_read_through_its_pod(
    lab: Lab, sickbay: Installation, namespace: str, add_nodes: AddNodes
) -> None:
    """Health, message, versions, node and hardware come from the cluster as it is now."""
    node, work, device = await working(lab, namespace, add_nodes)
    readings = reader(sickbay.gateway)
    healthy = await readings.read(device)
    assert (healthy.health, healthy.node_gone, healthy.hardware_unique) == (Health.HEALTHY, False, True)
    assert healthy.hardware_id != UNKNOWN_HARDWARE
    assert healthy.lease_version
    await lab.fleet.break_device(node, device.device, message="XID 79")
    bad = await readings.read(device, node=node)
    assert (bad.health, bad.reason, bad.message) == (Health.UNHEALTHY, Reason.REPORTED, "XID 79")
    (said,) = bad.observations
    assert said.source == SourceRef(kind="Pod", namespace=namespace, name="work", uid=work.metadata.uid)
    assert said.node == node
    assert int(said.resource_version) > int(healthy.observations[0].resource_version)


@pytest.mark.lab
async def test_a_lease_that_is_renewed_shows(
    lab: Lab, sickbay: Installation, namespace: str, add_nodes: AddNodes
) -> None:
    """The Lease's version moves while the node lives, and stands still when it is cut off."""
    node, _, device = await working(lab, namespace, add_nodes)
    readings = reader(sickbay.gateway)
    before = (await readings.read(device)).lease_version
    await lab.fleet.stop_lease(node)
    silent = (await readings.read(device)).lease_version
    await lab.fleet.resume_lease(node)

    async def moved() -> bool:
        return (await readings.read(device)).lease_version not in {before, silent}

    await cluster.until(moved)


@pytest.mark.lab
async def test_a_device_that_nobody_holds_has_no_health(
    lab: Lab, sickbay: Installation, namespace: str, add_nodes: AddNodes
) -> None:
    """No evidence is not Healthy; where the device is and what it is can still be read."""
    node, work, device = await working(lab, namespace, add_nodes)
    await cluster.delete(lab.gateway, PODS, namespace, "work")
    readings = reader(sickbay.gateway)
    source = SourceRef(kind="Pod", namespace=namespace, name="work", uid=work.metadata.uid)

    async def free() -> Reading | None:
        reading = await readings.read(device, node=node, sources=[source])
        return reading if reading.health is None else None

    reading = await cluster.until(free)
    assert reading.observations == ()
    assert reading.hardware_id != UNKNOWN_HARDWARE


@pytest.mark.lab
async def test_a_source_with_another_uid_is_not_asked(
    lab: Lab, sickbay: Installation, namespace: str, add_nodes: AddNodes
) -> None:
    """A pod speaks for itself alone, once, whoever had its name before."""
    node, work, device = await working(lab, namespace, add_nodes)
    sources = [
        SourceRef(kind="Pod", namespace=namespace, name="work", uid=uid) for uid in ("former", work.metadata.uid)
    ]
    reading = await reader(sickbay.gateway).read(device, node=node, sources=sources)
    assert [o.source.uid for o in reading.observations] == [work.metadata.uid]
    other = DeviceKey(cluster=CLUSTER, driver=device.driver, pool=node, device="gpu-9")
    assert (await reader(sickbay.gateway).read(other, node=node, sources=sources)).observations == ()


@pytest.mark.lab
async def test_the_worst_of_all_pods_wins_over_namespaces_and_shares(
    lab: Lab, sickbay: Installation, namespace: str, add_nodes: AddNodes
) -> None:
    """Each pod that shares a claim is a source of its own."""
    (node,) = await add_nodes(1, cluster.shape(namespace))
    await cluster.create_claim(lab.gateway, namespace, "shared", f"{namespace}.example")
    for name in ("one", "two"):
        await cluster.create_pod(lab.gateway, namespace, name, claim="shared")
        last = await cluster.running(lab.gateway, namespace, name)
    device = await cluster.device_of(lab.gateway, last)
    await lab.fleet.break_device(node, device.device, health=LabHealth.UNKNOWN)
    reading = await reader(sickbay.gateway).read(device)
    assert reading.health is Health.UNKNOWN
    assert [o.source.name for o in reading.observations] == ["one", "two"]


@pytest.mark.lab
async def test_another_card_in_the_slot_is_noticed(
    lab: Lab, sickbay: Installation, namespace: str, add_nodes: AddNodes
) -> None:
    """A device's name is not its identity."""
    node, _, device = await working(lab, namespace, add_nodes)
    readings = reader(sickbay.gateway)
    before = await readings.read(device)
    uuid = await lab.fleet.swap(node, device.device)
    after = await readings.read(device)
    assert (after.hardware_id, after.hardware_unique) == (uuid, True)
    assert before.hardware_id != uuid
    assert (await readings.read(device, attribute="serial")).hardware_id == UNKNOWN_HARDWARE


@pytest.mark.lab
async def test_a_node_that_is_gone_is_told(lab: Lab, sickbay: Installation, namespace: str) -> None:
    """Its devices went with it; what joins under its name is another."""
    (node,) = await lab.fleet.add(1, cluster.shape(namespace))
    device = DeviceKey(cluster=CLUSTER, driver=f"{namespace}.example", pool=node, device="gpu-0")
    readings = reader(sickbay.gateway)
    before = await readings.read(device, node=node)
    assert not before.node_gone
    assert before.node_uid == decode(await lab.gateway.request("GET", NODES.path(name=node)))["metadata"]["uid"]
    await lab.fleet.remove(node)

    async def gone() -> Reading | None:
        reading = await readings.read(device, node=node)
        return reading if reading.node_gone else None

    reading = await cluster.until(gone)
    assert (reading.health, reading.lease_version, reading.node_uid) == (None, "", "")
    again = decode(await lab.gateway.request("POST", NODES.path(), body={"metadata": {"name": node}}))
    lease = objects.lease(node, again["metadata"]["uid"])
    await lab.gateway.request("POST", LEASES.path("kube-node-lease"), body=lease)
    reading = await readings.read(device, node=node)
    assert (reading.node_gone, reading.node_uid) == (False, again["metadata"]["uid"])
    assert reading.node_uid != before.node_uid
    await lab.gateway.request("DELETE", NODES.path(name=node))
