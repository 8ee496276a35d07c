"""`sickbay doctor` on the images that a policy names."""

from __future__ import annotations

from pathlib import Path

import pytest

from k8s.clock import utc_now
from sickbay.cli.checkup.devices import probe
from sickbay.cli.checkup.finding import Scene, Severity
from sickbay.temporal import Temporal
from tests.builders import policy
from tests.k8s.scripted import scripted


@pytest.mark.parametrize(
    ("changes", "warned"),
    [
        ({}, ["Probe", "Canary"]),
        ({"probe": {"image": "ours/probe:1"}}, ["Canary"]),
        ({"canary": {"image": "ours/canary:1"}}, ["Probe"]),
        ({"probe": {"image": "ours/probe:1"}, "canary": {"image": "ours/canary:1"}}, []),
        ({"mode": "shadow"}, []),
    ],
)
async def test_a_placeholder_is_told_where_incidents_act(
    tmp_path: Path, changes: dict[str, object], warned: list[str]
) -> None:
    """Each of the two images alone: without either no device comes back by itself."""
    async with scripted(tmp_path) as (_, gateway):
        findings = await probe(Scene(gateway, Temporal("127.0.0.1:9"), policy(**changes), utc_now))
    assert [f.check for f in findings] == ["Probe", "Canary"]
    assert [f.check for f in findings if f.severity is Severity.WARNING] == warned
    assert all(f"{f.check.lower()}.image is the placeholder" in f.what for f in findings if f.check in warned)
