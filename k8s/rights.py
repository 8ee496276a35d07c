"""May we do what Sickbay needs? The roles in ``manifests/rbac.yaml`` are the one list of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from k8s.gateway import Gateway, decode
from k8s.install import impossible_record, manifests
from k8s.resources import DEVICEQUARANTINES
from sickbay import errors

ROLE: Final = "sickbay"
"""Name of the roles of the processes, in the cluster and in their namespaces."""

_ACCESS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_ACCESS_OF: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_SELF: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class Right(NamedTuple):
    """One verb on one resource."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        """Give it in the words of ``kubectl auth can-i``: ``list leases in namespace kube-node-lease``."""
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        named = f"{resource}/{self.name}" if self.name else resource
        return f"{self.verb} {named}" + (f" in namespace {self.namespace}" if self.namespace else "")


def needed() -> list[Right]:
    """Read what the processes need from the roles that `sickbay install` makes."""
    return [right for role in manifests("rbac.yaml") for right in _rights(role)]


async def user(gateway: Gateway) -> str:
    """Ask the API server who we are.

    Raises:
        ClusterError, ClusterUnavailable: it could not be asked.
    """
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    return str(decode(await gateway.request("POST", _SELF, body=body))["status"]["userInfo"]["username"])


async def held_to_the_term(gateway: Gateway) -> bool:
    """Try whether the API server refuses the decision of a leader that there never was, as it must; a dry run.

    Raises:
        ClusterError, ClusterUnavailable: it could not be tried.
    """
    try:
        await gateway.request("POST", DEVICEQUARANTINES.path(), body=impossible_record(), params={"dryRun": "All"})
    except errors.Forbidden as error:
        return "sickbay-record-term" in error.message
    return False


async def missing(gateway: Gateway) -> list[Right]:
    """Ask the API server which of them we have not.

    Raises:
        ClusterError, ClusterUnavailable: it could not be asked.
    """
    rights = needed()
    allowed = await asyncio.gather(*(_allowed(gateway, right) for right in rights))
    return [right for right, yes in zip(rights, allowed, strict=True) if not yes]


async def missing_to(gateway: Gateway, name: str, groups: Sequence[str]) -> list[Right]:
    """Ask the API server which of them somebody else has not; it takes an administrator to ask.

    Args:
        gateway: whose credentials ask.
        name: full user name of the one asked about.
        groups: that the user is in.

    Raises:
        Forbidden: we may not ask.
        ClusterError, ClusterUnavailable: it could not be asked.
    """
    rights = needed()
    about = {"user": name, "groups": list(groups)}
    allowed = await asyncio.gather(*(_allowed(gateway, right, about) for right in rights))
    return [right for right, yes in zip(rights, allowed, strict=True) if not yes]


async def _allowed(gateway: Gateway, right: Right, about: Mapping[str, Any] | None = None) -> bool:
    resource, _, subresource = right.resource.partition("/")
    attributes = {
        "verb": right.verb,
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        "namespace": right.namespace,
        "name": right.name,
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview" if about else "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes, **(about or {})},
    }
    path = _ACCESS_OF if about else _ACCESS
    return bool(decode(await gateway.request("POST", path, body=body))["status"]["allowed"])


def _rights(role: dict[str, Any]) -> Iterator[Right]:
    if role["kind"] not in {"ClusterRole", "Role"} or role["metadata"]["name"] != ROLE:
        return
    namespace = role["metadata"].get("namespace", "")
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames", [""]):
                        yield Right(verb, group, resource, namespace, name)
