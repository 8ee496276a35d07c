"""The Temporal UI is enough to find an incident and to understand it."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from playwright.async_api import Frame, Page, expect

from sickbay.model.record import Phase, Record
from tests.crash.jobs import Seat
from tests.k8s.cluster import until
from tests.stories.scene import Scene

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
async def ended(scene: Scene) -> tuple[Seat, Record]:
    """An incident that is over."""
    seat = await scene.lone_pod("over")
    await scene.breaks(seat)
    await scene.delete("over")
    await scene.released(seat)
    record = await scene.record(seat)
    assert record is not None
    return seat, record


async def listed(page: Page, scene: Scene, query: str) -> list[str]:
    """Open the list of workflows with a filter, wait until it is filtered, and read the incidents in it."""
    await page.goto(f"{scene.ward.lab.temporal.ui_url}/namespaces/default/workflows?query={quote(query)}")

    async def found() -> list[str]:
        ids = await page.get_by_role("link").filter(has_text="incident/").all_inner_texts()
        return sorted({text for text in ids if text.startswith("incident/")})

    return await until(found, within=30)


async def test_the_list_is_filtered_by_phase_node_and_outcome(
    page: Page, scene: Scene, asking: tuple[Seat, Record], ended: tuple[Seat, Record]
) -> None:
    """Who needs a person, what happened on a node, what came to a good end: each finds its own."""
    (here, asks), (_, over) = asking, ended
    assert await listed(page, scene, f'SickbayPhase="{Phase.NEEDS_OPERATOR}"') == [asks.spec.incident]
    await expect(page.get_by_text("SickbayPhase").first).to_be_visible()
    assert await listed(page, scene, f'SickbayNode="{here.key.pool}"') == [asks.spec.incident]
    assert await listed(page, scene, f'SickbayOutcome="{Phase.RELEASED}"') == [over.spec.incident]
    assert await listed(page, scene, 'SickbayCluster="crash"') == sorted([asks.spec.incident, over.spec.incident])


async def test_the_page_of_an_incident_says_what_it_is_where_it_stands_and_until_when(
    page: Page, scene: Scene, asking: tuple[Seat, Record]
) -> None:
    """Title, what a person is asked, by when it looks again, phases, evidence, numbers, and links to go on from."""
    seat, record = asking
    await listed(page, scene, f'SickbayDevice="{seat.key.driver}/{seat.key.pool}/{seat.key.device}"')
    await page.get_by_role("link", name=record.spec.incident).first.click()
    await (
        page.get_by_role("link", name="User Metadata").or_(page.get_by_role("tab", name="User Metadata")).first.click()
    )

    title = await framed(page, f"{seat.key.device} on {seat.key.pool}: Unhealthy (Reported)")
    assert await title.get_by_role("heading").count() == 0
    details = await framed(page, "looks again by 20")
    heading = await details.get_by_role("heading").first.inner_text()
    assert heading.startswith("NeedsOperator: pod jobs/naked: no controller would start it again")
    text = await details.inner_text("body")
    assert "A person is asked (WillNotMove):" in text
    assert [await cells(details, row) for row in ("phase", "Quarantined", "NeedsOperator")] == [3, 3, 3]
    assert await cells(details, "Pod jobs/naked") == 4
    assert "1 of 3 devices" in text or "0 of 3 devices" in text
    assert f"kubectl get dq {seat.key.record_name}" in text
    runbook = details.get_by_role("link")
    assert [await link.get_attribute("href") for link in await runbook.all()] == ["https://wiki.example/gpu#bad"]


async def test_what_a_driver_wrote_is_text_and_nothing_else(
    page: Page, scene: Scene, asking: tuple[Seat, Record]
) -> None:
    """Neither a link nor HTML nor a cell of a table, in the details that change and in those that do not."""
    _, record = asking
    address = f"{scene.ward.lab.temporal.ui_url}/namespaces/default/workflows/{quote(record.spec.incident, safe='')}"
    await page.goto(address)
    await (
        page.get_by_role("link", name="User Metadata").or_(page.get_by_role("tab", name="User Metadata")).first.click()
    )
    for shown in (await framed(page, "First bad"), await framed(page, "looks again by 20")):
        assert "evil.example" in await shown.inner_text("body")
        assert await shown.locator("a[href*=evil]").count() == 0
        assert await shown.locator("b").count() == 0


async def framed(page: Page, text: str) -> Frame:
    """Find the frame that shows a text: the UI renders Markdown in frames of their own."""

    async def look() -> Frame | None:
        for frame in page.frames[1:]:
            if text in await frame.inner_text("body"):
                return frame
        return None

    return await until(look, within=30)


async def cells(frame: Frame, first: str) -> int:
    """Count the cells of the table row that begins with a text."""
    row = frame.locator("tr", has=frame.locator("td:first-child, th:first-child", has_text=first)).first
    return await row.locator("td, th").count()
