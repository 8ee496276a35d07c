"""Stand-in nodes against the real control plane: it must not be able to tell them from kubelet."""

from __future__ import annotations

import json
import time
from datetime import timedelta

import pytest

from k8s.gateway import decode
from k8s.lab.lab import Lab
from k8s.lab.nodes.fleet import Health, NodeShape
from k8s.lab.nodes.pod import PodRun
from k8s.lab.nodes.wire import Pod
from k8s.resources import PODS
from sickbay import errors
from tests.conftest import AddNodes
from tests.k8s.cluster import create_claim, create_pod, create_template, delete, pod_spec, until
from tests.k8s.lab.nodes.ward import Ward, container, told_of

pytestmark = pytest.mark.lab


async def test_a_bound_pod_runs_ready_and_tells_of_its_device(ward: Ward) -> None:
    """With the fields that others read: start, addresses, image, a container id, the device by its plain id."""
    pod = await ward.run("p")
    conditions = {condition["type"]: condition["status"] for condition in pod["status"]["conditions"]}
    assert conditions.items() >= {"PodScheduled": "True", "Ready": "True", "ContainersReady": "True"}.items()
    assert pod["status"]["startTime"]
    assert pod["status"]["podIP"]
    assert container(pod)["ready"]
    assert container(pod)["containerID"].startswith("containerd://")
    assert container(pod)["allocatedResourcesStatus"][0]["name"] == "claim:gpu"
    assert list(told_of(pod).values()) == ["Healthy"]
    assert next(iter(told_of(pod))).startswith(f"{ward.driver}/{ward.node}/gpu-")


async def test_a_broken_device_shows_at_once_and_heals(ward: Ward) -> None:
    """Under 1 s, with its message, and nothing else of the status changes."""
    before = await ward.run("p")
    (resource,) = told_of(before)
    device = resource.rpartition("/")[2]
    started = time.monotonic()
    await ward.fleet.break_device(ward.node, device, message="Xid 79")
    broken = await ward.pod("p")
    assert time.monotonic() - started < 1
    assert told_of(broken) == {resource: "Unhealthy"}
    assert container(broken)["allocatedResourcesStatus"][0]["resources"][0]["message"] == "Xid 79"
    assert broken["status"]["conditions"] == before["status"]["conditions"]
    await ward.fleet.break_device(ward.node, device, health=Health.UNKNOWN)
    assert told_of(await ward.pod("p")) == {resource: "Unknown"}
    await ward.fleet.heal(ward.node, device)
    assert told_of(await ward.pod("p")) == {resource: "Healthy"}


async def test_two_pods_that_share_a_claim_both_tell(ward: Ward) -> None:
    """An entry each."""
    await create_claim(ward.gateway, ward.namespace, "shared", ward.driver)
    for name in ("a", "b"):
        await create_pod(ward.gateway, ward.namespace, name, claim="shared")
    pods = [await ward.until(name, lambda status: status["phase"] == "Running") for name in ("a", "b")]
    (resource,) = {resource for pod in pods for resource in told_of(pod)}
    await ward.fleet.break_device(ward.node, resource.rpartition("/")[2])
    assert [told_of(await ward.pod(name)) for name in ("a", "b")] == [{resource: "Unhealthy"}] * 2


async def test_the_api_server_accepts_all_forms_of_entries(lab: Lab, namespace: str, add_nodes: AddNodes) -> None:
    """Named requests, alternatives, several containers, CDI ids: a refused status would never be Running."""
    driver = f"{namespace}.example"
    await add_nodes(1, NodeShape(devices=3, driver=driver, prefix=namespace, cdi_ids=True))
    exactly = {"deviceClassName": driver}
    requests = [
        {"name": "one", "exactly": exactly},
        {"name": "either", "firstAvailable": [{"name": "sub", **exactly}]},
        {"name": "admin", "exactly": exactly},
    ]
    body = {"metadata": {"name": "all"}, "spec": {"devices": {"requests": requests}}}
    claims = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"
    await lab.gateway.request("POST", claims, body=body)
    spec = pod_spec(claim="all")
    spec["containers"] = [
        {"name": name, "image": "x", "resources": {"claims": [{"name": "gpu", **use}]}}
        for name, use in {"a": {}, "b": {"request": "one"}, "c": {"request": "either"}}.items()
    ]
    sidecar = {"name": "s", "image": "x", "restartPolicy": "Always", "resources": {"claims": [{"name": "gpu"}]}}
    spec["initContainers"] = [{"name": "i", "image": "x"}, sidecar]
    pods = f"/api/v1/namespaces/{namespace}/pods"
    await lab.gateway.request("POST", pods, body={"metadata": {"name": "p"}, "spec": spec})
    ward = Ward(lab, namespace, "", driver)
    pod = await ward.until("p", lambda status: status["phase"] == "Running")
    names = [
        [(entry["name"], len(entry["resources"])) for entry in status["allocatedResourcesStatus"]]
        for status in pod["status"]["containerStatuses"]
    ]
    assert names == [[("claim:gpu", 3)], [("claim:gpu/one", 1)], [("claim:gpu/either", 1)]]
    assert all(resource.startswith(f"{driver}/claim=") for resource in told_of(pod))
    assert all("allocatedResourcesStatus" not in status for status in pod["status"]["initContainerStatuses"])


async def test_a_pod_ends_as_its_annotations_say(ward: Ward) -> None:
    """Exit 0 is Succeeded, anything else Failed; an ended pod tells of no device."""
    good = await ward.run("good", phase="Succeeded", restart="Never", behaviour={"run-for": "50ms"})
    bad = await ward.run("bad", phase="Failed", restart="Never", behaviour={"run-for": "50ms", "exit-code": "7"})
    assert container(good)["state"]["terminated"]["exitCode"] == 0
    assert container(bad)["state"]["terminated"]["exitCode"] == 7
    assert told_of(good) == told_of(bad) == {}


async def test_a_bad_annotation_fails_the_pod_and_says_so(ward: Ward) -> None:
    """In the place where kubectl shows it."""
    pod = await ward.run("p", phase="Failed", restart="Never", behaviour={"run-for": "soon"})
    assert "'soon' is no duration" in container(pod)["state"]["terminated"]["message"]


async def test_a_crash_loop_backs_off_and_tells_of_its_device(ward: Ward) -> None:
    """Restarts are counted, the pod is not ready between them, and it holds its device all the while."""
    await create_pod(ward.gateway, ward.namespace, "p", template="one", behaviour={"run-for": "20ms", "exit-code": "1"})
    pod = await ward.until("p", lambda status: status.get("containerStatuses", [{}])[0].get("restartCount", 0) >= 1)
    pod = await ward.until("p", lambda status: "waiting" in status["containerStatuses"][0]["state"])
    assert container(pod)["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert container(pod)["lastState"]["terminated"]["exitCode"] == 1
    assert not container(pod)["ready"]
    assert list(told_of(pod).values()) == ["Healthy"]


async def test_a_pod_dies_with_its_device_and_takes_its_report_with_it(ward: Ward) -> None:
    """As measured with restartPolicy Never."""
    pod = await ward.run("p", restart="Never", behaviour={"dies-with-device": "true"})
    (resource,) = told_of(pod)
    await ward.fleet.break_device(ward.node, resource.rpartition("/")[2])
    pod = await ward.until("p", lambda status: status["phase"] == "Failed")
    assert told_of(pod) == {}


async def test_deletion_takes_the_grace_that_the_pod_needs(ward: Ward) -> None:
    """The containers end by SIGTERM in time, or by SIGKILL when the grace period is over; then the pod goes."""
    for name, needs, code in (("quick", "300ms", 143), ("slow", "1h", 137)):
        await ward.run(name, behaviour={"stop-after": needs})
        path = f"/api/v1/namespaces/{ward.namespace}/pods/{name}"
        finalizer = {"metadata": {"finalizers": ["test.example/look"]}}
        await ward.gateway.request("PATCH", path, body=finalizer, content_type="application/merge-patch+json")
        await ward.gateway.request("DELETE", path)
        assert (await ward.pod(name))["status"]["phase"] == "Running"
        pod = await ward.until(name, lambda status: status["phase"] == "Failed")
        assert container(pod)["state"]["terminated"]["exitCode"] == code
        nothing = {"metadata": {"finalizers": None}}
        await ward.gateway.request("PATCH", path, body=nothing, content_type="application/merge-patch+json")
        await ward.gone(name)


async def test_a_pod_that_ends_by_itself_as_it_is_deleted_goes(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    """That it is to be deleted reaches its node only after it has written its last status."""
    held: list[tuple[PodRun, Pod]] = []
    update = PodRun.update

    def late(run: PodRun, pod: Pod) -> None:
        if pod.deleted:
            held.append((run, pod))
        else:
            update(run, pod)

    with monkeypatch.context() as patched:
        patched.setattr(PodRun, "update", late)
        (resource,) = told_of(await ward.run("p", restart="Never", behaviour={"dies-with-device": "true"}))
        await delete(ward.gateway, PODS, ward.namespace, "p")
        await ward.fleet.break_device(ward.node, resource.rpartition("/")[2])
        await ward.until("p", lambda status: status["phase"] == "Failed")
    run, pod = held[0]
    run.update(pod)
    await ward.gone("p")


@pytest.mark.parametrize("fails", [False, True])
async def test_a_probe_tells_whether_its_device_works(ward: Ward, *, fails: bool) -> None:
    """By its exit code, and by a message that names the card, whatever the health word says."""
    for device in ("gpu-0", "gpu-1"):
        await ward.fleet.break_device(ward.node, device, health=Health.HEALTHY, probe_fails=fails)
    await ward.start_trial("probe", "sickbay.dev/probe:v1")
    pod = await ward.until("probe", lambda status: status["phase"] in {"Succeeded", "Failed"})
    ended = container(pod)["state"]["terminated"]
    (uuids,) = [{d.uuid for d in n.devices} for n in ward.fleet.describe() if n.name == ward.node]
    message = json.loads(ended["message"])
    assert ended["exitCode"] == (1 if fails else 0)
    assert message["verdict"] == ("fail" if fails else "pass")
    assert message["device"] in uuids


async def test_a_swapped_card_has_another_identity(ward: Ward) -> None:
    """Same slot, new uuid, a newer generation of the pool."""
    path = f"/apis/resource.k8s.io/v1/resourceslices/{ward.node}-{ward.driver}"
    before = decode(await ward.gateway.request("GET", path))["spec"]
    fresh = await ward.fleet.swap(ward.node, "gpu-1")
    after = decode(await ward.gateway.request("GET", path))["spec"]
    assert after["pool"]["generation"] == before["pool"]["generation"] + 1
    assert after["devices"][0] == before["devices"][0]
    assert after["devices"][1]["attributes"]["uuid"] == {"string": fresh} != before["devices"][1]["attributes"]["uuid"]


async def test_a_node_that_is_cut_off_writes_nothing_until_it_is_back(lab: Lab, namespace: str) -> None:
    """Its Lease stands still and its status is frozen; back again, it tells what happened meanwhile."""
    driver = f"{namespace}.example"
    shape = NodeShape(devices=1, driver=driver, prefix=namespace, lease_interval=timedelta(milliseconds=100))
    (node,) = await lab.fleet.add(1, shape)
    await create_template(lab.gateway, namespace, "one", driver)
    ward = Ward(lab, namespace, node, driver)
    (resource,) = told_of(await ward.run("p"))

    async def renewed() -> str:
        path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}"
        return str(decode(await lab.gateway.request("GET", path))["spec"]["renewTime"])

    async def renews() -> bool:
        return await renewed() != before

    before = await renewed()
    await until(renews)
    await lab.fleet.stop_lease(node)
    before = await renewed()
    await lab.fleet.break_device(node, "gpu-0")
    with pytest.raises(TimeoutError):
        await until(renews, within=0.5)
    assert told_of(await ward.pod("p")) == {resource: "Healthy"}
    await lab.fleet.resume_lease(node)
    assert told_of(await ward.pod("p")) == {resource: "Unhealthy"}
    await until(renews)
    await lab.fleet.remove(node)


async def test_unknown_nodes_and_devices_are_named(lab: Lab, ward: Ward) -> None:
    """One line with what there is."""
    with pytest.raises(errors.UsageError, match="node 'nowhere': not in this lab; it has "):
        await ward.fleet.heal("nowhere", "gpu-0")
    with pytest.raises(errors.UsageError, match=r"device 'gpu-9': .* it has gpu-0, gpu-1"):
        await ward.fleet.heal(ward.node, "gpu-9")
    with pytest.raises(errors.UsageError, match="devices: 129"):
        await ward.fleet.add(1, NodeShape(devices=129))
