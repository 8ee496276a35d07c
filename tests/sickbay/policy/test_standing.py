"""When a quarantine expires, as its record says."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from sickbay.model.command import Orders
from sickbay.model.incident import ReleaseStage
from sickbay.model.record import Disowning, Phase
from sickbay.policy.standing import expires_at
from tests.builders import NOW, incident, policy

WEEK = NOW + timedelta(days=7)
"""From the first bad word, as the policy has it by default."""

WORD = Disowning(by="eve", reason="needed", incident="incident/x")


@pytest.mark.parametrize(
    ("facts", "expires"),
    [
        ({"phase": Phase.QUARANTINED}, WEEK),
        ({"phase": Phase.SOAKING}, WEEK),
        ({"phase": Phase.NEEDS_OPERATOR}, WEEK),
        ({"phase": Phase.RECOVERING, "policy": policy(quarantine={"expires": "1d"})}, NOW + timedelta(days=1)),
        ({"phase": Phase.RECOVERING, "orders": Orders(kept_until=WEEK + timedelta(days=1))}, WEEK + timedelta(days=1)),
        ({"phase": Phase.RECOVERING, "orders": Orders(kept_until=WEEK - timedelta(days=1))}, WEEK),
        ({"phase": Phase.RECOVERING, "orders": Orders(retiring="ann: worn")}, None),
        ({"phase": Phase.RECOVERING, "orders": Orders(disowned=WORD)}, None),
        ({"phase": Phase.RECOVERING, "policy": policy(mode="shadow")}, None),
        ({"phase": Phase.NEEDS_OPERATOR, "admitted": False}, None),
        ({"phase": Phase.SUSPECT}, None),
        ({"phase": Phase.HELD}, None),
        ({"phase": Phase.RAMPING, "ramped_at": NOW}, None),
        ({"phase": Phase.NEEDS_OPERATOR, "ramped_at": NOW}, None),
        ({"phase": Phase.RELEASING, "release": ReleaseStage.OPENED}, None),
        ({"phase": Phase.RETIRED}, None),
    ],
)
def test_a_quarantine_expires(facts: dict[str, Any], expires: datetime | None) -> None:
    """By its policy, later if a person wants so, and never where there is none."""
    assert expires_at(incident(**facts)) == expires
