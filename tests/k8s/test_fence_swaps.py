"""A fence whose key is changed in place, again and again, while pods come and go that want its device."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Final, TypeVar

import pytest

from k8s.fences import Fence, Fences
from k8s.gateway import MERGE_PATCH, Gateway
from k8s.lab.lab import Lab
from k8s.resources import PODS, RESOURCECLAIMS, RESOURCECLAIMTEMPLATES
from sickbay import errors
from sickbay.model.record import QUARANTINE_KEY, RAMP_KEY
from tests.conftest import AddNodes
from tests.crash.watching import watching
from tests.installation import Installation
from tests.k8s import cluster

pytestmark = pytest.mark.lab

T = TypeVar("T")

SWAPS: Final = 300
LONG: Final = 50
"""One ramp in so many lasts until somebody who opted in has come: the others are over sooner."""

LOAD: Final = {"anybody": 2, "opted-in": 1}
"""Pods of each kind, by the name of their claims' template, that want the device at any time."""


class Books:
    """What a watch shows of the pods and claims of a namespace, write by write.

    Attributes:
        refused: pods for which the scheduler found no device.
        got: claims that ever had one: the kind of each, by uid.
    """

    def __init__(self) -> None:
        self.refused: set[str] = set()
        self.got: dict[str, str] = {}
        self._changed = asyncio.Event()

    def take_pod(self, _: str, pod: dict[str, Any]) -> None:
        """Note what the scheduler says of it."""
        if any(c.get("reason") == "Unschedulable" for c in pod["status"].get("conditions", [])):
            self.refused.add(pod["metadata"]["name"])
        self._changed.set()

    def take_claim(self, _: str, claim: dict[str, Any]) -> None:
        """Note an allocation, and whether the claim tolerates anything."""
        if "allocation" in claim.get("status", {}):
            tolerant = "tolerations" in claim["spec"]["devices"]["requests"][0]["exactly"]
            self.got[claim["metadata"]["uid"]] = "opted-in" if tolerant else "anybody"
        self._changed.set()

    def count(self, kind: str) -> int:
        """Tell how many claims of a kind have had the device."""
        return Counter(self.got.values())[kind]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds of them."""
        async with asyncio.timeout(90):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    async def until_more(self, kind: str) -> None:
        """Wait until one more claim of a kind has the device."""
        before = self.count(kind)
        await self.until(lambda: self.count(kind) > before)


async def test_three_hundred_swaps_let_in_nobody_without_the_toleration(
    lab: Lab, sickbay: Installation, namespace: str, add_nodes: AddNodes
) -> None:
    """Those who opted in get the device again and again while it ramps; the others only when the fence is gone."""
    (node,) = await add_nodes(1, cluster.shape(namespace, devices=1))
    device = cluster.device(namespace, node)
    await templates(lab.gateway, namespace)
    fences = Fences(sickbay.gateway)
    placed = await fences.put(device, 1, incident="incident", effect_key="fence/1")
    async with crowd(lab.gateway, namespace) as books:
        fence = placed.fence
        for n in range(SWAPS // 2):
            fence = await rekeyed(fences, fence, RAMP_KEY, f"ramp/{n}")
            if n % LONG == LONG - 1:
                await books.until_more("opted-in")
            fence = await rekeyed(fences, fence, QUARANTINE_KEY, f"quarantine/{n}")
            assert books.count("anybody") == 0, f"after {n} ramps"
        assert fence.uid == placed.uid
        assert books.count("opted-in") >= SWAPS // 2 // LONG
        assert len(books.refused) > LOAD["anybody"]
        await undisturbed(lambda: lift(fences, fence))
        await books.until_more("anybody")


async def templates(gateway: Gateway, namespace: str) -> None:
    """Make the templates of claims that tolerate nothing, and of those that tolerate a ramp."""
    label = {"metadata": {"labels": {"sickbay.dev/ramp": "allowed"}}}
    await gateway.request("PATCH", f"/api/v1/namespaces/{namespace}", body=label, content_type=MERGE_PATCH)
    await cluster.create_template(gateway, namespace, "anybody", f"{namespace}.example")
    tolerates = {"key": RAMP_KEY, "operator": "Exists", "effect": "NoSchedule"}
    spec = cluster.claim_spec(f"{namespace}.example", tolerations=[tolerates])
    body = {"metadata": {"name": "opted-in"}, "spec": {"spec": spec}}
    await cluster.create(gateway, RESOURCECLAIMTEMPLATES, namespace, body)


@asynccontextmanager
async def crowd(gateway: Gateway, namespace: str) -> AsyncIterator[Books]:
    """Have pods come and go until the block ends, and keep the books from before the first one."""
    books, numbers = Books(), count()

    async def come_and_go(kind: str, name: str) -> None:
        before = books.count(kind)
        await cluster.create_pod(gateway, namespace, name, template=kind)
        # It goes when one of its kind has got the device; who did not opt in, also when the scheduler finds it none.
        refusable = kind == "anybody"
        await books.until(lambda: books.count(kind) > before or (refusable and name in books.refused))
        await cluster.delete(gateway, PODS, namespace, name)

    async def keep_coming(kind: str) -> None:
        while True:
            await come_and_go(kind, f"{kind}-{next(numbers)}")

    async with (
        watching(gateway, PODS.path(namespace), books.take_pod),
        watching(gateway, RESOURCECLAIMS.path(namespace), books.take_claim),
    ):
        comers = [asyncio.create_task(keep_coming(kind)) for kind, many in LOAD.items() for _ in range(many)]
        try:
            yield books
        finally:
            for comer in comers:
                comer.cancel()
            ended = await asyncio.gather(*comers, return_exceptions=True)
        assert [e for e in ended if not isinstance(e, asyncio.CancelledError)] == []


async def rekeyed(fences: Fences, fence: Fence, key: str, effect_key: str) -> Fence:
    """Change the key."""

    async def change() -> Fence | None:
        return await fences.rekey(await fences.get(fence.name), key, effect_key)

    changed = await undisturbed(change)
    assert changed is not None
    return changed


async def lift(fences: Fences, fence: Fence) -> None:
    """Delete a fence, as a release does."""
    free = await fences.unlatch(fence.name, fence.uid, "release/1")
    if free is not None:
        await fences.delete(free.name, free.uid, free.resource_version)


async def undisturbed(write: Callable[[], Awaitable[T]]) -> T:
    """Write something again until Kubernetes has not written the rule's status in between."""
    while True:
        try:
            return await write()
        except errors.Conflict:
            continue
