"""What holds for every model."""

from __future__ import annotations

from tests.builders import DEVICE


def test_a_copy_with_another_part_is_named_anew() -> None:
    """What was worked out from a device's parts is not taken over by a copy that has others."""
    names = {DEVICE.record_name, DEVICE.model_copy(update={"pool": "node-2"}).record_name}
    assert len(names) == 2
