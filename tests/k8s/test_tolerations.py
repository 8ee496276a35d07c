"""Which claims a quarantine does not keep out: as the admission policy sees it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from k8s.tolerations import Claim, Tolerant, _tolerant


def found(request: dict[str, Any], namespace: str = "team") -> Tolerant | None:
    """Look at a claim of one request."""
    body = {"metadata": {"name": "c", "namespace": namespace}, "spec": {"devices": {"requests": [request]}}}
    claim = msgspec.convert(body, Claim)
    return _tolerant("ResourceClaim", claim, claim.spec.devices.requests)


@pytest.mark.parametrize(
    ("request_", "key"),
    [
        (
            {"exactly": {"tolerations": [{"key": "sickbay.dev/quarantine"}], "adminAccess": True}},
            "sickbay.dev/quarantine",
        ),
        ({"exactly": {"tolerations": [{"operator": "Exists"}]}}, ""),
        ({"exactly": {"tolerations": [{"operator": "Exists", "effect": "NoSchedule"}]}}, ""),
        ({"firstAvailable": [{}, {"tolerations": [{"operator": "Exists"}]}]}, ""),
    ],
)
def test_one_that_gets_through_is_found(request_: dict[str, Any], key: str) -> None:
    """By name, or by tolerating everything, in any choice of a request."""
    assert found(request_) == Tolerant("ResourceClaim", "team", "c", key)


@pytest.mark.parametrize(
    "request_",
    [
        {"exactly": {}},
        {"exactly": {"tolerations": [{"key": "vendor.example/slow"}]}},
        {"exactly": {"tolerations": [{"operator": "Exists", "effect": "NoExecute"}]}},
        {"exactly": {"tolerations": [{"operator": "Exists"}], "adminAccess": True}},
    ],
)
def test_one_that_is_kept_out_is_none(request_: dict[str, Any]) -> None:
    """Other keys, other effects, and observers."""
    assert found(request_) is None


def test_probes_may() -> None:
    """Their namespace is the one whose claims tolerate a quarantine."""
    assert found({"exactly": {"tolerations": [{"key": "sickbay.dev/quarantine"}]}}, "sickbay-probe") is None
