"""Whose word a refusal is: the cluster's, or one about the object that we wrote."""

from __future__ import annotations

import json

import pytest

from k8s.gateway import error_from
from k8s.refusals import by_the_cluster
from tests.k8s.scripted import status

QUOTA = 'pods "x" is forbidden: exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0'
SECURITY = 'pods "x" is forbidden: violates PodSecurity "restricted:latest": unrestricted capabilities'
RIGHTS = 'pods is forbidden: User "system:serviceaccount:sickbay:sickbay" cannot create resource "pods"'
WEBHOOK = (
    'admission webhook "validate.kyverno.svc-fail" denied the request: policy Pod/sickbay-probe/x for resource error'
)
POLICY = (
    "pods \"x\" is forbidden: ValidatingAdmissionPolicy 'signed' with binding 'signed' denied request: unsigned image"
)
OURS = 'Pod "x" is invalid: spec.containers[0].image: Invalid value: " a": must not have leading or trailing whitespace'
AWAY = 'Internal error occurred: failed calling webhook "validate.kyverno.svc-fail": connection refused'


@pytest.mark.parametrize(
    ("code", "message", "theirs"),
    [
        pytest.param(403, QUOTA, True, id="quota"),
        pytest.param(403, SECURITY, True, id="pod security"),
        pytest.param(403, RIGHTS, True, id="missing rights"),
        pytest.param(403, WEBHOOK, True, id="a webhook with the usual status"),
        pytest.param(400, WEBHOOK, True, id="a webhook that chose none"),
        pytest.param(422, WEBHOOK, True, id="a webhook with a status of its own"),
        pytest.param(422, POLICY, True, id="a policy without a reason"),
        pytest.param(422, OURS, False, id="an object that is none"),
        pytest.param(400, "the object provided is unrecognized", False, id="a request that is none"),
        pytest.param(404, 'namespaces "sickbay-probe" not found', False, id="not installed"),
        pytest.param(500, AWAY, False, id="a webhook that is away"),
    ],
)
def test_a_refusal_of_the_cluster_is_told_from_a_fault_of_ours(code: int, message: str, *, theirs: bool) -> None:
    """The first may be mended, and is no reason to think that a step of ours has failed."""
    assert by_the_cluster(error_from(code, json.dumps(status(code, "Any", message)).encode())) is theirs
