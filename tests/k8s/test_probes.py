"""Probes on the real scheduler: exactly that device, whatever its fence says, and nobody else's."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from k8s.fences import Fences
from k8s.gateway import Gateway, decode
from k8s.hardware import identify
from k8s.lab.lab import Lab
from k8s.listings import ClaimLister, SliceLister
from k8s.probe_objects import PROBE_NAMESPACE, ProbeStep, claim_body, facts_of, pod_body
from k8s.probes import Probes
from k8s.resources import (
    PODS,
    RESOURCECLAIMS,
    VALIDATINGADMISSIONPOLICIES,
    VALIDATINGADMISSIONPOLICYBINDINGS,
    Resource,
)
from k8s.wire import AllocationResult, Pod, ResourceSlice
from sickbay import errors
from sickbay.model.contracts import ProbeStarted, ProbeVerdict, StartProbe
from sickbay.model.device import DeviceKey
from sickbay.model.incident import Target, Trial, Verdict
from sickbay.model.observation import Health
from sickbay.model.policy import Probe
from tests.builders import target
from tests.conftest import AddNodes
from tests.installation import CLUSTER, Installation
from tests.k8s import cluster
from tests.k8s.scripted import event, says, scripted, status, streams

AT_ONCE = timedelta(0)
THERE = ProbeStarted()


def order(of: Target, number: int, hardware: str, settings: Probe | None = None) -> StartProbe:
    """Order a probe."""
    return StartProbe(target=of, number=number, hardware_id=hardware, settings=settings or Probe())


def probes(gateway: Gateway, *, later: timedelta = timedelta(0)) -> Probes:
    """Build what probes, without spacing, by a clock that is ahead."""
    claims, slices = ClaimLister(gateway, spacing=AT_ONCE), SliceLister(gateway, spacing=AT_ONCE)
    return Probes(gateway, claims, slices, now=lambda: datetime.now(UTC) + later)


@dataclass(frozen=True)
class Fenced:
    """A fenced device that nobody holds."""

    node: str
    target: Target
    hardware: str

    @property
    def device(self) -> DeviceKey:
        """Its key."""
        return self.target.device


@pytest.fixture
async def fenced(lab: Lab, sickbay: Installation, namespace: str, add_nodes: AddNodes) -> AsyncIterator[Fenced]:
    """Fence one of the two devices of a node; what probes leave there is removed."""
    (node,) = await add_nodes(1, cluster.shape(namespace, devices=2))
    device = DeviceKey(cluster=CLUSTER, driver=f"{namespace}.example", pool=node, device="gpu-1")
    incident = target(device)
    fences = Fences(sickbay.gateway)
    placed = await fences.put(device, 1, incident=incident.incident, effect_key=incident.effect_key("fence", 1))
    slices = await SliceLister(sickbay.gateway, spacing=AT_ONCE).get(device.driver)
    yield Fenced(node, incident, identify(slices, device, "uuid").id)
    fence = await fences.unlatch(device.numbered(1), placed.uid, "k")
    assert fence is not None
    await fences.delete(fence.name, fence.uid, fence.resource_version)


async def judged(trial: Probes, of: Fenced, number: int = 1) -> ProbeVerdict:
    """Wait for a probe's verdict."""
    return await cluster.until(lambda: trial.verdict(of.target, number, of.hardware))


async def stopped(trial: Probes, of: Fenced, number: int = 1) -> None:
    """Stop a probe until it is gone."""

    async def look() -> bool:
        return not await trial.stop(of.target, number)

    await cluster.until(look)


@pytest.mark.lab
@pytest.mark.parametrize(("broken", "verdict"), [(False, Verdict.PASS), (True, Verdict.FAIL)])
async def test_a_probe_tries_exactly_the_fenced_device(
    lab: Lab, sickbay: Installation, fenced: Fenced, *, broken: bool, verdict: Verdict
) -> None:
    """It lands on the fenced one of two devices, and its verdict is read after the claim gave it back."""
    if broken:
        await lab.fleet.break_device(fenced.node, fenced.device.device)
    else:
        await lab.fleet.break_device(fenced.node, "gpu-0")  # the other one: a probe of that would fail
    trial = probes(sickbay.gateway)
    assert await trial.start(order(fenced.target, 1, fenced.hardware)) == THERE
    found = await judged(trial, fenced)
    assert found.verdict is verdict, found

    async def given_back() -> bool:
        data = await lab.gateway.request("GET", RESOURCECLAIMS.path(PROBE_NAMESPACE, fenced.device.numbered(1)))
        return "allocation" not in decode(data)["status"]

    await cluster.until(given_back)
    again = await trial.verdict(fenced.target, 1, fenced.hardware)
    assert again is not None
    assert again.verdict is verdict, again
    await stopped(trial, fenced)
    assert await cluster.trial_there(lab.gateway, fenced.device.numbered(1)) == (False, False)
    assert await trial.verdict(fenced.target, 1, fenced.hardware) == ProbeVerdict(
        verdict=Verdict.INCONCLUSIVE,
        cause="ProbeGone",
        message="its pod was deleted before it had a verdict",
    )


@pytest.mark.lab
async def test_starting_twice_makes_one_probe(lab: Lab, sickbay: Installation, fenced: Fenced) -> None:
    """Whoever repeats a start, at once or between claim and pod, finds what is there."""
    trial = probes(sickbay.gateway)
    starts = (trial.start(order(fenced.target, 1, fenced.hardware)) for _ in range(4))
    assert await asyncio.gather(*starts) == [THERE] * 4
    before = decode(await lab.gateway.request("GET", PODS.path(PROBE_NAMESPACE, fenced.device.numbered(1))))
    assert await trial.start(order(fenced.target, 1, fenced.hardware)) == THERE
    after = decode(await lab.gateway.request("GET", PODS.path(PROBE_NAMESPACE, fenced.device.numbered(1))))
    assert before["metadata"]["uid"] == after["metadata"]["uid"]
    await stopped(trial, fenced)


@pytest.mark.lab
async def test_a_start_that_was_cut_short_is_finished(lab: Lab, sickbay: Installation, fenced: Fenced) -> None:
    """With the claim made and the pod not, the pod follows, and the claim's history still tells."""
    slices = await SliceLister(sickbay.gateway, spacing=AT_ONCE).get(fenced.device.driver)
    body = claim_body(ProbeStep(fenced.target, 1), identify(slices, fenced.device, "uuid"))
    await sickbay.gateway.request("POST", RESOURCECLAIMS.path(PROBE_NAMESPACE), body=body)
    trial = probes(sickbay.gateway)
    assert await trial.start(order(fenced.target, 1, fenced.hardware)) == THERE
    assert (await judged(trial, fenced)).verdict is Verdict.PASS
    await stopped(trial, fenced)


@pytest.mark.lab
async def test_a_probe_waits_while_somebody_holds_the_device(
    lab: Lab, sickbay: Installation, namespace: str, add_nodes: AddNodes
) -> None:
    """A device in use is not probed beside its user; nothing is created."""
    await add_nodes(1, cluster.shape(namespace))
    await cluster.create_claim(lab.gateway, namespace, "one", f"{namespace}.example")
    await cluster.create_pod(lab.gateway, namespace, "work", claim="one")
    pod = await cluster.running(lab.gateway, namespace, "work")
    device = await cluster.device_of(lab.gateway, pod)
    slices = await SliceLister(sickbay.gateway, spacing=AT_ONCE).get(device.driver)
    hardware = identify(slices, device, "uuid").id
    waiting = await probes(sickbay.gateway).start(order(target(device), 1, hardware))
    assert waiting == ProbeStarted(waiting=f"claim {namespace}/one holds the device")
    assert await cluster.trial_there(lab.gateway, device.numbered(1)) == (False, False)


@pytest.mark.lab
async def test_other_hardware_is_not_probed(lab: Lab, sickbay: Installation, fenced: Fenced) -> None:
    """A swapped card, or an identity that is not published, gets no probe."""
    trial = probes(sickbay.gateway)
    unpublished = Probe().model_copy(update={"identity": {fenced.device.driver: "serial"}})
    assert "'serial'" in (await trial.start(order(fenced.target, 1, fenced.hardware, unpublished))).waiting
    await lab.fleet.swap(fenced.node, fenced.device.device)
    assert "not" in (await trial.start(order(fenced.target, 1, fenced.hardware))).waiting
    assert await cluster.trial_there(lab.gateway, fenced.device.numbered(1)) == (False, False)


@pytest.mark.lab
async def test_a_left_over_of_the_same_name_is_in_the_way(lab: Lab, sickbay: Installation, fenced: Fenced) -> None:
    """An object of another incident is neither taken for ours nor deleted."""
    other = fenced.target.model_copy(update={"status_version": "99"})
    trial = probes(sickbay.gateway)
    assert await trial.start(order(other, 1, fenced.hardware)) == THERE
    assert "left from another probe" in (await trial.start(order(fenced.target, 1, fenced.hardware))).waiting
    assert await trial.stop(fenced.target, 1) == ""
    assert await cluster.trial_there(lab.gateway, fenced.device.numbered(1)) == (True, True)
    await stopped(trial, Fenced(fenced.node, other, fenced.hardware))


@pytest.mark.lab
async def test_a_probe_that_finds_no_room_waits(lab: Lab, sickbay: Installation, fenced: Fenced) -> None:
    """On a cordoned node it cannot run: no verdict at first, then waiting with the scheduler's own words."""
    await lab.gateway.request(
        "PATCH",
        f"/api/v1/nodes/{fenced.node}",
        body={"spec": {"unschedulable": True}},
        content_type="application/merge-patch+json",
    )
    trial, later = probes(sickbay.gateway), probes(sickbay.gateway, later=timedelta(minutes=1))
    assert await trial.start(order(fenced.target, 1, fenced.hardware)) == THERE
    assert await trial.verdict(fenced.target, 1, fenced.hardware) is None
    found = await judged(later, fenced)
    assert (found.verdict, found.cause) == (Verdict.WAITING, "Unschedulable")
    assert "unschedulable" in found.message
    await stopped(trial, fenced)


@asynccontextmanager
async def forbidden(
    sickbay: Installation, resource: Resource, body: dict[str, Any], reason: str
) -> AsyncIterator[None]:
    """Have a policy of somebody else refuse this object, for as long as the block lasts."""
    name = "foreign"
    rule = {
        "apiGroups": [resource.group],
        "apiVersions": ["*"],
        "operations": ["CREATE"],
        "resources": [resource.plural],
    }
    mine = {"name": "mine", "expression": f"object.metadata.name == '{body['metadata']['name']}'"}
    validation = {"expression": "false", "message": "unsigned <b>image</b>"} | ({"reason": reason} if reason else {})
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [mine],
        "validations": [validation],
    }
    bound = {"policyName": name, "validationActions": ["Deny"]}
    kinds = ((VALIDATINGADMISSIONPOLICIES, spec), (VALIDATINGADMISSIONPOLICYBINDINGS, bound))
    for kind, what in kinds:
        await sickbay.admin.request("POST", kind.path(), body={"metadata": {"name": name}, "spec": what})

    async def bites() -> bool:
        try:
            path = resource.path(PROBE_NAMESPACE)
            await sickbay.gateway.request("POST", path, body=body, params={"dryRun": "All"})
        except (errors.Forbidden, errors.Invalid):
            return True
        return False

    try:
        await cluster.until(bites)
        yield
    finally:
        for kind, _ in kinds:
            await sickbay.admin.request("DELETE", kind.path(name=name))


@pytest.mark.lab
@pytest.mark.parametrize("reason", ["Forbidden", ""], ids=["403", "422"])
@pytest.mark.parametrize("kind", ["ResourceClaim", "Pod"])
async def test_a_probe_that_the_cluster_will_not_have_could_not_run(
    lab: Lab, sickbay: Installation, fenced: Fenced, kind: str, reason: str
) -> None:
    """Its claim or its pod is refused: it waits with the server's words, and what there is of it is removed."""
    slices = await SliceLister(sickbay.gateway, spacing=AT_ONCE).get(fenced.device.driver)
    step = ProbeStep(fenced.target, 1)
    resource, body = (
        (RESOURCECLAIMS, claim_body(step, identify(slices, fenced.device, "uuid")))
        if kind == "ResourceClaim"
        else (PODS, pod_body(step, Probe().image, Probe().timeout, "7"))
    )
    trial = probes(sickbay.gateway)
    async with forbidden(sickbay, resource, body, reason):
        started = await trial.start(order(fenced.target, 1, fenced.hardware))
        assert started.verdict is not None
        assert (started.waiting, started.verdict.verdict, started.verdict.cause) == ("", Verdict.WAITING, "Refused")
        assert started.verdict.message.startswith(f"{kind}: ")
        assert started.verdict.message.endswith("denied request: unsigned bimage/b")
        assert await cluster.trial_there(lab.gateway, step.name) == (False, kind == "Pod")
    await stopped(trial, fenced)
    assert await cluster.trial_there(lab.gateway, step.name) == (False, False)
    assert await trial.start(order(fenced.target, 2, fenced.hardware)) == THERE
    await stopped(trial, fenced, 2)


@pytest.mark.lab
async def test_an_object_that_is_none_is_no_refusal_of_the_cluster(sickbay: Installation, fenced: Fenced) -> None:
    """No waiting mends an image's name: the step fails, and says so."""
    trial = probes(sickbay.gateway)
    wrong = order(fenced.target, 1, fenced.hardware).model_copy(update={"image": " x"})
    with pytest.raises(errors.Invalid, match="image"):
        await trial.start(wrong)
    await stopped(trial, fenced)


@pytest.mark.lab
async def test_a_foreign_taint_is_not_tolerated(lab: Lab, sickbay: Installation, fenced: Fenced) -> None:
    """Another controller that took the device out of service keeps the probe away too."""
    rule = {
        "metadata": {"name": f"foreign-{fenced.node}"},
        "spec": {
            "deviceSelector": {"driver": fenced.device.driver, "pool": fenced.node, "device": fenced.device.device},
            "taint": {"key": "example.com/maintenance", "effect": "NoSchedule"},
        },
    }
    await lab.gateway.request("POST", sickbay.rules.path(), body=rule)
    trial = probes(sickbay.gateway, later=timedelta(minutes=1))
    assert await trial.start(order(fenced.target, 1, fenced.hardware)) == THERE
    assert (await judged(trial, fenced)).verdict is Verdict.WAITING
    await stopped(trial, fenced)
    await lab.gateway.request("DELETE", sickbay.rules.path(name=f"foreign-{fenced.node}"))


@pytest.mark.lab
async def test_the_api_server_accepts_a_selector_for_every_kind_of_identity(lab: Lab, sickbay: Installation) -> None:
    """Strings with quotes, numbers and versions make expressions that compile."""
    for number, value in enumerate([{"string": 'a"b\\c\n\u2028😀'}, {"int": 7}, {"version": "1.2.3-rc.1+x"}]):
        spec = {
            "driver": "d.example",
            "pool": {"name": "p", "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "attributes": {"uuid": value}}],
        }
        slices = [msgspec.convert({"metadata": {"name": "s"}, "spec": spec}, ResourceSlice)]
        device = DeviceKey(cluster=CLUSTER, driver="d.example", pool="p", device="gpu-0")
        body = claim_body(ProbeStep(target(device), number + 1), identify(slices, device, "uuid"))
        await sickbay.gateway.request("POST", RESOURCECLAIMS.path(PROBE_NAMESPACE), body=body, params={"dryRun": "All"})


@pytest.mark.lab
async def test_the_scheduler_finds_a_device_by_its_version(
    lab: Lab, sickbay: Installation, namespace: str, add_nodes: AddNodes
) -> None:
    """A version that no other device has selects one, though this probe names it otherwise and so proves nothing."""
    (node,) = await add_nodes(1, cluster.shape(namespace))
    device = DeviceKey(cluster=CLUSTER, driver=f"{namespace}.example", pool=node, device="gpu-0")
    of = Fenced(node, target(device), "1.0.0")
    trial = probes(sickbay.gateway)
    settings = Probe(identity={device.driver: f"{device.driver}/driverVersion"})
    assert await trial.start(order(of.target, 1, of.hardware, settings)) == THERE
    found = await judged(trial, of)
    assert (found.verdict, found.cause) == (Verdict.INCONCLUSIVE, "OtherDevice")
    assert "'GPU-" in found.message
    await stopped(trial, of)


def test_a_probe_has_no_rights_and_an_end() -> None:
    """No token, no root, no privilege, no tolerations, no restart, a deadline, small."""
    settings = Probe(timeout=timedelta(seconds=90.5), image="example.com/probe:v2")
    spec = pod_body(ProbeStep(target(), 3), settings.image, settings.timeout, "7")["spec"]
    (container,) = spec["containers"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["restartPolicy"] == "Never"
    assert spec["activeDeadlineSeconds"] == math.ceil(90.5)
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["image"] == "example.com/probe:v2"
    assert "tolerations" not in spec
    assert "hostNetwork" not in spec


def test_a_canary_is_ready_when_its_image_says_so() -> None:
    """Without a readiness probe kubelet takes any container that runs for Ready, loaded or not."""
    for trial, asks in ((Trial.PROBE, False), (Trial.CANARY, True)):
        spec = pod_body(ProbeStep(target(), 3, trial), "example.com/x", timedelta(minutes=1), "7")["spec"]
        assert ("readinessProbe" in spec["containers"][0]) is asks


def test_pod_and_claim_have_an_effect_key_each() -> None:
    """An audit log counts one request that changed something per key."""
    step = ProbeStep(target(), 3)
    keys = {step.metadata(kind)["annotations"]["sickbay.dev/effect"] for kind in ("Pod", "ResourceClaim")}
    assert keys == {step.target.effect_key("probe", 3), step.target.effect_key("probe-claim", 3)}


async def test_a_history_that_is_lost_is_no_proof(tmp_path: Path) -> None:
    """When nobody can tell any more which device the probe held, its pass proves nothing."""
    step = ProbeStep(target(), 1)
    told = json.dumps({"verdict": "pass", "device": "GPU-3"})
    ended = {"name": "probe", "state": {"terminated": {"exitCode": 0, "message": told}}}
    work = {
        "metadata": {"creationTimestamp": CREATED, **step.metadata("Pod")},
        "status": {"phase": "Succeeded", "containerStatuses": [ended]},
    }
    work["metadata"]["annotations"]["sickbay.dev/claim-version"] = "7"
    claim = {"metadata": step.metadata("ResourceClaim")}
    lost = streams(event("ERROR", status(410, "Expired")))
    for history in (says(410, status(410, "Expired")), lost, streams(event("ADDED", claim))):
        async with scripted(tmp_path) as (server, gateway):
            server.script += [says(200, work), says(200, {"metadata": {}, "items": []}), says(200, claim), history]
            found = await probes(gateway).verdict(step.target, 1, "GPU-3")
        assert server.asked[3].query["resourceVersion"] == "7"
        assert found is not None
        assert (found.verdict, found.cause) == (Verdict.INCONCLUSIVE, "NotAllocated")


CREATED = "2026-01-10T10:00:00Z"


def pod(**status: Any) -> Pod:
    """Build a probe's pod, 40 s old."""
    return msgspec.convert({"metadata": {"name": "x", "creationTimestamp": CREATED}, "status": status}, Pod)


@pytest.mark.parametrize(
    ("status", "facts"),
    [
        (
            {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no driver"},
            {"failure": "UnexpectedAdmissionError", "detail": "no driver", "exit_code": None},
        ),
        (
            {
                "phase": "Pending",
                "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
                ],
            },
            {"blocked": "Unschedulable", "detail": "0/3 nodes"},
        ),
        (
            {
                "phase": "Pending",
                "containerStatuses": [{"name": "probe", "state": {"waiting": {"reason": "ErrImagePull"}}}],
            },
            {"blocked": "ErrImagePull"},
        ),
        (
            {
                "phase": "Pending",
                "containerStatuses": [{"name": "probe", "state": {"waiting": {"reason": "ContainerCreating"}}}],
            },
            {"blocked": ""},
        ),
        (
            {
                "phase": "Running",
                "containerStatuses": [
                    {
                        "name": "probe",
                        "state": {"running": {}},
                        "allocatedResourcesStatus": [
                            {"name": "claim:device/probe", "resources": [{"resourceID": "x", "health": "Unhealthy"}]}
                        ],
                    }
                ],
            },
            {"phase": "Running", "health": Health.UNHEALTHY, "exit_code": None},
        ),
        (
            {
                "phase": "Failed",
                "containerStatuses": [
                    {"name": "probe", "state": {"terminated": {"exitCode": 3, "message": "{}"}}},
                ],
            },
            {"failure": "", "exit_code": 3, "message": "{}"},
        ),
    ],
)
def test_facts_are_read_off_the_pod(status: dict[str, Any], facts: dict[str, Any]) -> None:
    """Failures of the pod as a whole, what keeps it pending, its own health entry, and how it ended."""
    now = datetime(2026, 1, 10, 10, 0, 40, tzinfo=UTC)
    held = (AllocationResult(request="probe", driver="d", pool="p", device="x"),)
    found = facts_of(pod(**status), held, now=now, node_ready=True)
    assert {name: getattr(found, name) for name in facts} == facts
    assert (found.pending_for, found.held) == (timedelta(seconds=40), (("d", "p", "x"),))
