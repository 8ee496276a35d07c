"""The witness's own watch."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.crash.watching import watching
from tests.k8s.scripted import cut, event, listing, scripted, silence, status, streams


def pod(name: str, version: str) -> dict[str, Any]:
    """Build what is watched."""
    return {"metadata": {"name": name, "resourceVersion": version}}


async def test_a_watch_that_is_ended_or_cut_goes_on_without_a_gap(tmp_path: Path) -> None:
    """Each change is told once, from the last event or bookmark on."""
    told: list[tuple[str, str]] = []
    gone = asyncio.Event()

    def take(what: str, item: dict[str, Any]) -> None:
        told.append((what, item["metadata"]["name"]))
        if what == "DELETED":
            gone.set()

    async with scripted(tmp_path) as (server, gateway):
        server.script.extend(
            [
                listing("5", pod("a", "4")),
                streams(event("ADDED", pod("b", "6"))),
                streams(event("BOOKMARK", pod("", "9")), then=cut()),
                streams(event("DELETED", pod("a", "10")), then=silence()),
            ]
        )
        async with watching(gateway, "/api/v1/pods", take), asyncio.timeout(10):
            await gone.wait()
    assert told == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]
    assert [asked.query["resourceVersion"] for asked in server.asked if asked.watches] == ["5", "6", "9"]


async def test_a_watch_that_has_missed_changes_says_so(tmp_path: Path) -> None:
    """The witness would be wrong, whichever way."""
    async with scripted(tmp_path) as (server, gateway):
        server.script.extend([listing("5"), streams(event("ERROR", status(410, "Expired")), then=silence())])
        with pytest.raises(AssertionError, match="Expired"):
            async with watching(gateway, "/api/v1/pods", lambda *_: None):
                await server.until(lambda: len(server.asked) == 2 and not server.open)
