"""The lab of this tier: one for each module, for it is broken on purpose."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.crash.harness import Ward


@pytest.fixture(scope="module")
async def opened(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ward]:
    """Start a lab of the module's own."""
    async with Ward.open(tmp_path_factory.mktemp("ward")) as ward:
        yield ward


@pytest.fixture
async def ward(opened: Ward) -> AsyncIterator[Ward]:
    """Give the module's lab; no `sickbay run` outlives its test."""
    yield opened
    await opened.end_sickbays()
