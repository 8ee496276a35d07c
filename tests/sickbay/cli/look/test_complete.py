"""What a shell offers."""

from __future__ import annotations

import pytest

from sickbay.cli.look.complete import after, of
from sickbay.cli.look.kinds import Kind
from tests.sickbay.cli.look.sights import WARD, key

RECORDS = ["odd", *sorted(key(device).record_name for device in ("gpu-0", "gpu-1", "gpu-2"))]
DEVICES = [f"node-0/gpu-{i}" for i in range(5)]


@pytest.mark.parametrize(
    ("kind", "offered"),
    [
        (None, [*DEVICES, *RECORDS]),
        (Kind.QUARANTINES, [*DEVICES, *RECORDS]),
        (Kind.DEVICES, [device for device in DEVICES if device != "node-0/gpu-1"]),
    ],
)
def test_devices_are_offered_as_well_as_records(kind: Kind | None, offered: list[str]) -> None:
    """Published or with a record; of the kind of devices only those that are published."""
    assert of(WARD, kind) == offered


def test_after_a_pool_its_devices_are_offered() -> None:
    """For who writes node-0 gpu-1."""
    assert after((), DEVICES) == DEVICES
    assert after(("node-0",), [*DEVICES, "node-00/gpu-9", *RECORDS]) == [f"gpu-{i}" for i in range(5)]
    assert after(("node-1",), DEVICES) == []
