"""``sickbay install``: everything of ours that a cluster must hold before the first incident, and that it holds good.

Safe to repeat. An admission policy takes about a second to be enforced (0.8 s measured), so each one is waited for
until it refuses what it is there to refuse; all those attempts are dry runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from importlib.resources import files
from typing import Any, Final

import structlog
import yaml

from k8s.breaker import BREAKERS
from k8s.configmaps import NAMESPACE, ConfigMap
from k8s.control import MEMORY, ControlMap
from k8s.gateway import Gateway
from k8s.impersonation import SERVICE_ACCOUNT, impersonating
from k8s.resources import (
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    CUSTOMRESOURCEDEFINITIONS,
    DEVICECLASSES,
    DEVICEQUARANTINES,
    LEASES,
    NAMESPACES,
    RESOURCECLAIMS,
    ROLEBINDINGS,
    ROLES,
    SERVICEACCOUNTS,
    VALIDATINGADMISSIONPOLICIES,
    VALIDATINGADMISSIONPOLICYBINDINGS,
    Resource,
    served,
)
from k8s.slots import EVICTIONS
from sickbay import errors

log = structlog.get_logger(__name__)

APPLY_PATCH: Final = "application/apply-patch+yaml"

LEADER_LEASE: Final = "sickbay-leader"
"""The leader's Lease in namespace ``sickbay``, whose transitions are the term."""

WITHIN: Final = timedelta(seconds=30)
"""For each thing that has to come into force; the CRD takes 0.1 s and a policy 0.8 s on a quiet machine."""

POLL: Final = 0.1

_FILES: Final = ("namespaces.yaml", "crd.yaml", "rbac.yaml")
_POLICIES: Final = "policies.yaml"

MANIFESTS: Final = (*_FILES, _POLICIES)
"""Files of all objects that an installation consists of, but for what is written at run time."""

_KINDS: Final[Mapping[str, Resource]] = {
    "Namespace": NAMESPACES,
    "ServiceAccount": SERVICEACCOUNTS,
    "DeviceClass": DEVICECLASSES,
    "CustomResourceDefinition": CUSTOMRESOURCEDEFINITIONS,
    "ClusterRole": CLUSTERROLES,
    "ClusterRoleBinding": CLUSTERROLEBINDINGS,
    "Role": ROLES,
    "RoleBinding": ROLEBINDINGS,
    "ValidatingAdmissionPolicy": VALIDATINGADMISSIONPOLICIES,
    "ValidatingAdmissionPolicyBinding": VALIDATINGADMISSIONPOLICYBINDINGS,
}


async def install(gateway: Gateway, *, cluster: str, namespace_id: str, adopt_namespace: bool = False) -> None:
    """Install Sickbay, or bring an installation up to date, and wait until all of it is in force.

    Args:
        gateway: with the rights of a cluster administrator, to impersonate among them.
        cluster: name of this cluster in every device key; for ever the same.
        namespace_id: id of the Temporal namespace that holds the incidents.
        adopt_namespace: go on with another Temporal namespace than before: a person says that the incidents of the old
            one will not run again.

    Raises:
        UsageError: rights are missing, the cluster is too old, or it is recorded with another cluster name or Temporal
            namespace; the text names the remedy.
        UnavailableError: the API server does not answer, or something did not come into force in time.
    """
    adopting = await _check_recorded(gateway, cluster, namespace_id, adopt=adopt_namespace)
    if await served(gateway) is None:
        log.warning("device_taint_rules_not_served", consequence="nothing can be fenced until they are")
    for name in _FILES:
        await _apply_all(gateway, name)
    await _until("DeviceQuarantine is served", lambda: _is_served(gateway))
    await _create_state(gateway, cluster, namespace_id)
    if adopting:
        await ControlMap(gateway).adopt(namespace_id)
        log.warning("temporal_namespace_adopted", namespace_id=namespace_id)
    await _apply_all(gateway, _POLICIES)
    await _until_in_force(gateway)
    log.info("installed", cluster=cluster, namespace_id=namespace_id, server=gateway.server)


def manifests(name: str) -> list[dict[str, Any]]:
    """Read the objects of one of our manifest files, which are part of the package."""
    text = files("k8s").joinpath("manifests", name).read_text(encoding="utf-8")
    return [document for document in yaml.safe_load_all(text) if document]


def resource_of(kind: str) -> Resource:
    """Give the resource type of an object in our manifests."""
    return _KINDS[kind]


async def _check_recorded(gateway: Gateway, cluster: str, namespace_id: str, *, adopt: bool) -> bool:
    """Refuse to mix two clusters or two Temporal namespaces; say whether the namespace changes."""
    try:
        recorded = await ControlMap(gateway).read()
    except errors.UsageError:
        return False  # nothing is installed yet
    except errors.Forbidden as error:
        raise _no_rights(error) from error
    if recorded.cluster != cluster:
        raise errors.UsageError(
            f"this cluster is recorded as {recorded.cluster!r}, and its records carry that name: "
            f"install with --cluster {recorded.cluster}, not {cluster!r}"
        )
    if recorded.namespace_id == namespace_id:
        return False
    if not adopt:
        raise errors.UsageError(
            f"the incidents of this cluster belong to Temporal namespace id {recorded.namespace_id!r}, this one is "
            f"{namespace_id!r}: use the Temporal server of before, or, if its database is lost for good, "
            "install with --adopt-namespace"
        )
    return True


async def _apply_all(gateway: Gateway, name: str) -> None:
    for manifest in manifests(name):
        await _apply(gateway, manifest)


async def _apply(gateway: Gateway, manifest: Mapping[str, Any]) -> None:
    """Server-side apply: fields that others added to our objects stay, ours are set."""
    kind, metadata = manifest["kind"], manifest["metadata"]
    path = _KINDS[kind].path(metadata.get("namespace"), metadata["name"])
    try:
        await gateway.request("PATCH", path, body=manifest, content_type=APPLY_PATCH, params={"force": "true"})
    except errors.Forbidden as error:
        raise _no_rights(error) from error
    except errors.NotFound as error:
        raise errors.UsageError(
            f"{gateway.server} does not serve {manifest['apiVersion']} {kind}, or its namespace is going away "
            f"({error.message}): Sickbay needs Kubernetes 1.34 or later"
        ) from error


async def _create_state(gateway: Gateway, cluster: str, namespace_id: str) -> None:
    """Create what is written at run time, unless it is there. A policy whose Lease is missing refuses everything."""
    lease = {"metadata": {"name": LEADER_LEASE}, "spec": {"leaseTransitions": 0}}
    await _create(gateway.request("POST", LEASES.path(NAMESPACE), body=lease))
    await _create(ControlMap(gateway).create(cluster=cluster, namespace_id=namespace_id))
    for name in (EVICTIONS, BREAKERS, MEMORY):
        await _create(ConfigMap(gateway, name).create({}))


async def _create(creation: Coroutine[Any, Any, object]) -> None:
    try:
        await creation
    except errors.AlreadyExists:
        pass
    except errors.Forbidden as error:
        raise _no_rights(error) from error


async def _is_served(gateway: Gateway) -> bool:
    try:
        await gateway.request("GET", DEVICEQUARANTINES.path(), params={"limit": "1"})
    except errors.NotFound:
        return False
    return True


async def _until_in_force(gateway: Gateway) -> None:
    """Wait until every policy refuses: the administrator's wrong objects, and those of Sickbay's own account."""
    sickbay = impersonating(gateway, SERVICE_ACCOUNT)
    async with sickbay:
        await _until_refused(gateway, "sickbay-records", DEVICEQUARANTINES.path(), impossible_record())
        await _until_refused(gateway, "sickbay-tolerations", RESOURCECLAIMS.path(NAMESPACE), _claim())
        await _until_refused(sickbay, "sickbay-record-term", DEVICEQUARANTINES.path(), impossible_record())
        rules = await served(gateway)
        if rules is not None:
            version = {"apiVersion": rules.api_version}
            await _until_refused(sickbay, "sickbay-fences", rules.path(), version | _fence(device=""))
            await _until_refused(sickbay, "sickbay-fence-term", rules.path(), version | _fence(device="none"))


async def _until_refused(gateway: Gateway, policy: str, path: str, body: Mapping[str, Any]) -> None:
    async def refused() -> bool:
        try:
            await gateway.request("POST", path, body=body, params={"dryRun": "All"})
        except errors.Forbidden as error:
            if policy in error.message:
                return True
            if error.reason == "Forbidden" and "ValidatingAdmissionPolicy" not in error.message:
                raise _no_rights(error) from error
        return False

    await _until(f"admission policy {policy} is enforced", refused)


async def _until(what: str, holds: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    try:
        async with asyncio.timeout(WITHIN.total_seconds()):
            while not await holds():  # noqa: ASYNC110 - another process's state has no event
                await asyncio.sleep(POLL)
    except TimeoutError as error:
        raise errors.UnavailableError(
            f"not so after {WITHIN.total_seconds():g} s: {what}; look at the API server's log, and install again"
        ) from error


def _no_rights(error: errors.Forbidden) -> errors.UsageError:
    return errors.UsageError(f"{error}: install with a kubeconfig of a cluster administrator")


def impossible_record() -> dict[str, Any]:
    """Make a record of no device, by a leader that there never was."""
    return {
        "apiVersion": DEVICEQUARANTINES.api_version,
        "kind": "DeviceQuarantine",
        "metadata": {"name": "sickbay-install"},
        "spec": {
            "cluster": "none",
            "device": {"driver": "none", "pool": "none", "device": "none"},
            "firstBadAt": "1970-01-01T00:00:00Z",
            "incident": "none",
            "statusVersion": "none",
            "run": 1,
            "term": 2**31 - 1,
        },
    }


def _fence(*, device: str) -> dict[str, Any]:
    """Make a fence of no device, complete or not, by a leader that there never was."""
    return {
        "kind": "DeviceTaintRule",
        "metadata": {
            "name": "sickbay-install",
            "labels": {"app.kubernetes.io/managed-by": "sickbay", "sickbay.dev/device": "none"},
            "annotations": {"sickbay.dev/term": str(2**31 - 1)} if device else {},
        },
        "spec": {
            "deviceSelector": {"driver": "none.sickbay.dev", "pool": "none"} | ({"device": device} if device else {}),
            "taint": {"key": "sickbay.dev/quarantine", "effect": "NoSchedule"},
        },
    }


def _claim() -> dict[str, Any]:
    """Make a claim that would take a device out of a quarantine."""
    wanted = {
        "deviceClassName": "sickbay-probe",
        "tolerations": [{"key": "sickbay.dev/quarantine", "operator": "Exists", "effect": "NoSchedule"}],
    }
    return {
        "apiVersion": RESOURCECLAIMS.api_version,
        "kind": "ResourceClaim",
        "metadata": {"name": "sickbay-install"},
        "spec": {"devices": {"requests": [{"name": "device", "exactly": wanted}]}},
    }
