"""What becomes of the node that a device is on: told apart from a device that merely cannot be told. Pure.

Nothing is decided by it but what a person is asked. Whether a node that joins again has the same hardware is decided by
the identity that its driver publishes, as ever.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from sickbay.model.base import tamed
from sickbay.model.contracts import Reading
from sickbay.model.incident import Ask, IncidentState
from sickbay.policy.story import note

NODE_GONE: Final = "NodeGone"
"""Reason of the ask."""


def located(state: IncidentState, reading: Reading, now: datetime) -> IncidentState:
    """Note that the node is gone, or that another object has come in its place, under its name."""
    name = tamed(state.node)
    before, uid = state.node_uid, reading.node_uid or state.node_uid
    after = state.model_copy(update={"node_gone": reading.node_gone, "node_uid": uid})
    if not name:
        return after  # whichever node was read of
    if reading.node_gone:
        return after if state.node_gone else note(after, f"node {name} is gone from the cluster", now)
    if before and uid != before:
        was = f"it was taken out of the cluster and has joined again (uid {tamed(uid)}, {tamed(before)} before)"
        return note(after, f"node {name} is another than it was: {was}", now)
    return note(after, f"node {name} is there again", now) if state.node_gone else after


def gone(state: IncidentState) -> Ask:
    """Say what a person can do about a device whose node is gone."""
    return Ask(
        reason=NODE_GONE,
        remedy=f"node {tamed(state.node)} is gone from the cluster, and the device with it: let it join again under "
        "this name, and the incident goes on by itself; if it is not to come back, 'sickbay retire' ends the incident, "
        "and the fence stays, should the device turn up again",
    )
