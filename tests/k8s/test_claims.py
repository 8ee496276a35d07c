"""Whom a health entry speaks of, and who uses a device."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8s.claims import ClaimName, PluginDevice, Reading, Unresolved, held_by, parse_claim_name, readings, users_of
from k8s.store import Key
from k8s.wire import Pod, ResourceClaim
from sickbay.model.device import DeviceKey


def key(text: str) -> DeviceKey:
    """Build a key from ``driver/pool/device``."""
    driver, pool, device = text.split("/")
    return DeviceKey(cluster="c", driver=driver, pool=pool, device=device)


def result(device: str, request: str = "r", **more: object) -> dict[str, object]:
    """Build an allocation result from ``driver/pool/device``."""
    driver, pool, name = device.split("/")
    return {"request": request, "driver": driver, "pool": pool, "device": name, **more}


def claim(
    name: str, *results: dict[str, object], pods: tuple[str, ...] = ("p",), namespace: str = "n"
) -> ResourceClaim:
    """Build a claim that is reserved for pods (uid = ``u-`` + name)."""
    status: dict[str, Any] = {
        "reservedFor": [{"resource": "pods", "name": pod, "uid": f"u-{pod}"} for pod in pods],
    }
    if results:
        status["allocation"] = {"devices": {"results": list(results)}}
    return msgspec.convert({"metadata": {"name": name, "namespace": namespace}, "status": status}, ResourceClaim)


def pod(
    *entries: tuple[str, list[str]], claims: dict[str, str] | None = None, name: str = "p", **status: object
) -> Pod:
    """Build a pod with these health entries, all Unhealthy; ``claims`` by pod-local name, ``""`` is a template's."""
    spec = [
        {"name": local, "resourceClaimName": object_name}
        if object_name
        else {"name": local, "resourceClaimTemplateName": "t"}
        for local, object_name in (claims or {}).items()
    ]
    entry = [
        {"name": entry, "resources": [{"resourceID": id_, "health": "Unhealthy", "message": "m"} for id_ in ids]}
        for entry, ids in entries
    ]
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "n", "uid": f"u-{name}"},
            "spec": {"nodeName": "node", "resourceClaims": spec},
            "status": {"containerStatuses": [{"name": "main", "allocatedResourcesStatus": entry}], **status},
        },
        Pod,
    )


def read(pod_: Pod, *claims: ResourceClaim) -> tuple[Reading, ...]:
    """Resolve a pod's entries against these claims."""
    by_name: dict[Key, ResourceClaim] = {(c.metadata.namespace, c.metadata.name): c for c in claims}
    return readings(pod_, by_name, cluster="c")


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("claim:a", ClaimName("a")),
        ("claim:a/r", ClaimName("a", "r")),
        ("claim:a/r/sub", ClaimName("a", "r/sub")),
        ("claim:", None),
        ("claim:/", None),
        ("claim:/r", None),
        ("claim:a/", None),
        ("claim", None),
        ("nvidia.com/gpu", None),
        ("", None),
    ],
)
def test_names_of_claim_entries(name: str, parsed: ClaimName | None) -> None:
    """Only the first slash divides, and half a name is none."""
    assert parse_claim_name(name) == parsed


@given(st.text(), st.text())
def test_a_claim_name_is_read_back(pod_claim: str, request: str) -> None:
    """Whatever stands before the first slash is the claim, whatever follows it the request."""
    parsed = parse_claim_name(f"claim:{pod_claim}/{request}")
    if parsed is not None:
        assert f"{parsed.pod_claim}/{parsed.request}" == f"{pod_claim}/{request}"
        assert "/" not in parsed.pod_claim


def test_one_device_is_meant_whatever_its_id_says() -> None:
    """A request with one device means that device, by a CDI id made up per claim or by its own name."""
    one = claim("x", result("d/p/gpu-3"))
    for resource_id in ("vendor.com/gpu=claim-uid-gpu-0", "d/p/gpu-3", "odd"):
        (reading,) = read(pod(("claim:a", [resource_id]), claims={"a": "x"}), one)
        assert reading.devices == (key("d/p/gpu-3"),)
        assert reading.exact
        assert (reading.container, reading.health, reading.message) == ("main", "Unhealthy", "m")


def test_a_request_narrows_the_claim() -> None:
    """Without a request all devices of the claim are meant, with one only its own, alternatives by their base name."""
    many = claim("x", result("d/p/a", "one"), result("d/p/b", "two/large"))
    ids = {
        entry: read(pod((entry, ["v/c=1"]), claims={"a": "x"}), many)[0].devices
        for entry in ("claim:a", "claim:a/one", "claim:a/two", "claim:a/two/large")
    }
    assert ids["claim:a"] == (key("d/p/a"), key("d/p/b"))
    assert ids["claim:a/one"] == (key("d/p/a"),)
    assert ids["claim:a/two"] == ids["claim:a/two/large"] == (key("d/p/b"),)


def test_devices_that_cannot_be_told_apart_are_all_suspect() -> None:
    """CDI ids of a request with several devices mean each of them, ids that are a device's own name only that one."""
    two = claim("x", result("d/p/a"), result("d/p/b"), result("e/p/c"))
    first, second = read(pod(("claim:a", ["v/c=1", "e/p/c"]), claims={"a": "x"}), two)
    assert first.devices == (key("d/p/a"), key("d/p/b"))
    assert not first.exact
    assert second.devices == (key("e/p/c"),)


def test_shares_of_a_device_are_one_device() -> None:
    """Results that differ in shareID alone are the same device."""
    shared = claim("x", result("d/p/a", shareID="1"), result("d/p/a", shareID="2"))
    (reading,) = read(pod(("claim:a", ["v/c=1"]), claims={"a": "x"}), shared)
    assert reading.devices == held_by(shared, cluster="c") == (key("d/p/a"),)


def test_a_template_claim_is_found_through_the_status() -> None:
    """The pod-local name is never looked up as an object; a template's claim is named by the pod's status alone."""
    made = claim("made", result("d/p/a"))
    trap = claim("a", result("d/p/wrong"))
    without = pod(("claim:a", ["v/c=1"]), claims={"a": ""})
    assert read(without, made, trap)[0].unresolved is Unresolved.CLAIM_UNNAMED
    named = pod(
        ("claim:a", ["v/c=1"]), claims={"a": ""}, resourceClaimStatuses=[{"name": "a", "resourceClaimName": "made"}]
    )
    assert read(named, made, trap)[0].devices == (key("d/p/a"),)


@pytest.mark.parametrize(
    ("entry", "ids", "claims", "why"),
    [
        ("claim:a", [""], [claim("x", result("d/p/a"))], Unresolved.MALFORMED),
        ("claim:a/", ["v/c=1"], [claim("x", result("d/p/a"))], Unresolved.MALFORMED),
        ("", ["v/c=1"], [], Unresolved.MALFORMED),
        ("claim:b", ["v/c=1"], [claim("x", result("d/p/a"))], Unresolved.CLAIM_UNNAMED),
        ("claim:a", ["v/c=1"], [], Unresolved.CLAIM_UNSEEN),
        ("claim:a", ["v/c=1"], [claim("x", result("d/p/a"), namespace="other")], Unresolved.CLAIM_UNSEEN),
        ("claim:a", ["v/c=1"], [claim("x", result("d/p/a"), pods=("q",))], Unresolved.NOT_RESERVED),
        ("claim:a", ["v/c=1"], [claim("x")], Unresolved.NOT_ALLOCATED),
        ("claim:a/other", ["v/c=1"], [claim("x", result("d/p/a"))], Unresolved.NOT_ALLOCATED),
        ("claim:a", ["d/p/b"], [claim("x", result("d/p/a"))], Unresolved.MISMATCH),
    ],
)
def test_what_cannot_be_resolved_is_kept_with_a_reason(
    entry: str, ids: list[str], claims: list[ResourceClaim], why: Unresolved
) -> None:
    """An entry that names no device for certain names none, and says what is missing."""
    (reading,) = read(pod((entry, ids), claims={"a": "x"}), *claims)
    assert reading.unresolved is why
    assert reading.devices == ()
    assert reading.health == "Unhealthy"


def test_a_plugin_device_is_known_by_node_resource_and_id() -> None:
    """Replicas are one device, and ids in the wild stay what they are."""
    ids = ["GPU-1::0", "GPU-1::7", "0000:03:00.0-slice-0", "nvidia0/vgpu1", "2"]
    found = [reading.plugin for reading in read(pod(("nvidia.com/gpu", ids)))]
    expected = ["GPU-1", "GPU-1", "0000:03:00.0-slice-0", "nvidia0/vgpu1", "2"]
    assert found == [PluginDevice("node", "nvidia.com/gpu", id_) for id_ in expected]


EXTENDED = {
    "resourceClaimName": "made",
    "requestMappings": [
        {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "container-0-request-0"},
        {"containerName": "other", "resourceName": "example.com/nic", "requestName": "container-1-request-0"},
    ],
}


def test_an_extended_resource_served_by_a_claim_is_its_device() -> None:
    """Should kubelet report one, it means the claim's device; a resource that no claim serves is a plugin's."""
    served = claim("made", result("d/p/a", "container-0-request-0"), result("d/p/b", "container-1-request-0"))
    first, second = read(
        pod(("example.com/gpu", ["v/c=1"]), ("example.com/nic", ["v/c=2"]), extendedResourceClaimStatus=EXTENDED),
        served,
    )
    assert first.devices == (key("d/p/a"),)
    assert second.plugin == PluginDevice("node", "example.com/nic", "v/c=2")


def test_init_containers_are_read_too() -> None:
    """An entry of an init container counts like any other."""
    entry = {"name": "claim:a", "resources": [{"resourceID": "v/c=1", "health": "Unhealthy"}]}
    sidecar = pod(claims={"a": "x"}, initContainerStatuses=[{"name": "side", "allocatedResourcesStatus": [entry]}])
    (reading,) = read(sidecar, claim("x", result("d/p/a")))
    assert (reading.container, reading.devices) == ("side", (key("d/p/a"),))


def test_users_over_namespaces_shares_and_ways() -> None:
    """All sharers are users, whoever has admin access alone is an observer, each counts once."""
    eth1 = "net/node-d1/eth1"
    claims = [
        claim("s1", result(eth1, shareID="1"), pods=("p1", "p2"), namespace="t1"),
        claim("s2", result(eth1, shareID="2"), pods=("p3",), namespace="t2"),
        claim(
            "mon",
            result(eth1, "all", adminAccess=True),
            result("net/node-d1/eth2", "all"),
            pods=("m",),
            namespace="adm",
        ),
        claim("mon2", result(eth1, adminAccess=True), pods=("p3",), namespace="t2"),
        claim("other", result("net/node-d2/eth1"), pods=("q",), namespace="t1"),
        claim("none", pods=("z",), namespace="t1"),
    ]
    users = users_of(key(eth1), claims)
    assert [(user.namespace, user.name, user.claim, user.observer) for user in users] == [
        ("adm", "m", "mon", True),
        ("t1", "p1", "s1", False),
        ("t1", "p2", "s1", False),
        ("t2", "p3", "s2", False),
    ]


def test_users_of_extended_resources_need_no_reservation() -> None:
    """A live pod whose status names the claim of its extended resources is a user, a pod that ended is none."""
    served = claim("made", result("d/p/a", "container-0-request-0"), pods=())
    live = pod(extendedResourceClaimStatus=EXTENDED, phase="Running")
    ended = pod(name="done", extendedResourceClaimStatus=EXTENDED, phase="Failed")
    assert [user.name for user in users_of(key("d/p/a"), [served], [live, ended])] == ["p"]


@given(
    st.permutations([result("d/p/a"), result("d/p/b"), result("d/p/c", "s")]),
    st.permutations(["v/c=1", "v/c=2", "d/p/c"]),
)
def test_order_means_nothing(results: list[dict[str, object]], ids: list[str]) -> None:
    """In whatever order results and ids come, they mean the same."""
    found = read(pod(("claim:a", ids), claims={"a": "x"}), claim("x", *results))
    assert {(reading.resource_id, frozenset(map(str, reading.devices))) for reading in found} == {
        ("v/c=1", frozenset({"c/d/p/a", "c/d/p/b"})),
        ("v/c=2", frozenset({"c/d/p/a", "c/d/p/b"})),
        ("d/p/c", frozenset({"c/d/p/c"})),
    }
