"""The fault proxy: transparent until told otherwise, and then exactly as told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from k8s.gateway import Gateway, decode
from k8s.lab.lab import Lab
from k8s.lab.proxy import FaultProxy
from sickbay import errors

pytestmark = pytest.mark.lab


@pytest.fixture
async def proxy(lab: Lab) -> AsyncIterator[FaultProxy]:
    """A proxy of the test's own."""
    async with FaultProxy.start(lab.control_plane) as running:
        yield running


@pytest.fixture
async def through(lab: Lab, proxy: FaultProxy) -> AsyncIterator[Gateway]:
    """The admin, through the proxy."""
    async with await Gateway.connect(kubeconfig=str(proxy.kubeconfig(lab.kubeconfig))) as gateway:
        yield gateway


def maps(namespace: str, name: str = "") -> str:
    """Path of ConfigMaps."""
    return f"/api/v1/namespaces/{namespace}/configmaps" + (f"/{name}" if name else "")


async def create(gateway: Gateway, namespace: str, name: str) -> None:
    """Create a ConfigMap."""
    await gateway.request("POST", maps(namespace), body={"metadata": {"name": name}})


async def exists(gateway: Gateway, namespace: str, name: str) -> bool:
    """Tell whether a ConfigMap is there."""
    try:
        await gateway.request("GET", maps(namespace, name))
    except errors.NotFound:
        return False
    return True


class Watching:
    """Reads a watch of a namespace's ConfigMaps in the background."""

    def __init__(self, gateway: Gateway, namespace: str) -> None:
        self.seen: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.task = asyncio.create_task(self._read(gateway, namespace))

    async def event(self) -> dict[str, Any]:
        """Wait for the next event; the map that each namespace gets does not count."""
        while True:
            event = await asyncio.wait_for(self.seen.get(), 10)
            if event["object"].get("metadata", {}).get("name") != "kube-root-ca.crt":
                return event

    async def named(self) -> str:
        """Wait for the next event, and name its object."""
        return str((await self.event())["object"]["metadata"]["name"])

    async def _read(self, gateway: Gateway, namespace: str) -> None:
        async with aclosing(gateway.stream(maps(namespace), {"watch": "true"}, idle=30)) as lines:
            async for line in lines:
                self.seen.put_nowait(decode(line))


async def test_it_is_transparent(lab: Lab, proxy: FaultProxy, through: Gateway, namespace: str) -> None:
    """Users keep their names, whether they have a certificate or a token; refusals and queries pass as they are."""
    review = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    kubeconfig = proxy.kubeconfig(await lab.kubeconfig_for(namespace, "default"))
    async with await Gateway.connect(kubeconfig=str(kubeconfig)) as account:
        for gateway, name in ((through, "admin"), (account, f"system:serviceaccount:{namespace}:default")):
            answer = decode(await gateway.request("POST", review, body={}))
            assert answer["status"]["userInfo"]["username"] == name
        with pytest.raises(errors.Forbidden):
            await account.request("GET", "/api/v1/nodes")
    await create(through, namespace, "a")
    with pytest.raises(errors.AlreadyExists):
        await create(through, namespace, "a")
    listed = decode(await through.request("GET", maps(namespace), params={"fieldSelector": "metadata.name=a"}))
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a"]


async def test_a_client_without_credentials_stays_without(lab: Lab, proxy: FaultProxy) -> None:
    """The proxy lends nobody its certificates."""
    path = proxy.kubeconfig(lab.kubeconfig)
    path.write_text(path.read_text().replace("token: proxy-", "token: other-"))
    async with await Gateway.connect(kubeconfig=str(path)) as stranger:
        with pytest.raises(errors.Unauthorized):
            await stranger.request("GET", "/api/v1/nodes")


async def test_a_watch_passes_event_by_event(lab: Lab, through: Gateway, namespace: str) -> None:
    """Each event comes when it happens, not when a buffer is full."""
    watching = Watching(through, namespace)
    for name in ("a", "b", "c"):
        await create(lab.gateway, namespace, name)
        assert await watching.named() == name
    watching.task.cancel()


async def test_an_answer_is_held_after_the_request_was_executed(
    lab: Lab, proxy: FaultProxy, through: Gateway, namespace: str
) -> None:
    """What is parked between an effect and its result has happened."""
    hold = proxy.hold("POST", "/configmaps$", when=lambda body: body["metadata"]["name"] != "free")
    held = [asyncio.create_task(create(through, namespace, name)) for name in ("a", "b")]
    await hold.until(2)
    await create(through, namespace, "free")
    assert await exists(lab.gateway, namespace, "a")
    assert await exists(lab.gateway, namespace, "b")
    assert not any(task.done() for task in held)
    assert sorted(call.body["metadata"]["name"] for call in hold.calls) == ["a", "b"]
    hold.release()
    await asyncio.gather(*held)
    await create(through, namespace, "c")
    assert hold.hits == 2


async def test_a_request_is_held_before_it_is_executed(
    lab: Lab, proxy: FaultProxy, through: Gateway, namespace: str
) -> None:
    """It happens on release; if its client is gone by then it never happens."""
    hold = proxy.hold("POST", "/configmaps$", executed=False)
    kept = asyncio.create_task(create(through, namespace, "kept"))
    await hold.arrived.wait()
    with pytest.raises(errors.ClusterUnavailable):
        await through.request("POST", maps(namespace), body={"metadata": {"name": "given-up"}}, wait=0.2)
    assert not await exists(through, namespace, "kept")  # by now the proxy knows that the other client is gone
    hold.release()
    await kept
    assert await exists(lab.gateway, namespace, "kept")
    assert not await exists(lab.gateway, namespace, "given-up")


async def test_what_is_executed_is_waited_for_though_its_client_gave_up(
    proxy: FaultProxy, through: Gateway, namespace: str
) -> None:
    """On a busy machine a client loses patience before the answer comes to the proxy."""
    slow, hold = proxy.hold("POST", "/configmaps$"), proxy.hold("POST", "/configmaps$")
    with pytest.raises(errors.ClusterUnavailable):
        await through.request("POST", maps(namespace), body={"metadata": {"name": "given-up"}}, wait=0.5)
    assert await exists(through, namespace, "given-up")  # by now the proxy knows that its client is gone
    assert not hold.arrived.is_set()
    slow.release()
    async with asyncio.timeout(10):
        await hold.arrived.wait()


@pytest.mark.parametrize("executed", [False, True])
async def test_a_request_fails_as_told(
    lab: Lab, proxy: FaultProxy, through: Gateway, namespace: str, *, executed: bool
) -> None:
    """With a Status object, so many times, before or after it was executed."""
    fault = proxy.fail("POST", "/configmaps$", 429, "TooManyRequests", retry_after=3, executed=executed, times=1)
    with pytest.raises(errors.TooManyRequests, match="told to fail") as caught:
        await create(through, namespace, "a")
    assert caught.value.retry_after == 3
    assert await exists(lab.gateway, namespace, "a") == executed
    await create(through, namespace, "b")
    assert fault.hits == 1


@pytest.mark.parametrize("executed", [False, True])
async def test_a_connection_is_reset_as_told(
    lab: Lab, proxy: FaultProxy, through: Gateway, namespace: str, *, executed: bool
) -> None:
    """The client cannot know which of the two it was."""
    proxy.reset("POST", "/configmaps$", executed=executed, times=1)
    with pytest.raises(errors.ClusterUnavailable):
        await create(through, namespace, "a")
    assert await exists(lab.gateway, namespace, "a") == executed


async def test_a_body_is_rewritten(lab: Lab, proxy: FaultProxy, through: Gateway, namespace: str) -> None:
    """A list comes without what the test took out; writes and watches are left alone."""

    def without_items(body: Any) -> Any:
        return {**body, "items": []}

    fault = proxy.rewrite("GET", "/configmaps$", without_items)
    watching = Watching(through, namespace)
    await create(through, namespace, "a")
    assert decode(await through.request("GET", maps(namespace)))["items"] == []
    assert await watching.named() == "a"
    watching.task.cancel()
    fault.stop()
    assert decode(await through.request("GET", maps(namespace)))["items"] != []


async def test_events_of_a_watch_are_rewritten_and_swallowed(
    lab: Lab, proxy: FaultProxy, through: Gateway, namespace: str
) -> None:
    """One event is another, one never comes, the rest are as they were."""

    def change(event: Any) -> Any:
        match event["object"]["metadata"]["name"]:
            case "swallowed":
                return None
            case "changed":
                event["object"]["metadata"]["name"] = "other"
        return event

    proxy.rewrite("WATCH", "/configmaps$", change)
    watching = Watching(through, namespace)
    for name in ("swallowed", "changed", "plain"):
        await create(lab.gateway, namespace, name)
    assert [await watching.named(), await watching.named()] == ["other", "plain"]
    watching.task.cancel()


async def test_an_open_watch_is_cut(lab: Lab, proxy: FaultProxy, through: Gateway, namespace: str) -> None:
    """Cleanly it just ends, as at the server's time-out; else the connection breaks. Other watches stay."""
    other = Watching(through, "default")
    for clean in (True, False):
        watching = Watching(through, namespace)
        await create(lab.gateway, namespace, f"before-{clean}".lower())
        await watching.named()
        assert proxy.cut(f"/{namespace}/configmaps$", clean=clean) == 1
        if clean:
            await watching.task
        else:
            with pytest.raises(errors.ClusterUnavailable):
                await watching.task
    assert not other.task.done()
    other.task.cancel()


async def test_an_event_is_injected(lab: Lab, proxy: FaultProxy, through: Gateway, namespace: str) -> None:
    """Such as the ERROR by which an API server says that a version is too old."""
    watching = Watching(through, namespace)
    await create(lab.gateway, namespace, "a")
    await watching.named()
    error = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}
    assert await proxy.inject("/configmaps$", error) == 1
    assert await watching.event() == error
    watching.task.cancel()
