"""One lab with Sickbay running for all stories; each plays on devices of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.crash.harness import Sickbay, Ward


@pytest.fixture(scope="package")
async def ward(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ward]:
    """Give the lab."""
    async with Ward.open(tmp_path_factory.mktemp("stories"), nodes=1, devices=1) as opened:
        yield opened


@pytest.fixture(scope="package")
async def run(ward: Ward) -> AsyncIterator[Sickbay]:
    """Give ``sickbay run`` with times in seconds."""
    async with ward.sickbay() as running:
        await running.ready()
        yield running
