"""What belongs to others, on the same device and the same node, when a device comes back."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from k8s.gateway import MERGE_PATCH, Gateway, decode
from k8s.lab.audit import AuditLog
from k8s.resources import DEVICETAINTRULES, NODES
from k8s.sights import look
from sickbay.cli.look.facts import explanation, lay_out
from sickbay.cli.look.subject import find
from sickbay.cli.look.told import Told
from sickbay.model.record import Phase
from tests.crash.jobs import Seat
from tests.k8s import cluster
from tests.stories.scene import Scene

pytestmark = pytest.mark.lab

OTHERS: Final = "maintenance.example.org/ticket-12"
"""Key of taints, label and annotation of somebody else."""


async def test_a_release_takes_nothing_that_is_not_ours(scene: Scene) -> None:
    """Rules of like names on the device, and the node's taints, cordon, label and annotation: all are as they were."""
    gateway, log = scene.ward.lab.gateway, AuditLog(scene.ward.lab.audit_log, from_end=True)
    seat = await scene.lone_pod("shared")
    ours, node = seat.key.numbered(1), seat.key.pool
    alike = [f"{ours}0", f"{seat.key.record_name}-hold", "human-hold"]
    await make_rule(gateway, alike[0], seat, effect="None")
    await patch_node(gateway, node, {"metadata": {"labels": {OTHERS: "yes"}, "annotations": {OTHERS: "ask carl"}}})
    await scene.breaks(seat)
    ramp = scene.run.proxy.hold("PATCH", f"devicetaintrules/{ours}", executed=False, times=1)
    await scene.delete("shared")
    await asyncio.wait_for(ramp.arrived.wait(), 60)
    # From here on no probe needs the node: others may shut it.
    for name in alike[1:]:
        await make_rule(gateway, name, seat, effect="NoSchedule")
    taints = [{"key": OTHERS, "value": "disk", "effect": "NoSchedule"}]
    await patch_node(gateway, node, {"spec": {"unschedulable": True, "taints": taints}})

    async def shut() -> bool:
        return len((await belongings(gateway, node, alike))["node"]["spec"]["taints"]) == 2

    await cluster.until(shut)
    before = await belongings(gateway, node, alike)
    ramp.release()
    await scene.released(seat)
    assert await belongings(gateway, node, alike) == before
    record = await scene.record(seat)
    assert record is not None
    assert [past.outcome for past in record.status.history] == [Phase.RELEASED]
    assert ours not in await scene.ward.fences()
    by_us = [e for e in log.read() if e.wrote and e.user.username.endswith(":sickbay:sickbay")]
    assert {e.name for e in by_us if e.resource == "devicetaintrules"} == {ours}
    assert not [e for e in by_us if e.resource.startswith("nodes")]
    subject = find(await look(gateway, slices=True), seat.device)
    explained = lay_out(explanation(subject, None, Told(), datetime.now(UTC)))
    assert any(line.startswith("State        Tainted: its last incident ended") for line in explained)
    # Ours is gone and theirs hold: the device is theirs to give back.
    await patch_node(gateway, node, {"spec": {"unschedulable": None, "taints": None}})
    await scene.wants_device_of("next", seat)
    assert "cannot allocate all claims" in await scene.unschedulable("next")
    for name in alike:
        await gateway.request("DELETE", DEVICETAINTRULES.path(name=name))
    assert (await scene.seat("next")).key == seat.key


async def make_rule(gateway: Gateway, name: str, seat: Seat, *, effect: str) -> None:
    """Make somebody else's rule for a device: without a finalizer, and with a label like ours."""
    selector = {"driver": seat.key.driver, "pool": seat.key.pool, "device": seat.key.device}
    body = {
        "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "sickbay"}},
        "spec": {"deviceSelector": selector, "taint": {"key": OTHERS, "effect": effect}},
    }
    await gateway.request("POST", DEVICETAINTRULES.path(), body=body)


async def patch_node(gateway: Gateway, node: str, body: dict[str, Any]) -> None:
    """Change a node as an administrator does."""
    await gateway.request("PATCH", NODES.path(name=node), body=body, content_type=MERGE_PATCH)


async def belongings(gateway: Gateway, node: str, rules: list[str]) -> dict[str, dict[str, Any]]:
    """Read what others have said of a node and in their rules: all but what Kubernetes itself writes."""
    found = {name: decode(await gateway.request("GET", DEVICETAINTRULES.path(name=name))) for name in rules}
    found["node"] = decode(await gateway.request("GET", NODES.path(name=node)))
    kept = ("uid", "labels", "annotations", "finalizers", "deletionTimestamp")
    return {
        name: {"spec": item["spec"], **{key: item["metadata"].get(key) for key in kept}} for name, item in found.items()
    }
