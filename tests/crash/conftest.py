"""The lab of this tier, which is broken on purpose: one after another, each test on devices of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.crash.harness import Ward


@pytest.fixture(scope="package")
async def opened(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ward]:
    """Start a lab of the tier's own."""
    async with Ward.open(tmp_path_factory.mktemp("ward")) as ward:
        yield ward


@pytest.fixture
async def ward(opened: Ward) -> AsyncIterator[Ward]:
    """Give the tier's lab; no `sickbay run` outlives its test."""
    opened.begin()
    yield opened
    await opened.end_sickbays()
