"""The resource types that Sickbay touches, and their paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import msgspec

from k8s.gateway import Gateway
from sickbay import errors


def segment(text: str) -> str:
    """Percent-encode one path segment.

    Raises:
        ValueError: empty text, which would name a whole collection, or ``.`` and ``..``, which URL libraries resolve
            even when encoded.
    """
    if text in {"", ".", ".."}:
        raise ValueError(f"{text!r} cannot name a Kubernetes object")
    return quote(text, safe="")


@dataclass(frozen=True, slots=True)
class Resource:
    """One served resource type.

    Attributes:
        group: API group, ``""`` for the core group.
        version: of the group, for example ``v1``.
        plural: name in paths, lower case.
        namespaced: whether objects live in a namespace.
    """

    group: str
    version: str
    plural: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """Value of ``apiVersion`` in a body."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        """Path of the group and version: its discovery document."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Build the path of a collection, an object or its subresource, each part percent-encoded.

        Args:
            namespace: of the object; None lists over all namespaces.
            name: of the object; None is the collection.
            subresource: ``status``, ``eviction``, ….

        Raises:
            ValueError: a part is empty, a namespace is given to a cluster-scoped type or missing for one object of a
                namespaced type, or a subresource has no name.
        """
        if namespace is not None and not self.namespaced:
            raise ValueError(f"{self.plural} are cluster-scoped: no namespace ({namespace!r})")
        if name is not None and namespace is None and self.namespaced:
            raise ValueError(f"{self.plural} are namespaced: name the namespace of {name!r}")
        if subresource is not None and name is None:
            raise ValueError(f"{self.plural}/{subresource} needs a name")
        parts = [self.root]
        if namespace is not None:
            parts += ["namespaces", segment(namespace)]
        parts.append(self.plural)
        parts += [segment(part) for part in (name, subresource) if part is not None]
        return "/".join(parts)


NAMESPACES: Final = Resource("", "v1", "namespaces", namespaced=False)
NODES: Final = Resource("", "v1", "nodes", namespaced=False)
PODS: Final = Resource("", "v1", "pods", namespaced=True)
EVENTS: Final = Resource("events.k8s.io", "v1", "events", namespaced=True)
CONFIGMAPS: Final = Resource("", "v1", "configmaps", namespaced=True)
SERVICEACCOUNTS: Final = Resource("", "v1", "serviceaccounts", namespaced=True)
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", namespaced=True)

RESOURCECLAIMS: Final = Resource("resource.k8s.io", "v1", "resourceclaims", namespaced=True)
RESOURCECLAIMTEMPLATES: Final = Resource("resource.k8s.io", "v1", "resourceclaimtemplates", namespaced=True)
RESOURCESLICES: Final = Resource("resource.k8s.io", "v1", "resourceslices", namespaced=False)
DEVICECLASSES: Final = Resource("resource.k8s.io", "v1", "deviceclasses", namespaced=False)
DEVICETAINTRULES: Final = Resource("resource.k8s.io", "v1", "devicetaintrules", namespaced=False)
DEVICETAINTRULES_V1BETA2: Final = Resource("resource.k8s.io", "v1beta2", "devicetaintrules", namespaced=False)
DEVICETAINTRULES_V1ALPHA3: Final = Resource("resource.k8s.io", "v1alpha3", "devicetaintrules", namespaced=False)
DEVICEQUARANTINES: Final = Resource("sickbay.dev", "v1alpha1", "devicequarantines", namespaced=False)

JOBS: Final = Resource("batch", "v1", "jobs", namespaced=True)
REPLICASETS: Final = Resource("apps", "v1", "replicasets", namespaced=True)
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", namespaced=True)
STATEFULSETS: Final = Resource("apps", "v1", "statefulsets", namespaced=True)
PODDISRUPTIONBUDGETS: Final = Resource("policy", "v1", "poddisruptionbudgets", namespaced=True)

CUSTOMRESOURCEDEFINITIONS: Final = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
VALIDATINGADMISSIONPOLICIES: Final = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", namespaced=False
)
VALIDATINGADMISSIONPOLICYBINDINGS: Final = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings", namespaced=False
)
CLUSTERROLES: Final = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", namespaced=False)
CLUSTERROLEBINDINGS: Final = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", namespaced=False)
ROLES: Final = Resource("rbac.authorization.k8s.io", "v1", "roles", namespaced=True)
ROLEBINDINGS: Final = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", namespaced=True)

TAINT_RULE_VERSIONS: Final = (DEVICETAINTRULES, DEVICETAINTRULES_V1BETA2, DEVICETAINTRULES_V1ALPHA3)
"""Best first: on by default from 1.37, behind a gate and ``--runtime-config`` on 1.36, alpha on 1.34 and 1.35."""


class _Entry(msgspec.Struct):
    name: str = ""


class _Discovery(msgspec.Struct):
    resources: list[_Entry] = []


_DISCOVERY: Final = msgspec.json.Decoder(_Discovery)


async def served(gateway: Gateway, versions: Sequence[Resource] = TAINT_RULE_VERSIONS) -> Resource | None:
    """Find the first of several versions of a type that the API server serves, by discovery.

    Returns:
        The version to use, or None when none is served.

    Raises:
        ClusterError, ClusterUnavailable: discovery itself failed, so that "not served" is not known.
    """
    for resource in versions:
        try:
            answer = await gateway.request("GET", resource.root)
        except errors.NotFound:
            continue
        if any(entry.name == resource.plural for entry in _DISCOVERY.decode(answer).resources):
            return resource
    return None
