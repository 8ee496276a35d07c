"""What the rest of the house builds on: the real scheduler, controllers, eviction and admission of a lab."""

from __future__ import annotations

from typing import Any

import pytest

from k8s.gateway import Gateway, decode
from k8s.lab.lab import Lab
from sickbay import errors
from tests.conftest import AddNodes
from tests.k8s.cluster import create_pod, create_template, shape, until, workload

pytestmark = pytest.mark.lab

RULES = "/apis/resource.k8s.io/v1/devicetaintrules"


async def get(lab: Lab, path: str) -> dict[str, Any]:
    """Read an object."""
    found: dict[str, Any] = decode(await lab.gateway.request("GET", path))
    return found


async def phase(lab: Lab, namespace: str, name: str, wanted: str) -> dict[str, Any]:
    """Wait for a pod's phase."""

    async def look() -> dict[str, Any] | None:
        pod = await get(lab, f"/api/v1/namespaces/{namespace}/pods/{name}")
        return pod if pod["status"]["phase"] == wanted else None

    return await until(look)


async def test_it_is_the_version_that_it_says(lab: Lab) -> None:
    """Without the linker's flags the components would not know."""
    version = await get(lab, "/version")
    assert (version["gitVersion"], version["major"], version["minor"]) == ("v1.37.2", "1", "37")
    assert version["gitTreeState"] == "clean"


async def test_pods_get_their_account_token(lab: Lab, namespace: str) -> None:
    """The default admission plugins are on, ServiceAccount among them."""
    await lab.gateway.request(
        "POST",
        f"/api/v1/namespaces/{namespace}/pods",
        body={"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "x"}]}},
    )
    pod = await get(lab, f"/api/v1/namespaces/{namespace}/pods/p")
    assert pod["spec"]["serviceAccountName"] == "default"
    assert "projected" in pod["spec"]["volumes"][0]


async def test_a_fenced_device_is_given_to_nobody(lab: Lab, namespace: str, add_nodes: AddNodes) -> None:
    """The claim pends with the scheduler's reason, and gets the device by itself when the fence is gone."""
    (node,) = await add_nodes(1, shape(namespace))
    driver = f"{namespace}.example"
    await create_template(lab.gateway, namespace, "one", driver)
    rule = {
        "metadata": {"name": f"{namespace}-fence"},
        "spec": {
            "deviceSelector": {"driver": driver, "pool": node, "device": "gpu-0"},
            "taint": {"key": "test.example/fence", "effect": "NoSchedule"},
        },
    }
    await lab.gateway.request("POST", RULES, body=rule)
    await create_pod(lab.gateway, namespace, "p", template="one")

    async def told() -> str | None:
        pod = await get(lab, f"/api/v1/namespaces/{namespace}/pods/p")
        for condition in pod["status"].get("conditions", []):
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return str(condition["message"])
        return None

    assert "cannot allocate all claims" in await until(told)
    await lab.gateway.request("DELETE", f"{RULES}/{namespace}-fence")
    pod = await phase(lab, namespace, "p", "Running")
    assert pod["spec"]["nodeName"] == node


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
async def test_a_workload_gets_ready_and_replaces_a_deleted_pod(
    lab: Lab, namespace: str, add_nodes: AddNodes, kind: str
) -> None:
    """The controllers are the real ones."""
    await add_nodes(1, shape(namespace, 2))
    await create_template(lab.gateway, namespace, "one", f"{namespace}.example")
    collection = f"/apis/apps/v1/namespaces/{namespace}/{kind.lower()}s"
    await lab.gateway.request("POST", collection, body=workload(kind, "w", template="one", replicas=2))

    async def ready() -> bool:
        return bool((await get(lab, f"{collection}/w"))["status"].get("readyReplicas") == 2)

    async def uids() -> set[str]:
        pods = await get(lab, f"/api/v1/namespaces/{namespace}/pods")
        return {pod["metadata"]["uid"] for pod in pods["items"] if pod["status"]["phase"] == "Running"}

    await until(ready)
    before = await uids()
    (name, *_) = [pod["metadata"]["name"] for pod in (await get(lab, f"/api/v1/namespaces/{namespace}/pods"))["items"]]
    await lab.gateway.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}")

    async def replaced() -> bool:
        now = await uids()
        return len(now) == 2 and now != before

    await until(replaced)


async def test_a_job_completes_and_counts_its_failures(lab: Lab, namespace: str, add_nodes: AddNodes) -> None:
    """Exit codes of stand-in containers are what the Job controller sees."""
    await add_nodes(1, shape(namespace))
    await create_template(lab.gateway, namespace, "one", f"{namespace}.example")
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    for name, code, condition in (("good", "0", "Complete"), ("bad", "1", "Failed")):
        body = workload("Job", name, template="one", behaviour={"run-for": "50ms", "exit-code": code})
        body["spec"]["backoffLimit"] = 0
        await lab.gateway.request("POST", jobs, body=body)

        async def ended(job: str = name, wanted: str = condition) -> bool:
            status = (await get(lab, f"{jobs}/{job}"))["status"]
            return any(c["type"] == wanted and c["status"] == "True" for c in status.get("conditions", []))

        await until(ended)


async def test_an_eviction_respects_a_budget(lab: Lab, namespace: str, add_nodes: AddNodes) -> None:
    """429 with its cause while the budget has no room, 201 when there is no budget; then the pod goes with grace."""
    await add_nodes(1, shape(namespace))
    await create_template(lab.gateway, namespace, "one", f"{namespace}.example")
    budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "p"}}}}
    await lab.gateway.request("POST", budgets, body=budget)
    await create_pod(lab.gateway, namespace, "p", template="one")
    await phase(lab, namespace, "p", "Running")

    async def counted() -> bool:
        return bool((await get(lab, f"{budgets}/b"))["status"].get("currentHealthy") == 1)

    await until(counted)
    path = f"/api/v1/namespaces/{namespace}/pods/p/eviction"
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": namespace}}
    with pytest.raises(errors.TooManyRequests) as caught:
        await lab.gateway.request("POST", path, body=eviction)
    assert caught.value.causes[0].reason == "DisruptionBudget"
    await lab.gateway.request("DELETE", f"{budgets}/b")
    await lab.gateway.request("POST", path, body=eviction)
    pod = await get(lab, f"/api/v1/namespaces/{namespace}/pods/p")
    assert pod["metadata"]["deletionTimestamp"]
    target = [c for c in pod["status"]["conditions"] if c["type"] == "DisruptionTarget"]
    assert target[0]["reason"] == "EvictionByEvictionAPI"

    async def gone() -> bool:
        try:
            await get(lab, f"/api/v1/namespaces/{namespace}/pods/p")
        except errors.NotFound:
            return True
        return False

    await until(gone)


async def test_an_accounts_kubeconfig_has_its_rights_alone(lab: Lab, namespace: str) -> None:
    """RBAC is on: a fresh account may ask who it is, and nothing else."""
    path = await lab.kubeconfig_for(namespace, "default")
    assert path.stat().st_mode & 0o077 == 0
    async with await Gateway.connect(kubeconfig=str(path)) as account:
        with pytest.raises(errors.Forbidden):
            await account.request("GET", f"/api/v1/namespaces/{namespace}/pods")
    with pytest.raises(errors.NotFound):
        await lab.kubeconfig_for(namespace, "nobody")
