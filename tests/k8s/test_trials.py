"""What stands in the namespace of trials, and its removal, on a real API server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from k8s.gateway import Gateway
from k8s.hardware import Hardware
from k8s.probe_objects import PROBE_NAMESPACE, ProbeStep, claim_body, pod_body
from k8s.resources import PODS, RESOURCECLAIMS
from k8s.trials import Standing, Trials
from k8s.wire import Attribute
from sickbay.model.incident import Trial
from sickbay.model.policy import Canary
from tests.builders import target
from tests.installation import Installation, a_device
from tests.k8s import cluster

pytestmark = pytest.mark.lab

NOBODY = Hardware("gpu.sickbay.dev", "uuid", id="none", unique=True, value=Attribute(string="none"))


async def of(gateway: Gateway, step: ProbeStep) -> list[Standing]:
    """List what there is of a trial."""
    return [found for found in await Trials(gateway).list() if found.name == step.name]


async def test_a_claim_is_listed_once_its_pod_has_gone(sickbay: Installation) -> None:
    """Both say for whom they are; each is deleted by its uid, and one that is another by now is not."""
    step, gateway = ProbeStep(target(a_device()), 3, Trial.CANARY), sickbay.gateway
    await cluster.create(gateway, RESOURCECLAIMS, PROBE_NAMESPACE, claim_body(step, NOBODY))
    await cluster.create(gateway, PODS, PROBE_NAMESPACE, pod_body(step, Canary().image, Canary().timeout, "1"))
    for resource in (PODS, RESOURCECLAIMS):
        (found,) = await of(gateway, step)
        assert found == Standing(
            resource, step.name, found.uid, step.target.device, step.target.incident, step.target.record_uid
        )
        await Trials(gateway).delete(replace(found, uid="another"))
        assert await of(gateway, step) == [found]
        await Trials(gateway).delete(found)

        async def gone(uid: str = found.uid) -> bool:
            return uid not in {left.uid for left in await of(gateway, step)}

        await cluster.until(gone)
        await Trials(gateway).delete(found)
    assert await of(gateway, step) == []


async def test_what_is_none_of_ours_is_not_listed(sickbay: Installation) -> None:
    """Whatever somebody else runs there."""
    step, gateway = ProbeStep(target(a_device()), 3), sickbay.gateway
    body = claim_body(step, NOBODY)
    body["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "somebody"
    await cluster.create(sickbay.admin, RESOURCECLAIMS, PROBE_NAMESPACE, body)
    assert await of(gateway, step) == []
    await cluster.delete(sickbay.admin, RESOURCECLAIMS, PROBE_NAMESPACE, step.name)
