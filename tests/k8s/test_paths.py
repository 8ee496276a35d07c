"""What a request is about, told from its path."""

from __future__ import annotations

import pytest

from k8s.paths import kind_of


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/api/v1/nodes", "nodes"),
        ("/api/v1/namespaces/team", "namespaces"),
        ("/api/v1/namespaces/team/pods", "pods"),
        ("/api/v1/namespaces/team/pods/train-0", "pods"),
        ("/api/v1/namespaces/team/pods/train-0/eviction", "pods/eviction"),
        ("/apis/resource.k8s.io/v1/devicetaintrules/sickbay-1", "devicetaintrules"),
        ("/apis/sickbay.dev/v1alpha1/devicequarantines/x/status", "devicequarantines/status"),
        ("/apis/resource.k8s.io/v1", "apis"),
        ("/version", "version"),
        ("/", "/"),
    ],
)
def test_a_path_has_a_type_and_no_name(path: str, kind: str) -> None:
    """Names of objects have no bound, types have one."""
    assert kind_of(path) == kind
