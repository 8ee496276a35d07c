"""One lab with Sickbay running for all stories; each plays on devices of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.crash.harness import Ward
from tests.stories.scene import Scene


@pytest.fixture(scope="package")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """Give the lab, and ``sickbay run`` with times in seconds."""
    async with Ward.open(tmp_path_factory.mktemp("stories")) as ward:
        run = await ward.sickbay(migration={"replacement": "5s"})
        await run.ready()
        yield Scene(ward, run)
