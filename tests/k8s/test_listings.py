"""Lists that many share."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from k8s.listings import ClaimLister, Shared
from sickbay import errors
from sickbay.model.device import DeviceKey
from tests.k8s.scripted import listing, says, scripted

AT_ONCE = timedelta(0)


class Calls:
    """Counts calls, and lets each end when it is told to."""

    def __init__(self) -> None:
        self.begun = 0
        self.at_once = 0
        self.most = 0
        self.began = asyncio.Event()
        self.go = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self) -> int:
        """Give the number of this call."""
        self.begun += 1
        self.began.set()
        number = self.begun
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            await self.go.wait()
        finally:
            self.at_once -= 1
        if self.error is not None:
            raise self.error
        return number


async def test_all_who_ask_before_a_call_share_it() -> None:
    """A thousand callers at once cost one call."""
    calls = Calls()
    calls.go.set()
    shared = Shared(calls, spacing=AT_ONCE)
    assert set(await asyncio.gather(*(shared.get() for _ in range(1000)))) == {1}


async def test_nobody_is_given_a_call_begun_before_it_asked() -> None:
    """Who asks while a call is under way gets the next one, and there is only one at a time."""
    calls = Calls()
    shared = Shared(calls, spacing=AT_ONCE)
    first = asyncio.create_task(shared.get())
    await calls.began.wait()
    late = [asyncio.create_task(shared.get()) for _ in range(3)]
    calls.go.set()
    assert await first == 1
    assert await asyncio.gather(*late) == [2, 2, 2]
    assert calls.most == 1


async def test_calls_are_spaced() -> None:
    """The second call begins no sooner than a spacing after the first."""
    began: list[float] = []

    async def call() -> None:
        began.append(asyncio.get_running_loop().time())

    shared = Shared(call, spacing=timedelta(milliseconds=100))
    await shared.get()
    await shared.get()
    assert began[1] - began[0] >= 0.099


async def test_an_error_reaches_all_who_share_it_and_no_one_later() -> None:
    """A list that failed is tried anew for the next caller."""
    calls = Calls()
    calls.go.set()
    calls.error = errors.ClusterUnavailable("away")
    shared = Shared(calls, spacing=AT_ONCE)
    results = await asyncio.gather(shared.get(), shared.get(), return_exceptions=True)
    assert [type(r) for r in results] == [errors.ClusterUnavailable] * 2
    calls.error = None
    assert await shared.get() == 2


async def test_who_gives_up_does_not_take_the_others_along() -> None:
    """A caller that is cancelled leaves the shared call running."""
    calls = Calls()
    shared = Shared(calls, spacing=AT_ONCE)
    leaves, stays = asyncio.create_task(shared.get()), asyncio.create_task(shared.get())
    await calls.began.wait()
    leaves.cancel()
    calls.go.set()
    assert await stays == 1
    with pytest.raises(asyncio.CancelledError):
        await leaves


def claim(name: str, device: str, **result: object) -> dict[str, object]:
    """Build an allocated claim as the API server would send it."""
    held = {"request": "r", "driver": "d", "pool": "p", "device": device, **result}
    return {
        "metadata": {"namespace": "a", "name": name, "uid": f"u-{name}"},
        "status": {"allocation": {"devices": {"results": [held]}}},
    }


async def test_claims_are_found_by_device_over_all_pages(tmp_path: Path) -> None:
    """All pages make one snapshot; shares of one device are told once per claim."""
    async with scripted(tmp_path) as (server, gateway):
        server.script += [listing("5", claim("x", "0"), continued="more"), listing("5", claim("y", "1"))]
        held = await ClaimLister(gateway, spacing=AT_ONCE).get()
    assert server.asked[1].query["continue"] == "more"
    assert "resourceVersion" not in server.asked[0].query  # so that it is a quorum list
    key = DeviceKey(cluster="c", driver="d", pool="p", device="1")
    assert [c.metadata.name for c in held.of(key)] == ["y"]
    assert not held.flawed


@pytest.mark.parametrize("odd", [{"metadata": {}}, claim("x", "0", driver=7), 17])
async def test_a_claim_that_cannot_be_read_is_no_proof_of_absence(tmp_path: Path, odd: object) -> None:
    """The other claims count, and the snapshot says that it may lack something."""
    async with scripted(tmp_path) as (server, gateway):
        server.script += [listing("5", odd, claim("y", "1"))]
        held = await ClaimLister(gateway, spacing=AT_ONCE).get()
    assert ("a", "y") in held.by_name
    assert held.flawed


async def test_other_oddities_of_a_claim_cost_nothing(tmp_path: Path) -> None:
    """A strange label does not put in doubt what a claim holds."""
    odd = {**claim("x", "0"), "spec": 7, "metadata": {"namespace": "a", "name": "x", "labels": {"l": 7}}}
    async with scripted(tmp_path) as (server, gateway):
        server.script += [listing("5", odd)]
        held = await ClaimLister(gateway, spacing=AT_ONCE).get()
    assert ("a", "x") in held.by_name
    assert not held.flawed


async def test_what_is_no_list_is_no_answer(tmp_path: Path) -> None:
    """A proxy's page in place of a list counts as no answer at all."""
    async with scripted(tmp_path) as (server, gateway):
        server.script += [says(200, b"<html>")]
        with pytest.raises(errors.ClusterUnavailable):
            await ClaimLister(gateway, spacing=AT_ONCE).get()


async def test_what_did_not_change_is_not_read_again(tmp_path: Path) -> None:
    """The next list holds what changed as it is now, the rest as it was read, and what is odd is as odd as before."""
    odd, same = claim("odd", "0", driver=7), claim("same", "1")
    async with scripted(tmp_path) as (server, gateway):
        server.script += [
            listing("5", odd, same, claim("moves", "2"), claim("goes", "3")),
            listing("6", odd, same, claim("moves", "4")),
        ]
        lister = ClaimLister(gateway, spacing=AT_ONCE)
        first, second = await lister.get(), await lister.get()
    assert second.by_name["a", "same"] is first.by_name["a", "same"]
    assert [d for _, _, d in second.by_device] == ["1", "4"]
    assert first.flawed
    assert second.flawed
