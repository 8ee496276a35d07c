"""`sickbay install` on a real API server: safe to repeat, least rights, refusals with a remedy."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from k8s import install as module
from k8s.control import ControlMap
from k8s.fences import Fences
from k8s.gateway import MERGE_PATCH, Gateway, decode
from k8s.install import LEADER_LEASE, install, manifests
from k8s.lab.lab import Lab
from k8s.records import Records
from k8s.resources import CLUSTERROLES, CUSTOMRESOURCEDEFINITIONS, LEASES
from sickbay import errors
from tests.installation import CLUSTER, NAMESPACE_ID, Installation, a_device, record_spec
from tests.k8s.scripted import says, scripted


async def test_again_changes_nothing(sickbay: Installation) -> None:
    """A repeat leaves the term, the pause and the CRD's generation as they are."""
    term = await sickbay.lead()
    crd = CUSTOMRESOURCEDEFINITIONS.path(name="devicequarantines.sickbay.dev")
    await ControlMap(sickbay.admin).pause(who="ada", why="x")
    before = decode(await sickbay.admin.request("GET", crd))["metadata"]["generation"]
    await install(sickbay.admin, cluster=CLUSTER, namespace_id=NAMESPACE_ID)
    assert decode(await sickbay.admin.request("GET", crd))["metadata"]["generation"] == before
    assert await sickbay.term() == term
    assert (await ControlMap(sickbay.admin).read()).paused
    await ControlMap(sickbay.admin).resume()


async def test_a_right_that_was_widened_is_set_back(sickbay: Installation) -> None:
    """What somebody changed in our roles does not survive a repeat."""
    path = CLUSTERROLES.path(name="sickbay")
    before = decode(await sickbay.admin.request("GET", path))["rules"]
    wide = {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}
    await sickbay.admin.request("PATCH", path, body=wide, content_type=MERGE_PATCH)
    await install(sickbay.admin, cluster=CLUSTER, namespace_id=NAMESPACE_ID)
    assert decode(await sickbay.admin.request("GET", path))["rules"] == before


async def test_another_temporal_namespace_needs_a_person(sickbay: Installation) -> None:
    """A new namespace id is refused with both ids and the flag; the flag records it, and back again."""
    with pytest.raises(errors.UsageError, match=f"'{NAMESPACE_ID}'.*'temporal-2'.*--adopt-namespace"):
        await install(sickbay.admin, cluster=CLUSTER, namespace_id="temporal-2")
    assert (await ControlMap(sickbay.admin).read()).namespace_id == NAMESPACE_ID
    await install(sickbay.admin, cluster=CLUSTER, namespace_id="temporal-2", adopt_namespace=True)
    assert (await ControlMap(sickbay.admin).read()).namespace_id == "temporal-2"
    await install(sickbay.admin, cluster=CLUSTER, namespace_id=NAMESPACE_ID, adopt_namespace=True)


async def test_another_cluster_name_is_refused(sickbay: Installation) -> None:
    """The name is part of every device key: it never changes."""
    with pytest.raises(errors.UsageError, match=f"--cluster {CLUSTER}"):
        await install(sickbay.admin, cluster="other", namespace_id=NAMESPACE_ID)


async def test_missing_rights_name_the_remedy(sickbay: Installation) -> None:
    """Whoever may not install is told what was refused, and whose kubeconfig it takes."""
    async with sickbay.as_user("ada") as nobody:
        with pytest.raises(errors.UsageError, match=r"configmaps.*kubeconfig of a cluster administrator"):
            await install(nobody, cluster=CLUSTER, namespace_id=NAMESPACE_ID)
    with pytest.raises(errors.UsageError, match="kubeconfig of a cluster administrator"):
        await install(sickbay.gateway, cluster=CLUSTER, namespace_id=NAMESPACE_ID)


async def test_an_old_cluster_is_told_so(tmp_path: Path) -> None:
    """An API server that does not serve a type we need is named with the version it takes: scripted."""
    async with scripted(tmp_path) as (server, gateway):
        server.script += [says(404)] * 5
        with pytest.raises(errors.UsageError, match=r"does not serve v1 Namespace.*Kubernetes 1\.34"):
            await install(gateway, cluster=CLUSTER, namespace_id=NAMESPACE_ID)


async def test_what_never_comes_into_force_ends(sickbay: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy that is not enforced in time is an error, not a wait for ever."""
    monkeypatch.setattr(module, "WITHIN", timedelta(seconds=0.3))
    lease = {"metadata": {"name": "none"}}
    with pytest.raises(errors.UnavailableError, match="admission policy sickbay-none is enforced"):
        await module._until_refused(sickbay.gateway, "sickbay-none", LEASES.path("sickbay"), lease)


async def test_the_term_has_its_lease(sickbay: Installation) -> None:
    """The Lease that the policies compare with is there from the beginning."""
    lease = decode(await sickbay.admin.request("GET", LEASES.path("sickbay", LEADER_LEASE)))
    assert "leaseTransitions" in lease["spec"]


async def test_a_token_of_the_account_does_the_work(sickbay: Installation, lab: Lab) -> None:
    """What a real token of the account writes passes roles and policies."""
    key = a_device()
    kubeconfig = await lab.kubeconfig_for("sickbay", "sickbay")
    async with await Gateway.connect(kubeconfig=str(kubeconfig)) as gateway:
        records, fences = Records(gateway), Fences(gateway)
        record = await records.create(key, record_spec(key, term=await sickbay.term()))
        placed = await fences.put(key, 1, incident=record.spec.incident, effect_key="e", term=record.spec.term)
        await sickbay.settled(placed.fence.name)
        free = await fences.unlatch(placed.fence.name, placed.uid, "release")
        assert free is not None
        await records.delete(await records.unlatch(record, "close"))


def test_no_rule_is_a_wildcard() -> None:
    """No role of ours names a group, resource or verb by a star, nor what Sickbay must not touch."""
    for manifest in manifests("rbac.yaml"):
        for rule in manifest.get("rules", ()):
            named = {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
            assert not named & {"*", "secrets", "pods/status", "pods/exec", "resourceclaims/status", "impersonate"}


ALLOWED: list[tuple[str, str, str, str, str]] = [
    ("sickbay.dev", "devicequarantines", "create", "", ""),
    ("sickbay.dev", "devicequarantines/status", "patch", "", "x"),
    ("resource.k8s.io", "devicetaintrules", "delete", "", "x"),
    ("resource.k8s.io", "resourceslices", "watch", "", ""),
    ("", "pods", "list", "", ""),
    ("", "pods/eviction", "create", "team", "x"),
    ("coordination.k8s.io", "leases", "watch", "kube-node-lease", ""),
    ("coordination.k8s.io", "leases", "patch", "sickbay", "sickbay-leader"),
    ("", "configmaps", "get", "sickbay", "sickbay-control"),
    ("", "configmaps", "patch", "sickbay", "sickbay-evictions"),
    ("", "configmaps", "patch", "sickbay", "sickbay-probes"),
    ("", "pods", "create", "sickbay-probe", ""),
    ("resource.k8s.io", "resourceclaims", "delete", "sickbay-probe", "x"),
]
DENIED: list[tuple[str, str, str, str, str]] = [
    ("", "pods/status", "patch", "team", "x"),
    ("", "pods", "delete", "team", "x"),
    ("", "pods", "create", "team", ""),
    ("", "pods/exec", "create", "sickbay-probe", "x"),
    ("", "secrets", "get", "sickbay", "x"),
    ("", "nodes", "patch", "", "x"),
    ("", "configmaps", "patch", "sickbay", "sickbay-control"),
    ("resource.k8s.io", "resourceclaims", "create", "team", ""),
    ("resource.k8s.io", "resourceclaims/status", "patch", "sickbay-probe", "x"),
    ("resource.k8s.io", "deviceclasses", "create", "", ""),
    ("coordination.k8s.io", "leases", "patch", "kube-node-lease", "node-1"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies", "delete", "", "x"),
    ("rbac.authorization.k8s.io", "clusterroles", "patch", "", "sickbay"),
]


@pytest.mark.parametrize(
    ("right", "allowed"), [*((right, True) for right in ALLOWED), *((right, False) for right in DENIED)]
)
async def test_sickbay_may_do_its_work_and_no_more(
    sickbay: Installation, right: tuple[str, str, str, str, str], *, allowed: bool
) -> None:
    """The API server's own answer to what the account may do."""
    group, resource, verb, namespace, name = right
    resource, _, subresource = resource.partition("/")
    attributes: dict[str, Any] = {"group": group, "resource": resource, "subresource": subresource, "verb": verb}
    body = {"spec": {"resourceAttributes": attributes | {"namespace": namespace, "name": name}}}
    answer = await sickbay.gateway.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=body)
    assert decode(answer)["status"]["allowed"] is allowed
