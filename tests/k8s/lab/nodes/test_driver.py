"""A driver that is lost and comes back, as the cluster sees it: in kubelet's order, its times made short."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from k8s.gateway import decode
from k8s.lab.lab import Lab
from k8s.lab.nodes.fleet import DriverDelays, NodeShape
from sickbay import errors
from tests.conftest import AddNodes
from tests.k8s.cluster import create_pod, create_template, until
from tests.k8s.lab.nodes.ward import Ward, told_of

pytestmark = pytest.mark.lab

DELAYS = DriverDelays(
    slices=timedelta(milliseconds=400), unknown=timedelta(milliseconds=1200), back=timedelta(milliseconds=50)
)


@pytest.fixture
async def quick(lab: Lab, namespace: str, add_nodes: AddNodes) -> Ward:
    """A ward whose kubelet notices soon."""
    driver = f"{namespace}.example"
    (node,) = await add_nodes(1, NodeShape(devices=2, driver=driver, prefix=namespace, driver_delays=DELAYS))
    await create_template(lab.gateway, namespace, "one", driver)
    return Ward(lab, namespace, node, driver)


async def published(ward: Ward) -> dict[str, Any] | None:
    """Read the pool; None if there is none."""
    path = f"/apis/resource.k8s.io/v1/resourceslices/{ward.node}-{ward.driver}"
    try:
        spec: dict[str, Any] = decode(await ward.gateway.request("GET", path))["spec"]
    except errors.NotFound:
        return None
    return spec


def uuids(pool: dict[str, Any] | None) -> list[str]:
    """Read the cards of a pool."""
    assert pool is not None
    return [device["attributes"]["uuid"]["string"] for device in pool["devices"]]


async def test_without_a_driver_the_last_word_stays_then_slices_go_then_nothing_is_known(quick: Ward) -> None:
    """What breaks meanwhile nobody says; when the driver is back, slices and the truth are there at once."""
    (resource,) = told_of(await quick.run("p"))
    before = await published(quick)
    await quick.fleet.lose_driver(quick.node)
    assert not next(n.driver for n in quick.fleet.describe() if n.name == quick.node)
    await quick.fleet.break_device(quick.node, resource.rpartition("/")[2], message="Xid 79")
    assert told_of(await quick.pod("p")) == {resource: "Healthy"}
    assert await published(quick) == before

    async def gone() -> bool:
        return await published(quick) is None

    async def unknown() -> bool:
        return told_of(await quick.pod("p")) == {resource: "Unknown"}

    await until(gone, within=5)
    assert told_of(await quick.pod("p")) == {resource: "Healthy"}
    await until(unknown, within=5)
    await quick.fleet.regain_driver(quick.node)
    assert told_of(await quick.pod("p")) == {resource: "Unhealthy"}
    assert await published(quick) == before
    await quick.fleet.heal(quick.node, resource.rpartition("/")[2])
    assert told_of(await quick.pod("p")) == {resource: "Healthy"}


async def test_a_driver_that_is_soon_back_has_lost_nothing(quick: Ward) -> None:
    """What its loss would have led to does not come later."""
    (resource,) = told_of(await quick.run("p"))
    before = await published(quick)
    await quick.fleet.lose_driver(quick.node)
    await quick.fleet.regain_driver(quick.node)

    async def missed() -> bool:
        return await published(quick) != before or told_of(await quick.pod("p")) != {resource: "Healthy"}

    with pytest.raises(TimeoutError):
        await until(missed, within=1.5)


async def test_no_pod_with_a_claim_starts_or_ends_without_its_driver(ward: Ward) -> None:
    """Both wait for it; the usual delays are kubelet's, so slices and words stay for now."""
    await ward.run("ends", behaviour={"stop-after": "10ms"})
    await ward.fleet.lose_driver(ward.node)
    await create_pod(ward.gateway, ward.namespace, "starts", template="one")
    await ward.gateway.request("DELETE", f"/api/v1/namespaces/{ward.namespace}/pods/ends")

    async def moved() -> bool:
        phases = [(await ward.pod(name))["status"]["phase"] for name in ("ends", "starts")]
        return phases != ["Running", "Pending"]

    with pytest.raises(TimeoutError):
        await until(moved, within=0.5)
    await ward.fleet.regain_driver(ward.node)
    await ward.until("starts", lambda status: status["phase"] == "Running")
    await ward.gone("ends")


async def test_a_card_that_is_swapped_without_a_driver_shows_when_it_is_back(quick: Ward) -> None:
    """As a new generation of the pool, and Healthy, whatever the old card was."""
    (resource,) = told_of(await quick.run("p"))
    device = resource.rpartition("/")[2]
    await quick.fleet.break_device(quick.node, device)
    before = await published(quick)
    assert before is not None
    await quick.fleet.lose_driver(quick.node)
    fresh = await quick.fleet.swap(quick.node, device)
    assert await published(quick) == before
    assert told_of(await quick.pod("p")) == {resource: "Unhealthy"}
    await quick.fleet.regain_driver(quick.node)
    after = await published(quick)
    assert after is not None
    assert after["pool"]["generation"] == before["pool"]["generation"] + 1
    assert fresh in uuids(after)
    assert fresh not in uuids(before)
    assert told_of(await quick.pod("p")) == {resource: "Healthy"}


async def test_a_driver_is_lost_and_regained_once(quick: Ward) -> None:
    """Twice is an error that says what to do."""
    with pytest.raises(errors.UsageError, match=f"node '{quick.node}': its driver is there; only one that was lost"):
        await quick.fleet.regain_driver(quick.node)
    await quick.fleet.lose_driver(quick.node)
    with pytest.raises(errors.UsageError, match=f"node '{quick.node}': its driver is gone already; regain it first"):
        await quick.fleet.lose_driver(quick.node)


def test_the_usual_delays_are_those_that_were_measured() -> None:
    """Seconds, of a real kubelet."""
    usual = NodeShape().driver_delays
    assert (usual.slices.total_seconds(), usual.back.total_seconds()) == (30, 1)
    assert 77 <= usual.unknown.total_seconds() <= 81
