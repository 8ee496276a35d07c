"""`sickbay doctor` on a real cluster: well it is told so, and each of many planted faults is found."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from temporalio.worker import Worker

from k8s.clock import utc_now
from k8s.configmaps import NAMESPACE
from k8s.control import CONTROL, ControlMap
from k8s.election import Election
from k8s.gateway import MERGE_PATCH, Gateway
from k8s.impersonation import impersonating
from k8s.install import LEADER_LEASE, install
from k8s.lab.controlplane import ControlPlaneOptions
from k8s.lab.lab import Lab
from k8s.lab.nodes.fleet import NodeShape
from k8s.lab.temporal import TemporalOptions
from k8s.resources import (
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    CONFIGMAPS,
    CUSTOMRESOURCEDEFINITIONS,
    DEVICECLASSES,
    DEVICEQUARANTINES,
    LEASES,
    RESOURCECLAIMTEMPLATES,
    RESOURCESLICES,
    VALIDATINGADMISSIONPOLICIES,
    VALIDATINGADMISSIONPOLICYBINDINGS,
)
from sickbay import errors
from sickbay.cli.checkup.all import examine
from sickbay.cli.checkup.finding import Finding, Scene, Severity
from sickbay.model.contracts import Queue
from sickbay.temporal import Temporal
from tests.builders import policy
from tests.installation import CLUSTER, OPERATORS, a_device, record_spec
from tests.k8s.cluster import until
from workers.sandbox import workflow_runner
from workflows.incident.workflow import DeviceIncident

pytestmark = pytest.mark.lab

POLICY = policy(match={"drivers": ["gpu.sickbay.dev", "nameless.example", "twins.example"]})


@dataclass(frozen=True)
class Examined:
    """What the doctor said at each time.

    Attributes:
        idle: installed, and nothing runs.
        well: a leader and a worker are there.
        faulty: all faults are planted.
        away: the same, and Temporal does not answer.
        refused: asked by somebody who may nothing.
    """

    idle: list[Finding]
    well: list[Finding]
    faulty: list[Finding]
    away: list[Finding]
    refused: list[Finding]


@pytest.fixture(scope="module")
async def examined() -> AsyncIterator[Examined]:
    """One lab, whose API server was started with a feature gate off: well, then with all faults."""
    gates = "--feature-gates=ResourceHealthStatus=false,ResourceHealthStatusMessage=false"
    options = ControlPlaneOptions(flags={"apiserver": (gates,)})
    async with Lab.start(control_plane=options, temporal=TemporalOptions()) as lab:
        gateway, temporal = lab.gateway, Temporal(lab.temporal.address)
        await lab.fleet.add(1, NodeShape(devices=2))
        await install(gateway, cluster=CLUSTER, namespace_id=await temporal.namespace_id())
        scene = Scene(gateway, temporal, POLICY, utc_now)
        idle = await examine(scene)
        worker = Worker(
            await temporal.client(),
            task_queue=Queue.INCIDENT.of(CLUSTER),
            workflows=[DeviceIncident],
            workflow_runner=workflow_runner(),
        )
        async with worker, Election(gateway, namespace=NAMESPACE, name=LEADER_LEASE) as election:
            await election.acquired()
            well = await examine(scene)
        await plant(gateway)
        faulty = await examine(replace(scene, now=lambda: utc_now() + timedelta(minutes=10)))
        away = await examine(replace(scene, temporal=Temporal("127.0.0.1:9")))
        async with impersonating(gateway, "nobody") as nobody:
            refused = await examine(replace(scene, gateway=nobody))
        yield Examined(idle, well, faulty, away, refused)


async def plant(gateway: Gateway) -> None:
    """Break the installation in many places."""

    async def patch(path: str, body: dict[str, Any]) -> None:
        await gateway.request("PATCH", path, body=body, content_type=MERGE_PATCH)

    await a_record_that_cannot_be_read(gateway)
    await a_record_of_another_temporal(gateway)
    crd = CUSTOMRESOURCEDEFINITIONS.path(name="devicequarantines.sickbay.dev")
    await patch(crd, {"spec": {"names": {"shortNames": ["quarantine"]}}})
    bindings = VALIDATINGADMISSIONPOLICYBINDINGS
    await patch(bindings.path(name="sickbay-fences"), {"spec": {"validationActions": ["Warn"]}})
    await gateway.request("DELETE", bindings.path(name="sickbay-tolerations"))
    excluded = {"matchConstraints": {"objectSelector": {"matchLabels": {"really": "yes"}}}}
    await patch(VALIDATINGADMISSIONPOLICIES.path(name="sickbay-records"), {"spec": excluded})
    await gateway.request("DELETE", CLUSTERROLEBINDINGS.path(name="sickbay"))
    wide = {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}
    await patch(CLUSTERROLES.path(name="sickbay-operator"), wide)
    await gateway.request("DELETE", DEVICECLASSES.path(name="sickbay-probe"))
    await patch(CONFIGMAPS.path(NAMESPACE, CONTROL), {"data": {"namespaceID": "another"}})
    await ControlMap(gateway).pause(who="ann", why="firmware")
    await patch(LEASES.path(NAMESPACE, LEADER_LEASE), {"spec": {"holderIdentity": "ghost", "leaseDurationSeconds": 1}})
    await publish(gateway, "nameless.example", {})
    await publish(gateway, "twins.example", {"uuid": {"string": "GPU-1"}})
    await a_tolerant_template(gateway)


async def a_record_that_cannot_be_read(gateway: Gateway) -> None:
    """Create a record with a reason that there is not."""
    await create_as_operator(gateway, "odd", reason="Odd")


async def a_record_of_another_temporal(gateway: Gateway) -> None:
    """Create a record whose incident is nowhere."""
    await create_as_operator(gateway, "lost", namespaceID="elsewhere")


async def create_as_operator(gateway: Gateway, name: str, **spec: str) -> None:
    """Create a record in the name of a person."""
    written = record_spec(a_device(), actor="ann").model_dump(mode="json", by_alias=True, exclude_none=True)
    body = {
        "apiVersion": DEVICEQUARANTINES.api_version,
        "kind": "DeviceQuarantine",
        "metadata": {"name": name},
        "spec": {**written, "admission": {"state": "None"}, **spec},
    }
    async with impersonating(gateway, "ann", OPERATORS) as ann:
        await ann.request("POST", DEVICEQUARANTINES.path(), body=body)


async def publish(gateway: Gateway, driver: str, attributes: dict[str, Any]) -> None:
    """Publish two devices that nothing, or the same, tells apart."""
    spec = {
        "driver": driver,
        "allNodes": True,
        "pool": {"name": "all", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"gpu-{n}", "attributes": attributes} for n in range(2)],
    }
    await gateway.request("POST", RESOURCESLICES.path(), body={"metadata": {"name": driver}, "spec": spec})


async def a_tolerant_template(gateway: Gateway) -> None:
    """Create a template that takes any device, as soon as the missing binding lets it through."""
    wish = {"deviceClassName": "gpu.sickbay.dev", "tolerations": [{"operator": "Exists"}]}
    spec = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": wish}]}}}
    body = {"metadata": {"name": "greedy"}, "spec": spec}

    async def created() -> bool:
        with suppress(errors.Forbidden):
            await gateway.request("POST", RESOURCECLAIMTEMPLATES.path("default"), body=body)
            return True
        return False

    await until(created)


def wrong(findings: list[Finding]) -> set[str]:
    """Name the checks that found an error."""
    return {finding.check for finding in findings if finding.severity is Severity.ERROR}


def test_a_cluster_that_is_well_is_told_so(examined: Examined) -> None:
    """Nothing is wrong but the gate that this API server was started without."""
    assert wrong(examined.well) == {"FeatureGates"}
    assert {f.check for f in examined.well if f.severity is Severity.WARNING} == {"Probe", "Canary"}


def test_nobody_at_work_is_found(examined: Examined) -> None:
    """An installation without a process has neither leader nor worker."""
    assert wrong(examined.idle) == {"FeatureGates", "Leader", "Worker"}


@pytest.mark.parametrize(
    ("check", "severity", "told"),
    [
        ("FeatureGates", "error", "^ResourceHealthStatus off in the API server"),
        ("Clock", "error", "clock is (599|600|601) s ahead of"),
        ("RecordType", "error", r"devicequarantines.sickbay.dev differs at spec.names.shortNames\[0\]"),
        ("AdmissionPolicies", "error", r"PolicyBinding sickbay-fences differs at spec.validationActions\[0\]"),
        ("AdmissionPolicies", "error", "PolicyBinding sickbay-tolerations is missing"),
        ("AdmissionPolicies", "error", "Policy sickbay-records differs at spec.matchConstraints.objectSelector"),
        ("Roles", "error", "ClusterRoleBinding sickbay is missing, ClusterRole sickbay-operator differs at rules"),
        ("Namespaces", "error", "DeviceClass sickbay-probe is missing"),
        ("Rights", "error", "sickbay:sickbay may not get devicequarantines.sickbay.dev, .* and [0-9]+ more"),
        ("TemporalNamespace", "error", "is not another, which was installed"),
        ("Installation", "warning", "paused by ann until somebody resumes: firmware"),
        ("Leader", "error", "ghost leads but has not renewed for 2 s"),
        ("Identity", "error", "nameless.example: no attribute uuid on all/gpu-0, all/gpu-1"),
        ("Identity", "error", "twins.example: devices share uuid GPU-1"),
        ("Tolerations", "error", r"ResourceClaimTemplate default/greedy \(every taint\)"),
        ("Records", "error", "cannot be read: odd"),
        ("Records", "error", "open incidents of another Temporal namespace, .*: lost$"),
    ],
)
def test_a_fault_is_found(examined: Examined, check: str, severity: str, told: str) -> None:
    """With what is wrong, and what to do about it."""
    found = [f for f in examined.faulty if f.check == check and f.severity == severity and re.search(told, f.what)]
    assert len(found) == 1, examined.faulty
    assert found[0].remedy


def test_a_temporal_that_does_not_answer_is_found(examined: Examined) -> None:
    """The rest is looked at all the same."""
    assert {"Temporal", "Leader", "Rights"} <= wrong(examined.away)
    (found,) = [finding for finding in examined.away if finding.check == "Temporal"]
    assert "127.0.0.1:9" in found.what
    assert "--temporal-address" in found.remedy


def test_what_may_not_be_looked_at_is_a_warning(examined: Examined) -> None:
    """Somebody without rights learns what is missing, and is not told that it is broken."""
    refused = {f.check for f in examined.refused if f.severity is Severity.WARNING and "may not be" in f.what}
    assert {"FeatureGates", "Manifests", "Rights", "Leader", "Identity", "Tolerations", "Records"} <= refused


async def test_a_cluster_that_does_not_answer_is_one_finding(tmp_path: Any) -> None:
    """Not one for each check; Temporal is looked at all the same."""
    config = tmp_path / "config"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\n"
        "clusters: [{name: x, cluster: {server: 'http://127.0.0.1:9'}}]\n"
        "users: [{name: x, user: {}}]\ncontexts: [{name: x, context: {cluster: x, user: x}}]\n",
        encoding="utf-8",
    )
    async with await Gateway.connect(kubeconfig=str(config)) as gateway:
        found = await examine(Scene(gateway, Temporal("127.0.0.1:9"), None, utc_now))
    assert [finding.check for finding in found] == ["Kubernetes", "Temporal"]
    assert "127.0.0.1:9" in found[0].what
