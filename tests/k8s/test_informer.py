"""List and watch: what leads to what, on a scripted server where a real one would not say it, else on the lab."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from k8s import informer as informing
from k8s.gateway import MERGE_PATCH, Gateway
from k8s.informer import Informer
from k8s.lab.lab import Lab
from k8s.resources import CONFIGMAPS, PODS
from k8s.store import Change, Count
from k8s.wire import Object, Pod
from sickbay import errors
from tests.k8s.scripted import Asked, Scripted, cut, event, listing, says, scripted, silence, status, streams


def pod(name: str, version: str, uid: str = "", health: str = "Healthy", device: str = "g") -> dict[str, Any]:
    """Build a pod that holds one device."""
    resources = [{"resourceID": device, "health": health}]
    containers = [{"name": "c", "allocatedResourcesStatus": [{"name": "claim:a", "resources": resources}]}]
    return {
        "metadata": {"name": name, "namespace": "n", "uid": uid or f"u-{name}", "resourceVersion": version},
        "status": {"containerStatuses": containers},
    }


def bookmark(version: str) -> dict[str, object]:
    """Build a BOOKMARK event."""
    return event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": version, "creationTimestamp": None}})


class Seen:
    """What an informer told, and a way to wait for it."""

    def __init__(self) -> None:
        self.changes: list[Change[Any]] = []
        self.pauses: list[float] = []
        self.now = 0.0
        self._moved = asyncio.Event()

    def change(self, change: Change[Any]) -> None:
        """Note a change."""
        self.changes.append(change)
        self._moved.set()

    async def sleep(self, seconds: float) -> None:
        """Note a pause instead of waiting."""
        self.pauses.append(seconds)
        await asyncio.sleep(0)

    def clock(self) -> float:
        """Give the time that the test has set."""
        return self.now

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition on the changes holds."""
        async with asyncio.timeout(20):
            while not holds():
                self._moved.clear()
                await self._moved.wait()

    def verbs(self) -> list[str]:
        """Give all changes so far in a short form, with the uid."""
        found = []
        for change in self.changes:
            item = change.new or change.old
            assert item is not None
            verb = "modified" if change.old and change.new else "added" if change.new else "deleted"
            found.append(f"{verb} {change.key[1]} {item.uid}")
        return found


@asynccontextmanager
async def running(informer: Informer[Any]) -> AsyncIterator[None]:
    """Run an informer until the block ends; its own failure is the test's."""
    task = asyncio.create_task(informer.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()


@asynccontextmanager
async def informed(directory: Path, *script: Any) -> AsyncIterator[tuple[Scripted, Informer[Pod], Seen]]:
    """Run an informer on a scripted server, with a clock that stands still and pauses that take no time."""
    async with scripted(directory) as (server, gateway):
        server.script.extend(script)
        seen = Seen()
        informer = Informer(gateway, PODS, Pod, seen.change, clock=seen.clock, sleep=seen.sleep)
        async with running(informer):
            yield server, informer, seen


def watches(server: Scripted) -> list[Asked]:
    """Give the watches opened so far."""
    return [asked for asked in server.asked if asked.watches]


def lists(server: Scripted) -> list[Asked]:
    """Give the pages asked for so far."""
    return [asked for asked in server.asked if not asked.watches]


async def test_expiry_leads_to_a_list_whose_difference_is_told(tmp_path: Path) -> None:
    """A 410 in the stream leads to a list; what went, came and changed is told; empty closes are slowed down."""
    first = [
        pod("train-0", "6001", "u1", "Unhealthy", "G1"),
        pod("train-1", "6002", "u2", "Healthy", "G2"),
        pod("infer-0", "6003", "u3", "Unhealthy", "G3"),
    ]
    second = [pod("train-0", "9800", "u9", "Healthy", "G7"), pod("train-1", "9900", "u2", "Unhealthy", "G2")]
    expired = status(410, "Expired", "too old resource version: 7001 (9950)")
    invalid = status(500, message='resourceVersion: Invalid value: "None"')
    async with informed(
        tmp_path,
        listing("7001", *first),
        streams(event("ERROR", expired)),
        listing("9950", *second),
        *[streams()] * 5,
        says(500, invalid),
        listing("9950", *second),
    ) as (server, informer, seen):
        await server.until(lambda: len(watches(server)) == 8)
        assert seen.verbs() == [
            "added train-0 u1",
            "added train-1 u2",
            "added infer-0 u3",
            "deleted train-0 u1",
            "added train-0 u9",
            "modified train-1 u2",
            "deleted infer-0 u3",
        ]
        gone = seen.changes[-1].old
        assert gone is not None
        assert gone.object.status.container_statuses[0].allocated_resources_status[0].resources[0].resource_id == "G3"
        assert [asked.query["resourceVersion"] for asked in watches(server)] == ["7001"] + ["9950"] * 7
        assert [asked.query.get("resourceVersion") for asked in lists(server)] == [None] * 3
        assert set(informer.items) == {("n", "train-0"), ("n", "train-1")}
        assert informer.counts[Count.GONE] == 1
        assert informer.counts[Count.FAILURES] == 7
        # Each pause is 0.5 to 1 times twice the one before, so two apart they must grow.
        assert all(later > earlier for earlier, later in zip(seen.pauses, seen.pauses[2:], strict=False))
        seen.now = 42.0
        assert informer.staleness == 42.0


async def test_expiry_as_a_status_leads_to_a_list(tmp_path: Path) -> None:
    """A watch refused with HTTP 410 leads to a list just the same."""
    async with informed(
        tmp_path, listing("5", pod("a", "4")), says(410, status(410, "Expired")), listing("9", pod("b", "8"))
    ) as (server, informer, seen):
        await server.until(lambda: len(watches(server)) == 2)
        assert seen.verbs() == ["added a u-a", "added b u-b", "deleted a u-a"]
        assert informer.problem is None


async def test_a_list_comes_in_pages_and_starts_over_when_one_expires(tmp_path: Path) -> None:
    """Pages are followed by their token; a token that expired costs the list, not what earlier pages told."""
    async with informed(
        tmp_path,
        listing("5", pod("a", "1"), continued="t1"),
        says(410, status(410, "Expired")),
        listing("8", pod("a", "1"), continued="t2"),
        listing("8", pod("b", "2")),
    ) as (server, informer, seen):
        await informer.synced.wait()
        await server.until(lambda: len(watches(server)) == 1)
        assert [asked.query.get("continue") for asked in lists(server)] == [None, "t1", None, "t2"]
        assert {asked.query["limit"] for asked in lists(server)} == {"500"}
        assert seen.verbs() == ["added a u-a", "added b u-b"]
        assert watches(server)[0].query["resourceVersion"] == "8"


async def test_a_cut_watch_resumes_where_it_was(tmp_path: Path) -> None:
    """After a cut the watch goes on from the last event or bookmark, without a list, and nothing is told twice."""
    async with informed(
        tmp_path,
        listing("5", pod("a", "4")),
        streams(event("ADDED", pod("b", "6")), then=cut()),
        streams(event("ADDED", pod("b", "6")), bookmark("20"), then=cut()),
        streams(event("MODIFIED", pod("b", "21")), event("DELETED", pod("a", "22")), then=silence()),
    ) as (server, informer, seen):
        await seen.until(lambda: len(seen.changes) == 4)
        assert seen.verbs() == ["added a u-a", "added b u-b", "modified b u-b", "deleted a u-a"]
        assert [asked.query["resourceVersion"] for asked in watches(server)] == ["5", "6", "20"]
        assert all(asked.query["allowWatchBookmarks"] == "true" for asked in watches(server))
        assert len(lists(server)) == 1
        assert informer.problem is None


async def test_one_odd_object_of_five_hundred_costs_itself(tmp_path: Path) -> None:
    """499 objects arrive; the odd one keeps its last good state, marked, and is not taken for deleted."""
    odd = pod("p7", "600") | {"status": "garbage"}
    async with informed(
        tmp_path,
        listing("5", *[pod(f"p{n}", "1", health="Unhealthy") for n in range(500)]),
        streams(event("ERROR", status(410, "Expired"))),
        listing("700", *[odd if n == 7 else pod(f"p{n}", "2") for n in range(500)]),
        streams(event("MODIFIED", pod("p7", "701"))),
    ) as (server, informer, seen):
        await server.until(lambda: len(watches(server)) == 2)
        assert len(seen.changes) == 1000
        item = seen.changes[507].new
        assert item is not None
        assert item.undecodable
        assert item.object.status.container_statuses[0].allocated_resources_status[0].resources[0].health == "Unhealthy"
        assert informer.counts[Count.UNDECODABLE] == 1
        await seen.until(lambda: len(seen.changes) == 1001)
        assert not informer.items["n", "p7"].undecodable


async def test_a_nameless_object_forbids_conclusions(tmp_path: Path) -> None:
    """A watched object without a name leads to a list; one in a list leaves what the list lacks in place, marked."""
    nameless = {"metadata": {"name": None}}
    async with informed(
        tmp_path,
        listing("5", pod("a", "4"), pod("b", "4")),
        streams(event("MODIFIED", nameless), then=silence()),
        listing("9", pod("a", "8"), nameless),
        streams(event("ERROR", status(410, "Expired"))),
        listing("12", pod("a", "8")),
    ) as (server, informer, seen):
        await server.until(lambda: len(watches(server)) == 2)
        assert informer.items["n", "b"].undecodable
        await server.until(lambda: len(watches(server)) == 3)
        assert seen.verbs() == ["added a u-a", "added b u-b", "modified a u-a", "modified b u-b", "deleted b u-b"]
        assert informer.counts[Count.NAMELESS] == 2


async def test_what_is_no_event_does_no_harm(tmp_path: Path) -> None:
    """An event of an unknown type is passed over and counted, a line that is no event leads to a list."""
    async with informed(
        tmp_path,
        listing("5"),
        streams(event("SPARKLED", {}), event("ADDED", pod("a", "6")), b"<html>\n", then=silence()),
        listing("7", pod("a", "6")),
    ) as (server, informer, seen):
        await server.until(lambda: len(watches(server)) == 2)
        assert seen.verbs() == ["added a u-a"]
        assert informer.counts[Count.ODD_EVENTS] == 1


async def test_a_restored_database_is_a_new_history(tmp_path: Path) -> None:
    """A list older than what we have is believed, its older objects too, and the break is counted and told first."""
    async with informed(
        tmp_path,
        listing("500", pod("a", "400"), pod("b", "410")),
        says(504, status(504, "Timeout", "Too large resource version: 500, current: 90")),
        listing("90", pod("a", "80")),
    ) as (server, informer, seen):
        await server.until(lambda: len(watches(server)) == 2)
        assert seen.verbs() == ["added a u-a", "added b u-b", "modified a u-a", "deleted b u-b"]
        assert (informer.history, informer.counts[Count.HISTORY_BREAKS]) == (1, 1)
        assert watches(server)[1].query["resourceVersion"] == "90"


async def test_a_list_without_a_version_is_no_list(tmp_path: Path) -> None:
    """No watch is opened from nowhere; what is no list, or has no version, is tried again."""
    async with informed(
        tmp_path, listing(None, pod("a", "4")), says(200, b"<html>"), says(200, {"items": 5}), listing("5")
    ) as (server, informer, seen):
        await informer.synced.wait()
        assert len(lists(server)) == 4
        assert seen.changes == []
        assert informer.problem is None
        await server.until(lambda: len(watches(server)) == 1)
        assert watches(server)[0].query["resourceVersion"] == "5"


async def test_refusals_are_waited_out_and_told(tmp_path: Path) -> None:
    """Missing rights and an overloaded server end nothing: the problem is told, and the server's own wait is kept."""
    async with informed(
        tmp_path,
        says(403, status(403, "Forbidden", "no")),
        says(429, status(429, "TooManyRequests"), Retry_After="7"),
        silence(),
    ) as (server, informer, seen):
        await server.until(lambda: len(server.asked) == 3)
        assert isinstance(informer.problem, errors.TooManyRequests)
        assert seen.pauses[0] < 1.0
        assert seen.pauses[1] == 7.0
        assert not informer.synced.is_set()


async def test_a_resync_finds_what_a_watch_did_not_say(tmp_path: Path) -> None:
    """When a resync is due the watch is left for a list, which corrects our copy."""
    due = asyncio.Event()

    async def wait_for_it(_: Any) -> Any:
        await due.wait()

    first = streams(bookmark("6"), then=wait_for_it)
    async with informed(tmp_path, listing("5", pod("a", "4")), first, listing("9", pod("b", "8"))) as (
        server,
        informer,
        seen,
    ):
        await server.until(lambda: len(watches(server)) == 1)
        assert int(watches(server)[0].query["timeoutSeconds"]) == informing.WATCH_AT_MOST
        seen.now = informing.RESYNC.total_seconds()
        due.set()
        await seen.until(lambda: len(seen.changes) == 3)
        assert seen.verbs() == ["added a u-a", "added b u-b", "deleted a u-a"]
        assert informer.counts[Count.LISTS] == 2
        assert informer.staleness == 0


async def test_a_failing_callback_ends_the_informer(tmp_path: Path) -> None:
    """An exception of the callback is a bug and surfaces; it is not retried away."""

    def fail(_: Change[Pod]) -> None:
        raise LookupError

    async with scripted(tmp_path) as (server, gateway):
        server.script.append(listing("5", pod("a", "4")))
        with pytest.raises(LookupError):
            await Informer(gateway, PODS, Pod, fail).run()


async def create(gateway: Gateway, own: str, name: str) -> None:
    """Make a config map that the informer selects."""
    body = {"metadata": {"name": name, "labels": {"informer": "yes"}}}
    await gateway.request("POST", CONFIGMAPS.path(own), body=body)


def of_config_maps(lab: Lab, namespace: str, seen: Seen) -> Informer[Object]:
    """Build an informer of the config maps that `create` makes."""
    params = {"labelSelector": "informer=yes"}
    return Informer(lab.gateway, CONFIGMAPS, Object, seen.change, namespace=namespace, params=params, pause=0.05)


@pytest.mark.lab
async def test_changes_of_a_real_server_arrive_in_order(
    lab: Lab, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Objects listed in several pages, created, changed, replaced and deleted arrive as just that."""
    monkeypatch.setattr(informing, "PAGE_SIZE", 2)
    seen = Seen()
    informer = of_config_maps(lab, namespace, seen)
    for n in range(5):
        await create(lab.gateway, namespace, f"m{n}")
    async with running(informer):
        await informer.synced.wait()
        assert sorted(key[1] for key in informer.items) == [f"m{n}" for n in range(5)]
        first = informer.items[namespace, "m0"]
        patch = {"metadata": {"labels": {"x": "y"}}}
        await lab.gateway.request("PATCH", CONFIGMAPS.path(namespace, "m0"), body=patch, content_type=MERGE_PATCH)
        await lab.gateway.request("DELETE", CONFIGMAPS.path(namespace, "m0"))
        await create(lab.gateway, namespace, "m0")
        await seen.until(lambda: len(seen.changes) == 8)
        assert [verb.split()[0] for verb in seen.verbs()[5:]] == ["modified", "deleted", "added"]
        assert informer.items[namespace, "m0"].uid != first.uid
        assert informer.staleness < 5
        assert informer.counts[Count.LISTS] == 1


@pytest.mark.lab
async def test_a_restart_of_the_server_loses_nothing() -> None:
    """After kill -9 of the API server the watch goes on; a resume from before its memory gets a real 410."""
    seen = Seen()
    async with Lab.start() as lab:
        informer = of_config_maps(lab, "default", seen)
        await create(lab.gateway, "default", "m0")
        async with running(informer):
            await informer.synced.wait()
            await lab.restart_api_server()
            await create(lab.gateway, "default", "m1")
            await lab.gateway.request("DELETE", CONFIGMAPS.path("default", "m0"))
            await seen.until(lambda: [key[1] for key in informer.items] == ["m1"])
            assert informer.history == 0
        late = of_config_maps(lab, "default", seen)
        late._version, late._list_at = "1", float("inf")
        async with running(late):
            await late.synced.wait()
            assert late.counts[Count.GONE] == 1
            assert [key[1] for key in late.items] == ["m1"]
