"""How the demo tells where an incident stands."""

from __future__ import annotations

import pytest

from sickbay.cli.demo.stage import _standing, standing
from sickbay.model.record import Admission, AdmissionState, Phase, Record
from sickbay.temporal import Temporal
from tests.installation import a_device, record_spec


@pytest.mark.parametrize(
    ("headline", "told"),
    [
        ("", ("Held", "begins")),
        ("Probing: sends probe 1 to it", ("Probing", "sends probe 1 to it")),
        (
            "Releasing: waits until the fence is gone (looks again by 2026-11-30 22:15:42Z)",
            ("Releasing", "waits until the fence is gone (looks again by 22:15:42Z)"),
        ),
        (
            "Soaking: soaked at 22:15:46Z if it stays well (looks again by 2026-11-30 22:15:42Z)",
            ("Soaking", "soaked at 22:15:46Z if it stays well"),
        ),
    ],
)
def test_headline_is_told_in_the_demos_words(headline: str, told: tuple[str, str]) -> None:
    """Without the date, and with one time at most."""
    assert standing(headline, Phase.HELD) == told


async def test_admitted_record_without_a_phase_is_quarantined() -> None:
    """Its device is fenced before its incident has said anything; nobody is asked."""
    spec = record_spec(a_device(), admission=Admission(state=AdmissionState.ADMITTED))
    record = Record(name="x", uid="1", resource_version="1", spec=spec)
    assert await _standing(Temporal("127.0.0.1:1"), record) == ("Quarantined", "begins")
