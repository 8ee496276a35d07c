"""A pause that an operator sends from the Temporal UI, with nothing but the browser."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import quote

import pytest
from playwright.async_api import Error, Page, expect

from sickbay.model.command import CommandVerb
from sickbay.model.record import Phase, Record
from tests.crash.jobs import Seat
from tests.k8s.cluster import until
from tests.stories.scene import Scene
from tests.stories.test_commands import ann, paused_by

pytestmark = pytest.mark.lab


async def test_a_pause_from_the_page_of_an_incident(page: Page, scene: Scene, asking: tuple[Seat, Record]) -> None:
    """Sent by the page's own form, it stops the incident; page and record say by whom, until when and why."""
    seat, record = asking
    incident = quote(record.spec.incident, safe="")
    await page.goto(f"{scene.ward.lab.temporal.ui_url}/namespaces/default/workflows/{incident}")
    said = await send(page, CommandVerb.PAUSE, '{"reason": "new firmware"}')
    assert "Stop moving, probing and releasing; the fence stays" in said

    assert await paused_by(scene, seat) == "unverified until somebody resumes: new firmware"
    metadata = page.get_by_role("tab", name="User Metadata").or_(page.get_by_role("link", name="User Metadata"))
    await metadata.first.click()
    details = await shown(page, "Quarantined: paused by unverified until somebody resumes: new firmware")
    assert "pause by unverified: new firmware. paused until somebody resumes; the fence stays" in details
    async with ann(scene) as who:
        assert "it is paused; resume it first" in await who.says(CommandVerb.PROBE_NOW, record.name)
        assert "goes on" in await who.says(CommandVerb.RESUME, record.name)
    await scene.reaches(seat, Phase.NEEDS_OPERATOR)


async def send(page: Page, signal: CommandVerb, data: str) -> str:
    """Choose a signal in the page's form, fill that in, and send it; give what the form says of the signal."""
    await page.get_by_role("button", name="More Actions").click()
    await page.get_by_role("menuitem", name="Send a Signal").click()
    form = page.get_by_role("dialog")
    await form.get_by_test_id("signal-select-button").click()
    choice = form.get_by_role("option").filter(has=page.get_by_text(signal, exact=True))
    said = await choice.inner_text()
    await choice.click()
    await form.get_by_role("textbox", name="Data").click()
    await page.keyboard.insert_text(data)
    await form.get_by_role("button", name="Submit").click()
    await expect(form).to_be_hidden()
    return said


async def shown(page: Page, text: str) -> str:
    """Wait until a frame of the page shows a text, and give all of that frame: new words come in a new one."""

    async def look() -> str | None:
        for frame in page.frames[1:]:
            with suppress(Error):  # it was replaced meanwhile
                found = await frame.inner_text("body")
                if text in found:
                    return found
        return None

    return await until(look, within=60)
