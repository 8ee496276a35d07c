"""All that stands in the namespace of probes and canaries, whoever sent it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import structlog

from k8s.fences import MANAGED_BY
from k8s.gateway import Gateway
from k8s.listings import list_all
from k8s.probe_objects import PROBE_NAMESPACE, RECORD_ANNOTATION
from k8s.reading import Reader
from k8s.resources import PODS, RESOURCECLAIMS, Resource
from k8s.wire import Meta, Object
from sickbay import errors
from sickbay.model.device import DeviceKey
from sickbay.model.record import DEVICE_ANNOTATION, INCIDENT_ANNOTATION

log = structlog.get_logger(__name__)

_OBJECT: Final = Reader(Object)


@dataclass(frozen=True, slots=True)
class Standing:
    """A trial's pod, or its claim.

    Attributes:
        device: that is tried.
        incident: that sent it.
        record_uid: of the record that the incident acts for.
        leaving: somebody deletes it already.
    """

    resource: Resource
    name: str
    uid: str
    device: DeviceKey
    incident: str
    record_uid: str
    leaving: bool = False


class Trials:
    """Lists and deletes them."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def list(self) -> tuple[Standing, ...]:
        """List pods and claims past every cache; a claim whose pod is there is left out: it goes after it.

        Raises:
            ClusterError, ClusterUnavailable: they could not be listed.
        """
        found: dict[str, Standing] = {}
        for resource in (RESOURCECLAIMS, PODS):
            listed = await list_all(self._gateway, resource, _OBJECT, namespace=PROBE_NAMESPACE)
            standing = (_standing(resource, item.metadata) for item in listed.items)
            found |= {one.name: one for one in standing if one is not None}  # both have one name
        return tuple(found.values())

    async def delete(self, found: Standing) -> None:
        """Delete one by its uid. Gone already, or another by now, is success.

        Raises:
            ClusterError, ClusterUnavailable: it could not be deleted; whether it was is told by the next list.
        """
        body = {"preconditions": {"uid": found.uid}}
        try:
            await self._gateway.request("DELETE", found.resource.path(PROBE_NAMESPACE, found.name), body=body)
        except (errors.NotFound, errors.Conflict):
            log.info("trial_already_gone", kind=found.resource.plural, name=found.name)


def _standing(resource: Resource, meta: Meta) -> Standing | None:
    """Read what an object is for; None of one that is none of ours."""
    notes = meta.annotations
    if meta.labels.get(MANAGED_BY[0]) != MANAGED_BY[1]:
        return None
    try:
        device = DeviceKey.parse(notes.get(DEVICE_ANNOTATION, ""))
    except ValueError:
        return None
    incident, record_uid = notes.get(INCIDENT_ANNOTATION, ""), notes.get(RECORD_ANNOTATION, "")
    if not (incident and record_uid and meta.uid):
        return None
    leaving = bool(meta.deletion_timestamp)
    return Standing(resource, meta.name, meta.uid, device, incident, record_uid, leaving)
