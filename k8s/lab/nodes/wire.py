"""The fields that a stand-in node reads of pods, claims and nodes: its own, so that no mistake is made twice."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec


class Wire(msgspec.Struct, frozen=True, rename="camel"):
    """Base: immutable, camelCase on the wire, unknown fields skipped."""


class Meta(Wire, frozen=True):
    """Object metadata."""

    name: str
    uid: str = ""
    namespace: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None


class ClaimUse(Wire, frozen=True):
    """A claim that a container uses: all of it, or one request."""

    name: str
    request: str = ""


class ContainerResources(Wire, frozen=True):
    """A container's resources, as far as they are claims."""

    claims: tuple[ClaimUse, ...] = ()


class Container(Wire, frozen=True):
    """A container of any kind; ``restart_policy`` Always makes an init container a sidecar."""

    name: str
    image: str = ""
    restart_policy: str = ""
    resources: ContainerResources = ContainerResources()


class PodClaim(Wire, frozen=True):
    """The pod's name for a claim, and the claim object's name once it is known."""

    name: str
    resource_claim_name: str | None = None


class PodSpec(Wire, frozen=True):
    """What a pod is made of."""

    node_name: str = ""
    restart_policy: str = "Always"
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resource_claims: tuple[PodClaim, ...] = ()


class ExtendedClaim(Wire, frozen=True):
    """The claim that the scheduler made for extended resources."""

    resource_claim_name: str = ""


class PodStatus(Wire, frozen=True):
    """What others write into a pod's status."""

    phase: str = "Pending"
    resource_claim_statuses: tuple[PodClaim, ...] = ()
    extended_resource_claim_status: ExtendedClaim | None = None


class Pod(Wire, frozen=True):
    """A pod."""

    metadata: Meta
    spec: PodSpec
    status: PodStatus = PodStatus()

    @property
    def deleted(self) -> bool:
        """Whether someone asked for its deletion."""
        return self.metadata.deletion_timestamp is not None

    @property
    def terminal(self) -> bool:
        """Whether it has ended for good."""
        return self.status.phase in {"Succeeded", "Failed"}


class Result(Wire, frozen=True):
    """One allocated device."""

    request: str
    driver: str
    pool: str
    device: str


class Devices(Wire, frozen=True):
    """All devices of an allocation."""

    results: tuple[Result, ...] = ()


class Allocation(Wire, frozen=True):
    """What a claim got."""

    devices: Devices = Devices()


class Consumer(Wire, frozen=True):
    """Who may use a claim now."""

    uid: str
    resource: str = "pods"


class ClaimStatus(Wire, frozen=True):
    """The state of a claim."""

    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()


class Claim(Wire, frozen=True):
    """A ResourceClaim."""

    metadata: Meta
    status: ClaimStatus = ClaimStatus()


class Taint(Wire, frozen=True):
    """A node's taint."""

    key: str


class NodeSpec(Wire, frozen=True):
    """A node's taints."""

    taints: tuple[Taint, ...] = ()


class Node(Wire, frozen=True):
    """A node."""

    metadata: Meta
    spec: NodeSpec = NodeSpec()


Item = TypeVar("Item", Pod, Claim, Node)


class ListMeta(Wire, frozen=True):
    """Where a list stands."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Page(Wire, Generic[Item], frozen=True):
    """One page of a list."""

    metadata: ListMeta
    items: tuple[Item, ...]


class Event(Wire, frozen=True):
    """One line of a watch; the object is decoded once its kind of event is known."""

    type: str
    object: msgspec.Raw
