"""What an API server says of itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from k8s.features import Version, features, version
from k8s.lab.build import KUBERNETES
from k8s.lab.lab import Lab
from tests.k8s.scripted import says, scripted


async def test_a_real_one_names_version_gates_and_time(lab: Lab) -> None:
    """All three, without a right that only an administrator has but for the metrics."""
    found = await version(lab.gateway)
    assert found.text == f"v{KUBERNETES}"
    assert found >= Version(1, 34)
    gates = await features(lab.gateway)
    assert (gates["ResourceHealthStatus"], gates["DRAResourcePoolStatus"]) == (True, False)
    date = await lab.gateway.date()
    assert date is not None
    assert abs(date - datetime.now(UTC)) < timedelta(minutes=1)


@pytest.mark.parametrize(
    ("text", "found"), [("v1.30.2-gke.1", Version(1, 30, "v1.30.2-gke.1")), ("odd", Version(0, 0, "odd"))]
)
async def test_a_version_may_have_a_tail_or_none(tmp_path: Path, text: str, found: Version) -> None:
    """Vendors add to it: scripted."""
    async with scripted(tmp_path) as (server, gateway):
        server.script += [says(200, {"gitVersion": text, "minor": "30+"})]
        assert await version(gateway) == found
