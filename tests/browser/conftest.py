"""A browser, and a lab with incidents to look at. Without a browser these tests are skipped, and say how to get one."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Page, async_playwright

from sickbay.model.record import Phase, Record
from tests.crash.harness import Ward
from tests.crash.jobs import Seat
from tests.stories.scene import Scene

HOSTILE = "Xid 79 | [go](http://evil.example) <b>bold</b> www.evil.example a@evil.example \\"
NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="package")
async def page() -> AsyncIterator[Page]:
    """Open one page of a browser that is on the machine: none is downloaded."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(
            f"none of {', '.join(NAMES)} is on PATH; on Debian: apt-get install --no-install-recommends chromium"
        )
    async with async_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]  # as root and in a container it starts with these alone
        browser = await playwright.chromium.launch(executable_path=found, args=arguments)
        yield await browser.new_page(viewport={"width": 1400, "height": 1400})
        await browser.close()


@pytest.fixture(scope="package")
async def scene(page: Page, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """Give a lab with ``sickbay run``, and a namespace that knows the search attributes."""
    async with Ward.open(tmp_path_factory.mktemp("browser")) as ward:
        assert await ward.temporal.register_attributes() == {}
        run = await ward.sickbay(runbook="https://wiki.example/gpu#bad")
        await run.ready()
        yield Scene(ward, run)


@pytest.fixture(scope="package")
async def asking(scene: Scene) -> tuple[Seat, Record]:
    """An incident that asks a person, of a device whose driver writes what it should not."""
    seat = await scene.lone_pod("naked")
    await scene.ward.lab.fleet.break_device(seat.key.pool, seat.key.device, message=HOSTILE)
    return seat, await scene.reaches(seat, Phase.NEEDS_OPERATOR)
