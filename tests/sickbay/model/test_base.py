"""What holds for every model."""

from __future__ import annotations

from datetime import timedelta, timezone

import pytest

from sickbay.model.base import format_time
from tests.builders import DEVICE, NOW


def test_a_copy_with_another_part_is_named_anew() -> None:
    """What was worked out from a device's parts is not taken over by a copy that has others."""
    names = {DEVICE.record_name, DEVICE.model_copy(update={"pool": "node-2"}).record_name}
    assert len(names) == 2


@pytest.mark.parametrize("hours", [0, 2, -7])
def test_a_moment_is_written_in_one_form(hours: int) -> None:
    """Whole seconds of UTC, in whichever zone and however exactly it was given."""
    at = (NOW + timedelta(microseconds=217)).astimezone(timezone(timedelta(hours=hours)))
    assert format_time(at) == "2026-01-10 10:00:00Z"
