"""Canaries on stand-in nodes: what they find out that a probe does not."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from k8s.lab.lab import Lab
from k8s.lab.nodes.fleet import Health, NodeShape
from tests.conftest import AddNodes
from tests.k8s.cluster import create_template
from tests.k8s.lab.nodes.ward import Ward, container, told_of

pytestmark = pytest.mark.lab

PROBE = "sickbay.dev/probe:v1"
CANARY = "sickbay.dev/canary:v1"


@pytest.fixture
async def bench(lab: Lab, namespace: str, add_nodes: AddNodes) -> Ward:
    """A ward of one device, whose canaries load for half a second."""
    driver = f"{namespace}.example"
    shape = NodeShape(devices=1, driver=driver, prefix=namespace, load_time=timedelta(milliseconds=500))
    (node,) = await add_nodes(1, shape)
    await create_template(lab.gateway, namespace, "one", driver)
    return Ward(lab, namespace, node, driver)


def verdict(pod: dict[str, Any]) -> tuple[int, dict[str, str]]:
    """Read exit code and message."""
    ended = container(pod)["state"]["terminated"]
    return ended["exitCode"], json.loads(ended["message"])


def card(ward: Ward) -> str:
    """Name the card in the slot."""
    return next(node.devices[0].uuid for node in ward.fleet.describe() if node.name == ward.node)


async def test_a_canary_is_ready_after_its_load_and_stays(bench: Ward) -> None:
    """It runs at once, holds its device all the while, and ends only when it is deleted."""
    await bench.start_trial("canary", CANARY)
    loading = await bench.until("canary", lambda status: status["phase"] == "Running")
    assert not container(loading)["ready"]
    ready = await bench.until("canary", lambda status: status["containerStatuses"][0]["ready"])
    conditions = {condition["type"]: condition["status"] for condition in ready["status"]["conditions"]}
    assert conditions["Ready"] == "True"
    assert list(told_of(ready).values()) == ["Healthy"]
    await bench.fleet.break_device(bench.node, "gpu-0", message="Xid 79")  # in the soak, its own entry tells
    soaking = await bench.pod("canary")
    assert (soaking["status"]["phase"], list(told_of(soaking).values())) == ("Running", ["Unhealthy"])
    await bench.gateway.request("DELETE", f"/api/v1/namespaces/{bench.namespace}/pods/canary")
    await bench.gone("canary")


@pytest.mark.parametrize("health", [Health.HEALTHY, Health.UNHEALTHY])
async def test_a_canary_on_a_broken_device_fails(bench: Ward, health: Health) -> None:
    """Whatever the word for its health: exit code 1, and a message that names the card."""
    await bench.fleet.break_device(bench.node, "gpu-0", health=health)
    await bench.start_trial("canary", CANARY)
    pod = await bench.until("canary", lambda status: status["phase"] == "Failed")
    assert verdict(pod) == (1, {"verdict": "fail", "device": card(bench)})


async def test_a_fault_that_shows_only_under_load(bench: Ward) -> None:
    """A probe passes and every canary fails; its entry says so while it loads; idle again, the device says Healthy."""
    await bench.fleet.break_under_load(bench.node, "gpu-0", after=timedelta(milliseconds=200), message="Xid 48")
    for attempt in ("1", "2"):
        await bench.start_trial(f"probe-{attempt}", PROBE)
        passed = await bench.until(f"probe-{attempt}", lambda status: status["phase"] == "Succeeded")
        assert verdict(passed) == (0, {"verdict": "pass", "device": card(bench)})
        await bench.start_trial(f"canary-{attempt}", CANARY)
        failed = await bench.until(f"canary-{attempt}", lambda status: status["phase"] == "Failed")
        assert verdict(failed) == (1, {"verdict": "fail", "device": card(bench)})
        (device,) = next(node.devices for node in bench.fleet.describe() if node.name == bench.node)
        assert (device.health, device.fails_under_load) == (Health.HEALTHY, True)


async def test_a_fault_that_shows_after_a_long_load(bench: Ward) -> None:
    """Later than the load that makes a canary ready: it shows in the soak, in the entry of a canary that runs on."""
    await bench.fleet.break_under_load(bench.node, "gpu-0", after=timedelta(milliseconds=900), message="Xid 48")
    await bench.start_trial("canary", CANARY)
    await bench.until("canary", lambda status: status.get("containerStatuses", [{}])[0].get("ready", False))
    pod = await bench.until(
        "canary", lambda status: "Xid 48" in json.dumps(status["containerStatuses"][0]["allocatedResourcesStatus"])
    )
    assert list(told_of(pod).values()) == ["Unhealthy"]
    assert container(pod)["ready"]


async def test_a_healed_or_swapped_device_bears_the_load(bench: Ward) -> None:
    """The fault goes with the card, or with its repair."""
    await bench.fleet.break_under_load(bench.node, "gpu-0")
    await bench.fleet.heal(bench.node, "gpu-0")
    assert not any(d.fails_under_load for n in bench.fleet.describe() for d in n.devices if n.name == bench.node)
    await bench.fleet.break_under_load(bench.node, "gpu-0")
    await bench.fleet.swap(bench.node, "gpu-0")
    await bench.start_trial("canary", CANARY)
    await bench.until("canary", lambda status: status.get("containerStatuses", [{}])[0].get("ready", False))
