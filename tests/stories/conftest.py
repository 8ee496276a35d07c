"""One lab with Sickbay running for all stories; each plays on devices of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, Final

import pytest
from prometheus_client import CollectorRegistry, Gauge

from tests.crash.harness import Ward
from tests.prometheus import PROGRAM, scraped
from tests.stories.scene import Scene

QUERY: Final = 'sum(story_number{pool="$pool", uuid="$hardware"}) or vector(1)'
"""The number that a story gives its device; 1, which is good, where it gives none."""


@pytest.fixture(scope="package")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """Give the lab, and ``sickbay run`` with times in seconds, which asks a Prometheus where there is one."""
    registry, asks = CollectorRegistry(), dict[str, Any]()
    numbers = Gauge("story_number", "How good a device is.", ["pool", "uuid"], registry=registry)
    async with AsyncExitStack() as stack:
        ward = await stack.enter_async_context(Ward.open(tmp_path_factory.mktemp("stories")))
        if PROGRAM is not None:
            folder = tmp_path_factory.mktemp("prometheus")
            prometheus = await stack.enter_async_context(scraped(registry, folder))
            asks = {"prometheus": prometheus.address, "query": QUERY, "min": 1.0, "check": "1s", "tolerance": "3s"}
        run = await ward.sickbay(migration={"replacement": "5s"}, business=asks)
        await run.ready()
        yield Scene(ward, run, numbers)
