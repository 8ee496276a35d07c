"""Decoding: what is odd is lost alone, and said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8s.lab.lab import Lab
from k8s.reading import MAX_FLAWS, Decoded, Flaw, Kind, Reader, Undecodable
from k8s.resources import NODES, PODS, RESOURCECLAIMS, RESOURCESLICES
from k8s.wire import Attribute, DeviceTaintRule, Node, Pod, ResourceClaim, ResourceSlice
from k8s.workloads import Deployment, Job, PodDisruptionBudget

read_pod = Reader(Pod)


def pod(**status: object) -> dict[str, Any]:
    """Build a pod as JSON."""
    return {"metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "1"}, "status": status}


def read(value: object) -> Decoded[Pod]:
    """Decode a pod from plain data."""
    return read_pod(json.dumps(value).encode())


def health_of(decoded: Decoded[Pod]) -> dict[str, list[tuple[str, str | None]]]:
    """Give the health entries of all containers by entry name."""
    return {
        entry.name: [(one.resource_id, one.health) for one in entry.resources]
        for status in decoded.value.status.container_statuses
        for entry in status.allocated_resources_status
    }


GOOD = {"name": "claim:a", "resources": [{"resourceID": "d/p/x", "health": "Unhealthy"}]}


def test_words_are_kept_as_they_are() -> None:
    """Unlisted, empty and lower-case health words and empty ids arrive untouched."""
    resources = [
        {"resourceID": "1", "health": "PermanentlyUnhealthy"},
        {"resourceID": "2", "health": ""},
        {"resourceID": "", "health": "unhealthy", "message": "line1\nlevel=error"},
    ]
    decoded = read(
        pod(containerStatuses=[{"name": "c", "allocatedResourcesStatus": [{"name": "r", "resources": resources}]}])
    )
    assert decoded.flaws == ()
    assert health_of(decoded) == {"r": [("1", "PermanentlyUnhealthy"), ("2", ""), ("", "unhealthy")]}


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"containerStatuses": None},
        {"containerStatuses": [{"name": "c"}]},
        {"containerStatuses": [{"name": "c", "allocatedResourcesStatus": None}]},
        {"containerStatuses": [{"name": "c", "allocatedResourcesStatus": [{"name": "claim:a"}]}]},
        {"containerStatuses": [{"name": "c", "allocatedResourcesStatus": [{"name": "claim:a", "resources": None}]}]},
        {"conditions": None, "phase": None, "extendedResourceClaimStatus": None, "resourceClaimStatuses": None},
    ],
)
def test_null_and_missing_are_absent(status: dict[str, object]) -> None:
    """Null lists, missing lists and missing fields are no evidence, and no flaw either."""
    decoded = read(pod(**status))
    assert decoded.flaws == ()
    assert all(resources == [] for resources in health_of(decoded).values())


@pytest.mark.parametrize(
    ("odd", "flaw"),
    [
        (5, Flaw(Kind.ENTRY, "status.containerStatuses[0].allocatedResourcesStatus[0]")),
        ({"name": 7}, Flaw(Kind.ENTRY, "status.containerStatuses[0].allocatedResourcesStatus[0]")),
        ({"resources": []}, Flaw(Kind.ENTRY, "status.containerStatuses[0].allocatedResourcesStatus[0]")),
        (
            {"name": "r", "resources": {"a": 1}},
            Flaw(Kind.FIELD, "status.containerStatuses[0].allocatedResourcesStatus[0].resources"),
        ),
        (
            {"name": "r", "resources": ["x"]},
            Flaw(Kind.ENTRY, "status.containerStatuses[0].allocatedResourcesStatus[0].resources[0]"),
        ),
    ],
)
def test_an_odd_entry_costs_itself(odd: object, flaw: Flaw) -> None:
    """Whatever stands where an entry should, the other entries of the pod stay."""
    decoded = read(pod(containerStatuses=[{"name": "c", "ready": True, "allocatedResourcesStatus": [odd, GOOD]}]))
    assert decoded.flaws == (flaw,)
    assert health_of(decoded)["claim:a"] == [("d/p/x", "Unhealthy")]
    assert decoded.value.status.container_statuses[0].ready


def test_an_odd_field_reads_as_absent() -> None:
    """A field of an unexpected type is its default; labels lose only the odd one, so that a hands-off label stays."""
    odd = pod(phase=9, containerStatuses=[{"name": "c", "restartCount": "many"}])
    odd["metadata"]["labels"] = {"sickbay.dev/managed": "false", "x": 1}
    decoded = read(odd)
    assert decoded.value.metadata.labels == {"sickbay.dev/managed": "false"}
    assert decoded.value.status.phase == ""
    assert {(flaw.kind, flaw.path) for flaw in decoded.flaws} == {
        (Kind.ENTRY, "metadata.labels.x"),
        (Kind.FIELD, "status.phase"),
        (Kind.FIELD, "status.containerStatuses[0].restartCount"),
    }


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'{"metadata":{"name":"p"},"status":5}',
        b'{"metadata":{"name":"p"},"spec":[]}',
        b"null",
        b"[]",
        b"{}",
        b'{"metadata":null}',
        b'{"metadata":{"name":5}}',
        b'{"metadata":{}}',
        b'{"metadata":{"name":"\xff"}}',
        b'{"metadata":{"name":"p"}',
        b'{"x":' + b"[" * 100_000,
    ],
)
def test_without_identity_or_content_it_is_undecodable(data: bytes) -> None:
    """What is not JSON, has no name, or something else for its spec or status raises one error."""
    with pytest.raises(Undecodable):
        read_pod(data)


def test_a_required_part_makes_the_whole_undecodable() -> None:
    """A slice without a pool means nothing, a device without a name costs that device."""
    read_slice = Reader(ResourceSlice)
    meta = {"metadata": {"name": "s"}}
    with pytest.raises(Undecodable, match=r"spec\.pool"):
        read_slice(json.dumps(meta | {"spec": {"driver": "d", "pool": 3}}).encode())
    spec = {"driver": "d", "pool": {"name": "p", "generation": 2}, "devices": [{"attributes": {}}, {"name": "x"}]}
    decoded = read_slice(json.dumps(meta | {"spec": spec}).encode())
    assert [device.name for device in decoded.value.spec.devices] == ["x"]
    assert decoded.flaws == (Flaw(Kind.ENTRY, "spec.devices[0]"),)


def test_attributes_of_any_kind_have_a_text() -> None:
    """Strings, versions, numbers and booleans compare as text; kinds of the future read as empty."""
    kinds = [{"string": "a"}, {"version": "1.2.3"}, {"int": 0}, {"bool": False}, {"bool": True}, {"strings": ["a"]}, {}]
    texts = [msgspec.convert(kind, Attribute).text for kind in kinds]
    assert texts == ["a", "1.2.3", "0", "false", "true", "", ""]


def test_an_absent_selector_is_not_an_empty_one() -> None:
    """A rule without selector taints nothing, one with an empty selector everything: they are told apart."""
    read_rule = Reader(DeviceTaintRule)
    meta, spec = {"metadata": {"name": "r"}}, {"taint": {"key": "k", "effect": "NoSchedule"}}
    assert read_rule(json.dumps(meta | {"spec": spec}).encode()).value.spec.device_selector is None
    empty = meta | {"spec": spec | {"deviceSelector": {}}}
    selector = read_rule(json.dumps(empty).encode()).value.spec.device_selector
    assert selector is not None
    assert (selector.driver, selector.pool, selector.device) == (None, None, None)


def test_flaws_told_are_bounded() -> None:
    """An object that is odd all over tells a bounded number of flaws."""
    decoded = read(pod(conditions=[1] * 1000))
    assert len(decoded.flaws) == MAX_FLAWS


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, st.sampled_from(["resources", "name", "x"]), st.integers(0, 2))
def test_no_value_anywhere_costs_the_rest(odd: object, field: str, depth: int) -> None:
    """Any JSON in any place of a status leaves the pod and its good entry readable."""
    entry = {"name": "r", "resources": []} | {field: odd}
    status = {"name": "c", "allocatedResourcesStatus": [GOOD, odd if depth == 0 else entry]}
    more = [{"name": "d", "state": odd}, odd] if depth == 2 else []
    decoded = read(pod(containerStatuses=[status, *more]))
    assert decoded.value.metadata.name == "p"
    assert decoded.value.status.container_statuses[0].allocated_resources_status[0].resources[0].health == "Unhealthy"


def test_workloads_have_the_defaults_of_the_api_server() -> None:
    """What a client leaves out reads as what the API server would fill in, and budgets take numbers and percents."""
    meta = {"metadata": {"name": "x"}}
    job = Reader(Job)(json.dumps(meta | {"spec": {}, "status": None}).encode()).value
    assert (job.spec.backoff_limit, job.spec.parallelism, job.spec.suspend) == (6, 1, False)
    assert Reader(Deployment)(json.dumps(meta).encode()).value.spec.replicas == 1
    budgets = [
        Reader(PodDisruptionBudget)(
            json.dumps(meta | {"spec": {"minAvailable": value}}).encode()
        ).value.spec.min_available
        for value in (1, "50%")
    ]
    assert budgets == [1, "50%"]


@pytest.mark.lab
async def test_what_the_api_server_stores_has_no_flaw(lab: Lab, tmp_path: Path) -> None:
    """A real pod, claim, slice and node decode without a flaw, field by field as they were written."""
    gateway = lab.gateway
    template = {"metadata": {"name": "wire-pod"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    created = read_pod(await gateway.request("POST", PODS.path("default"), body=template))
    claim = {
        "metadata": {"name": "wire-claim"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "none"}}]}},
    }
    held = Reader(ResourceClaim)(await gateway.request("POST", RESOURCECLAIMS.path("default"), body=claim))
    slice_ = {
        "metadata": {"name": "wire-slice"},
        "spec": {
            "driver": "wire.sickbay.dev",
            "nodeName": "wire-node",
            "pool": {"name": "wire", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "x", "attributes": {"uuid": {"string": "u"}, "n": {"int": 3}}}],
        },
    }
    published = Reader(ResourceSlice)(await gateway.request("POST", RESOURCESLICES.path(), body=slice_))
    node = Reader(Node)(await gateway.request("POST", NODES.path(), body={"metadata": {"name": "wire-node"}}))
    await gateway.request("DELETE", RESOURCESLICES.path(name="wire-slice"))
    await gateway.request("DELETE", NODES.path(name="wire-node"))
    await gateway.request("DELETE", RESOURCECLAIMS.path("default", "wire-claim"))
    await gateway.request("DELETE", PODS.path("default", "wire-pod"), body={"gracePeriodSeconds": 0})
    assert created.flaws == held.flaws == published.flaws == node.flaws == ()
    assert created.value.metadata.uid
    assert created.value.spec.containers[0].name == "c"
    assert held.value.status.allocation is None
    (device,) = published.value.spec.devices
    assert {name: attribute.text for name, attribute in device.attributes.items()} == {"uuid": "u", "n": "3"}
