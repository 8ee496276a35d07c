"""The ConfigMaps of the installation on a real API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from k8s.configmaps import ConfigMap
from k8s.control import CONTROL, Control, ControlMap, Memory, MemoryMap
from k8s.gateway import MERGE_PATCH
from k8s.resources import CONFIGMAPS
from sickbay import errors
from tests.builders import NOW
from tests.installation import CLUSTER, NAMESPACE_ID, Installation


@pytest.fixture
async def control(sickbay: Installation) -> AsyncIterator[ControlMap]:
    """Give the control map, and leave it as it was."""
    yield ControlMap(sickbay.admin)
    await ControlMap(sickbay.admin).resume()


async def test_a_pause_is_read_live_and_ends(sickbay: Installation, control: ControlMap) -> None:
    """Sickbay's account sees who paused why and until when, and when it is over."""
    until = NOW + timedelta(hours=1)
    await control.pause(who="ada", why="firmware", until=until)
    seen = await ControlMap(sickbay.gateway).read()
    assert seen == Control(CLUSTER, NAMESPACE_ID, paused=True, who="ada", why="firmware", until=until)
    assert seen.paused_at(NOW)
    assert not seen.paused_at(until)
    await control.resume()
    assert await ControlMap(sickbay.gateway).read() == Control(CLUSTER, NAMESPACE_ID)


@pytest.mark.parametrize(
    ("paused", "until", "holds"),
    [("true", "", True), ("yes please", "", True), ("false", "", False), ("", "", False), ("true", "tomorrow", True)],
)
async def test_what_is_not_clear_reads_as_paused(
    sickbay: Installation, control: ControlMap, paused: str, until: str, *, holds: bool
) -> None:
    """A person's edit that is odd stops us: an unclear pause holds, an unclear end is none."""
    await sickbay.admin.request(
        "PATCH",
        CONFIGMAPS.path("sickbay", CONTROL),
        body={"data": {"paused": paused, "until": until}},
        content_type=MERGE_PATCH,
    )
    assert (await control.read()).paused_at(NOW) is holds


async def test_an_end_without_zone_is_utc(sickbay: Installation, control: ControlMap) -> None:
    """A time that a person writes without a zone is taken as UTC."""
    await sickbay.admin.request(
        "PATCH",
        CONFIGMAPS.path("sickbay", CONTROL),
        body={"data": {"paused": "true", "until": NOW.replace(tzinfo=None).isoformat()}},
        content_type=MERGE_PATCH,
    )
    assert (await control.read()).until == NOW


async def test_nobody_pauses_as_sickbay(sickbay: Installation) -> None:
    """Sickbay's own account has no right to change the control map."""
    with pytest.raises(errors.Forbidden):
        await ControlMap(sickbay.gateway).pause(who="sickbay", why="x")


async def test_a_map_that_is_missing_names_the_remedy(sickbay: Installation) -> None:
    """Without an installation the error says how to get one."""
    with pytest.raises(errors.UsageError, match="run 'sickbay install'"):
        await ConfigMap(sickbay.admin, "sickbay-none").read()


async def test_memory_comes_back(sickbay: Installation) -> None:
    """What was stored is loaded by the next process; equal is not written, and who was overtaken must load again."""
    mine, other = MemoryMap(sickbay.gateway), MemoryMap(sickbay.gateway)
    await mine.load()
    memory = Memory(known=frozenset({"a" * 16, "b" * 16}), versions={"pods": "100"})
    await mine.store(memory)
    assert await other.load() == memory
    await mine.store(memory)
    await other.store(Memory())
    with pytest.raises(errors.Conflict):
        await mine.store(Memory(known=frozenset({"c" * 16})))
    assert await mine.load() == Memory()


async def test_unreadable_memory_is_forgotten(sickbay: Installation) -> None:
    """Odd content is no error: what cannot be read was never known."""
    for text in ("{", "[1]"):
        await sickbay.admin.request(
            "PATCH",
            CONFIGMAPS.path("sickbay", "sickbay-memory"),
            body={"data": {"versions": text, "known": ""}},
            content_type=MERGE_PATCH,
        )
        assert await MemoryMap(sickbay.gateway).load() == Memory()
