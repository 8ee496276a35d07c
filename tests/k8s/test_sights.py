"""What people look at, on a real cluster."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from k8s.fences import Fences
from k8s.lab.lab import Lab
from k8s.lab.nodes.fleet import NodeShape
from k8s.records import Records
from k8s.sights import Sight, follow, look
from sickbay import errors
from sickbay.cli.look.entry import entries
from tests.conftest import AddNodes
from tests.installation import OPERATORS, Installation, a_device, record_spec


async def test_an_operator_sees_records_fences_and_devices(
    sickbay: Installation, lab: Lab, add_nodes: AddNodes
) -> None:
    """The group's rights are enough, and a record comes with its fence."""
    (node,) = await add_nodes(1, NodeShape(devices=1, prefix="seen"))
    key = a_device(pool=node, device="gpu-0")
    record = await Records(sickbay.gateway).create(key, record_spec(key, term=await sickbay.lead()))
    await Fences(sickbay.gateway).put(key, 1, incident=record.spec.incident, effect_key="e")
    async with sickbay.as_user("ann", OPERATORS) as ann:
        sight = await look(ann, slices=True)
    (entry,) = [entry for entry in entries(sight) if entry.name == key.record_name]
    assert (entry.phase, entry.fence) == ("Opening", "Stands")
    assert [s.spec.pool.name for s in sight.slices if s.spec.pool.name == node] == [node]


async def test_a_change_is_told(sickbay: Installation) -> None:
    """First what there is, then what becomes of it; the end is the caller's."""
    seen: asyncio.Queue[Sight] = asyncio.Queue()
    async with sickbay.as_user("ann", OPERATORS) as ann:
        following = asyncio.create_task(follow(ann, seen.put_nowait, slices=False))
        await seen.get()
        key = a_device()
        await Records(sickbay.gateway).create(key, record_spec(key, term=await sickbay.lead()))
        async with asyncio.timeout(20):
            while key.record_name not in [entry.name for entry in entries(await seen.get())]:
                pass
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


async def test_a_stranger_is_refused(sickbay: Installation) -> None:
    """At once, and not after a watch that never begins."""
    async with sickbay.as_user("nobody") as nobody:
        with pytest.raises(errors.Forbidden):
            await look(nobody, slices=False)
        with pytest.raises(errors.Forbidden):
            await follow(nobody, lambda _: None, slices=False)
