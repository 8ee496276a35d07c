"""What the API server answers to an eviction, and what it means.

The table is answered by a scripted HTTP server, which is no API server: most of these answers a real one cannot be made
to give. What it can be made to give is tried on a real one.
"""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from k8s.evictions import MEND, evict, leaving, read_pod
from k8s.gateway import Gateway
from k8s.lab.lab import Lab
from k8s.reading import Reader
from k8s.resources import PODDISRUPTIONBUDGETS, PODS
from k8s.wire import Pod
from k8s.workloads import PodDisruptionBudget
from sickbay import errors
from sickbay.model.contracts import Evicted, EvictionOutcome
from tests.conftest import AddNodes
from tests.k8s import cluster
from tests.k8s.scripted import Answer, cut, says, scripted, status

POD = {"metadata": {"namespace": "a", "name": "b", "uid": "u"}, "status": {"phase": "Running"}}
OTHER = {"metadata": {"namespace": "a", "name": "b", "uid": "another"}, "status": {"phase": "Running"}}
READY = {**POD, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}

BUDGET = {
    "reason": "DisruptionBudget",
    "message": "The disruption budget quorum needs 2 healthy pods and has 2 currently",
}
MANY = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
WEBHOOK = 'admission webhook "drain.example.com" denied the request: not now'
POLICY = "pods \"b\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: unsigned"


def read(raw: dict[str, Any]) -> Pod:
    """Read a pod."""
    return msgspec.convert(raw, Pod)


async def answered(directory: Path, *answers: Answer, pod: dict[str, Any] = READY) -> tuple[Evicted, list[str]]:
    """Evict a pod that was just read, and tell what came of it and which requests were made."""
    async with scripted(directory) as (server, gateway):
        server.script += answers
        evicted = await evict(gateway, read(pod))
    return evicted, [f"{asked.method} {asked.path}" for asked in server.asked]


POST = "POST /api/v1/namespaces/a/pods/b/eviction"
GET = "GET /api/v1/namespaces/a/pods/b"


@pytest.mark.parametrize(
    ("code", "body", "outcome", "said", "retry_after"),
    [
        (201, status(201), EvictionOutcome.ACCEPTED, "", None),
        (404, status(404, "NotFound"), EvictionOutcome.GONE, "is gone", None),
        (
            429,
            status(429, "TooManyRequests", "Cannot evict", causes=[BUDGET], retryAfterSeconds=10),
            EvictionOutcome.BUDGET,
            "budget quorum needs 2 healthy pods and has 2 currently",
            timedelta(seconds=10),
        ),
        (
            429,
            status(429, "TooManyRequests", "Cannot evict", causes=[BUDGET], retryAfterSeconds=0),
            EvictionOutcome.BUDGET,
            "budget quorum",
            None,
        ),
        (500, status(500, "", MANY), EvictionOutcome.MANY_BUDGETS, "leave one", MEND),
        (
            403,
            status(403, "Forbidden", "forbidden", causes=[{"reason": "NamespaceTerminating"}]),
            EvictionOutcome.ACCEPTED,
            "namespace is being deleted",
            None,
        ),
        (403, status(403, "Forbidden", WEBHOOK), EvictionOutcome.DENIED, "drain.example.com", None),
        (400, status(400, "BadRequest", WEBHOOK), EvictionOutcome.DENIED, "drain.example.com", None),
        (422, status(422, "Invalid", POLICY), EvictionOutcome.DENIED, "unsigned", None),
        (403, status(403, "Forbidden", "User may not"), EvictionOutcome.DENIED, "User may not", None),
    ],
)
async def test_an_answer_has_one_meaning(
    tmp_path: Path, code: int, body: object, outcome: EvictionOutcome, said: str, retry_after: timedelta | None
) -> None:
    """Each answer is one of six outcomes, told for people, after one request."""
    evicted, requests = await answered(tmp_path, says(code, body))
    assert (evicted.uid, evicted.outcome, evicted.retry_after) == ("u", outcome, retry_after)
    assert said in evicted.message
    assert requests == [POST]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (says(429, status(429, "TooManyRequests"), Retry_After="7"), errors.TooManyRequests),
        (says(500, status(500, "InternalError", "failed calling webhook: deadline exceeded")), errors.ServerFault),
        (says(500, status(500, "", "the database is read-only")), errors.ServerFault),
        (says(503, status(503, "ServiceUnavailable")), errors.ServerFault),
        (says(422, status(422, "Invalid")), errors.Invalid),
        (says(400, status(400, "BadRequest", "name in URL does not match")), errors.BadRequest),
        (says(401, status(401, "Unauthorized")), errors.Unauthorized),
        (cut(), errors.ClusterUnavailable),
    ],
)
async def test_what_says_nothing_about_the_pod_passes_up(
    tmp_path: Path, answer: Answer, error: type[errors.SickbayError]
) -> None:
    """Whoever retries reads the pod again by its uid first: a POST is sent once."""
    async with scripted(tmp_path) as (server, gateway):
        server.script += [answer]
        with pytest.raises(error) as raised:
            await evict(gateway, read(READY))
    assert len(server.asked) == 1
    if isinstance(raised.value, errors.TooManyRequests):
        assert raised.value.retry_after == 7


async def test_a_conflict_is_settled_by_the_uid(tmp_path: Path) -> None:
    """409 is done where another pod has the name, and a race of the server's own where it has not."""
    conflict = says(409, status(409, "Conflict", "the UID in the precondition"))
    evicted, requests = await answered(tmp_path, conflict, says(200, OTHER))
    assert (evicted.outcome, requests) == (EvictionOutcome.GONE, [POST, GET])
    with pytest.raises(errors.Conflict):
        await answered(tmp_path, conflict, says(200, POD))


async def test_the_request_names_the_uid(tmp_path: Path) -> None:
    """The precondition is what keeps a later pod of that name from being evicted."""
    async with scripted(tmp_path) as (server, gateway):
        server.script += [says(201, {})]
        await evict(gateway, read(READY))
    assert json.loads(server.asked[0].body)["deleteOptions"] == {"preconditions": {"uid": "u"}}


async def test_a_budget_that_waiting_cannot_satisfy_is_told(tmp_path: Path) -> None:
    """A pod that is not Ready itself may be what its budget lacks: people learn the way out."""
    blocked = says(429, status(429, "TooManyRequests", causes=[BUDGET]))
    evicted, _ = await answered(tmp_path, blocked, pod=POD)
    assert "unhealthyPodEvictionPolicy" in evicted.message
    evicted, _ = await answered(tmp_path, blocked)
    assert "unhealthyPodEvictionPolicy" not in evicted.message


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        (None, "is gone"),
        ({"metadata": {"name": "b", "uid": "u", "deletionTimestamp": "2026-01-10T09:59:50Z"}}, "is being deleted"),
        ({"metadata": {"name": "b", "uid": "u"}, "status": {"phase": "Succeeded"}}, "has ended"),
        (POD, ""),
    ],
)
def test_a_pod_on_its_way_out_needs_no_eviction(pod: dict[str, Any] | None, why: str) -> None:
    """Terminating, ended and gone pods are left alone, and it is said why."""
    said = leaving(None if pod is None else read(pod))
    assert said.startswith(why)
    assert bool(said) is bool(why)


async def budget(gateway: Gateway, namespace: str, name: str, app: str) -> None:
    """Create a budget that allows no disruption, and wait until its controller has counted."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}
    await cluster.create(gateway, PODDISRUPTIONBUDGETS, namespace, {"metadata": {"name": name}, "spec": spec})
    decode = Reader(PodDisruptionBudget)

    async def counted() -> bool:
        data = await gateway.request("GET", PODDISRUPTIONBUDGETS.path(namespace, name))
        return decode(data).value.status.expected_pods == 1

    await cluster.until(counted)


@pytest.mark.lab
async def test_the_real_server_accepts_an_eviction(lab: Lab, namespace: str, add_nodes: AddNodes) -> None:
    """Accepted is not gone: the pod is terminating, then it needs no second one, then it is gone by uid."""
    await add_nodes(1, cluster.shape(namespace))
    await cluster.create_pod(lab.gateway, namespace, "work", behaviour={"stop-after": "500ms"})
    pod = await cluster.running(lab.gateway, namespace, "work")
    assert (await evict(lab.gateway, pod)).outcome is EvictionOutcome.ACCEPTED
    again = await read_pod(lab.gateway, namespace, "work", pod.metadata.uid)
    assert again is not None
    assert leaving(again) == "is being deleted already"

    async def gone() -> bool:
        return await read_pod(lab.gateway, namespace, "work", pod.metadata.uid) is None

    await cluster.until(gone)
    assert (await evict(lab.gateway, pod)).outcome is EvictionOutcome.GONE


@pytest.mark.lab
async def test_the_real_server_keeps_a_pod_with_another_uid(lab: Lab, namespace: str, add_nodes: AddNodes) -> None:
    """An eviction meant for the pod that had this name before does not touch the new one."""
    await add_nodes(1, cluster.shape(namespace))
    await cluster.create_pod(lab.gateway, namespace, "work")
    pod = await cluster.running(lab.gateway, namespace, "work")
    former = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid="former"))
    assert (await evict(lab.gateway, former)).outcome is EvictionOutcome.GONE
    now = await read_pod(lab.gateway, namespace, "work", pod.metadata.uid)
    assert now is not None
    assert not now.metadata.deletion_timestamp


@pytest.mark.lab
async def test_the_real_server_names_the_budget(lab: Lab, namespace: str, add_nodes: AddNodes) -> None:
    """One budget blocks and is named with its numbers; two are a mistake that a person mends."""
    await add_nodes(1, cluster.shape(namespace))
    await cluster.create_pod(lab.gateway, namespace, "work")
    pod = await cluster.running(lab.gateway, namespace, "work")
    await budget(lab.gateway, namespace, "first", "work")
    blocked = await evict(lab.gateway, pod)
    assert blocked.outcome is EvictionOutcome.BUDGET
    assert "The disruption budget first needs 1 healthy pods and has 1 currently" in blocked.message
    await budget(lab.gateway, namespace, "second", "work")
    assert (await evict(lab.gateway, pod)).outcome is EvictionOutcome.MANY_BUDGETS
    await lab.gateway.request("DELETE", PODS.path(namespace, "work"))
