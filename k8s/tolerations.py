"""Claims and templates that would be given a device that is out of service.

The admission policy refuses them when they are created; those that were there before it are found here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from k8s.gateway import Gateway
from k8s.informer import PAGE_TIMEOUT
from k8s.listings import list_all
from k8s.reading import Reader
from k8s.resources import RESOURCECLAIMS, RESOURCECLAIMTEMPLATES
from k8s.wire import Object, Wire
from sickbay.model.record import QUARANTINE_KEY

PROBES: Final = "sickbay-probe"
"""The namespace whose claims may ask for such a device."""


class Toleration(Wire, frozen=True):
    """A toleration of device taints; without a key it is of all."""

    key: str = ""
    effect: str = ""


class Wish(Wire, frozen=True):
    """What a request, or one choice of it, asks for."""

    tolerations: tuple[Toleration, ...] = ()
    admin_access: bool = False


class Request(Wire, frozen=True):
    """One request of a claim."""

    exactly: Wish | None = None
    first_available: tuple[Wish, ...] = ()


class Devices(Wire, frozen=True):
    """The requests of a claim."""

    requests: tuple[Request, ...] = ()


class ClaimSpec(Wire, frozen=True):
    """What a claim asks for."""

    devices: Devices = Devices()


class TemplateSpec(Wire, frozen=True):
    """What the claims of a template ask for."""

    spec: ClaimSpec = ClaimSpec()


class Claim(Object, frozen=True):
    """A claim, by what it asks for."""

    spec: ClaimSpec = ClaimSpec()


class Template(Object, frozen=True):
    """A template of claims."""

    spec: TemplateSpec = TemplateSpec()


@dataclass(frozen=True)
class Tolerant:
    """One that a quarantine does not keep out; ``key`` is what it tolerates, ``""`` for everything."""

    kind: str
    namespace: str
    name: str
    key: str


async def tolerant(gateway: Gateway) -> list[Tolerant]:
    """Find all of them.

    Raises:
        Forbidden: we may not list claims and templates of all namespaces.
        ClusterError, ClusterUnavailable: they could not be listed.
    """
    templates = (await list_all(gateway, RESOURCECLAIMTEMPLATES, Reader(Template), wait=PAGE_TIMEOUT)).items
    claims = (await list_all(gateway, RESOURCECLAIMS, Reader(Claim), wait=PAGE_TIMEOUT)).items
    found = [_tolerant("ResourceClaimTemplate", t, t.spec.spec.devices.requests) for t in templates]
    found += [_tolerant("ResourceClaim", c, c.spec.devices.requests) for c in claims]
    return [one for one in found if one is not None]


def _tolerant(kind: str, item: Object, requests: Iterable[Request]) -> Tolerant | None:
    meta = item.metadata
    if meta.namespace == PROBES:
        return None
    keys = {key for request in requests for key in _keys(request)}
    if not keys:
        return None
    return Tolerant(kind, meta.namespace, meta.name, min(keys))


def _keys(request: Request) -> list[str]:
    """Give the keys that let it through, by the rules of the admission policy: an observer's wildcard is fine."""
    admin = request.exactly is not None and request.exactly.admin_access
    wishes = (*([request.exactly] if request.exactly else []), *request.first_available)
    return [
        t.key
        for wish in wishes
        for t in wish.tolerations
        if t.key == QUARANTINE_KEY or (not t.key and t.effect in {"", "NoSchedule"} and not admin)
    ]
